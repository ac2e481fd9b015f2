"""What `bench noise` keeps: every sample of every decision, a line each, so that tables can be
made again where no GPU is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from workbench.bench import lines
from workbench.errors import WorkbenchError
from workbench.measure.pairs import PairRule


class Head(Struct, frozen=True, kw_only=True, tag="head"):
    """Where and when, and by which rule."""

    date: str
    gpu: str
    versions: dict[str, str]
    rule: PairRule


class Stream(Struct, frozen=True, kw_only=True, tag="stream"):
    """Pairs that went on whatever they said: the truth of a planted gain, and stuff to resample."""

    kernel: str
    planted: float
    """Percent of time that the incumbent was to take more; 0: the same kernel twice."""
    incumbent_us: tuple[float, ...]
    candidate_us: tuple[float, ...]
    seconds: float
    """Of the held GPU, warm-up aside."""
    table: int = 0
    """Which of the kernel's process pairs: equal numbers are the same processes."""


class Decision(Struct, frozen=True, kw_only=True, tag="decision"):
    """One decision."""

    kernel: str
    planted: float
    how: Literal["one run", "whole"]
    """One run in workers that live on, or the gate's own: workers made, warmed up, and for a gain
    all of it once more."""
    faster: bool
    answer: str
    """Of the run, or of the gate in its words."""
    pairs: int
    seconds: float
    """Of the held GPU; of a whole decision with the warm-ups."""
    ratio: float
    low: float | None
    high: float | None
    incumbent_us: tuple[float, ...] = ()
    candidate_us: tuple[float, ...] = ()
    table: int = 0
    """Of the process pair, as in `Stream`; of a whole decision nothing."""
    doubt: str = ""
    """What its clocks contradicted each other in."""


class Missing(Struct, frozen=True, kw_only=True, tag="missing"):
    """What could not be measured, and why."""

    kernel: str
    says: str


Line = Head | Stream | Decision | Missing


class NoiseFile:
    """A file that grows by a line at a time, so that what was measured outlives an interruption."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.write_bytes(b"")
        except OSError as fault:
            raise WorkbenchError(
                f"the samples cannot be kept: {fault.strerror}",
                where=str(path),
                todo="name another file with --keep",
            ) from fault

    def add(self, line: Line) -> None:
        """Keep one more."""
        lines.append(self._path, line)


def read_lines(path: Path) -> Sequence[Line]:
    """Everything that a file keeps. Raises WorkbenchError for what is no such file."""
    what = "no line of `bench noise`"
    return lines.read(path, Line, what=what, command="workbench bench noise --keep")
