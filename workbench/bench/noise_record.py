"""Records of `bench noise`: the samples of all decisions, from which its tables are made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from workbench.bench import lines
from workbench.errors import WorkbenchError
from workbench.measure.pairs import PairRule


class Head(Struct, frozen=True, kw_only=True, tag="head"):
    """Where, when and by which rule it was measured."""

    date: str
    gpu: str
    versions: dict[str, str]
    rule: PairRule


class Stream(Struct, frozen=True, kw_only=True, tag="stream"):
    """A fixed number of pairs, for the true size of a planted gain and for resampling."""

    kernel: str
    planted: float
    """By how many percent the incumbent should take longer; 0 for the same kernel twice."""
    incumbent_us: tuple[float, ...]
    candidate_us: tuple[float, ...]
    seconds: float
    """How long the GPU was held, without warm-up."""
    table: int = 0
    """Number of the kernel's process pair: equal numbers are the same processes."""


class Decision(Struct, frozen=True, kw_only=True, tag="decision"):
    """One decision about a pair of kernels."""

    kernel: str
    planted: float
    how: Literal["one run", "whole"]
    """One run in workers that are kept, or a whole decision of the gate: with new workers, warm-up
    and, for a gain, a confirmation."""
    faster: bool
    answer: str
    """The run's answer, or the gate's outcome."""
    pairs: int
    seconds: float
    """How long the GPU was held; for a whole decision, including warm-up."""
    ratio: float
    low: float | None
    high: float | None
    incumbent_us: tuple[float, ...] = ()
    candidate_us: tuple[float, ...] = ()
    table: int = 0
    """Number of the process pair, as in `Stream`; 0 for a whole decision."""
    doubt: str = ""
    """How its clocks contradicted each other; empty if they did not."""


class Missing(Struct, frozen=True, kw_only=True, tag="missing"):
    """What could not be measured, and why."""

    kernel: str
    says: str


Line = Head | Stream | Decision | Missing


class NoiseFile:
    """A file to which each line is appended at once, so that an interruption loses nothing."""

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
        """Append a line."""
        lines.append(self._path, line)


def read_lines(path: Path) -> Sequence[Line]:
    """All lines of a file. Raises WorkbenchError if it is not such a file."""
    what = "no line of `bench noise`"
    return lines.read(path, Line, what=what, command="workbench bench noise --keep")
