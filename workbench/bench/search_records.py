"""What every rung said of every candidate of a stream and what that cost, kept line by line."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from workbench.bench import lines
from workbench.errors import WorkbenchError
from workbench.measure.records import Kind, PairSamples

BASE = "seed"
"""Name of the candidate that all others are timed against: the first of its stream."""


class Looked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One candidate at one rung, looked at once."""

    problem: str
    family: str
    target: str
    """`sm90`."""
    device: str
    """Name of the GPU, or `cpu`."""
    source: str
    """Versions and day that the numbers hold for."""
    kind: Kind
    """Of every speed that follows from this line; a rung that times nothing is modeled."""
    candidate: str
    """Name in its stream."""
    place: int
    """Place in the stream; the seed's is 0."""
    technique: str = ""
    sha256: str
    """Hash of its normalized source."""
    work: str = ""
    """`GateReport.work`; empty where it did not compile."""
    rung: str
    passed: bool
    """Nothing was found against it, its speed left aside."""
    unproven: bool = False
    code: str = ""
    """Code of the gate's finding."""
    says: str = ""
    modeled_us: float | None = None
    runs: tuple[PairSamples, ...] = ()
    """Sides `candidate` and `parent`, which is the seed."""
    gpu_seconds: float
    """GPU-seconds of the whole rung, including its runs."""
    wall_seconds: float
    begun_seconds: float = 0.0
    """Of these, policy and compiler, which the rungs above do not ask again; 0 in recordings from
    when each rung asked them anew."""
    pairs_seconds: float = 0.0
    """Of the runs, what their pairs took; the rest of a run is setup. 0 where it was not told
    apart."""
    opening_seconds: float = 0.0
    """Of the GPU-seconds, those in which workers were opened beside others; 0 in recordings whose
    GPU-seconds do not include them: there they are what the wall seconds have beyond."""
    sanitizer_seconds: float = 0.0
    """Of both seconds, compute-sanitizer's; 0 where it was not asked or not told apart."""
    counters_seconds: float = 0.0
    """Of the GPU-seconds, those in which the GPU's counters were read; as above."""


def keep(file: Path, looked: Looked) -> None:
    """Append a line; on disk when this returns. Raises WorkbenchError where it cannot be."""
    lines.append(file, looked)


def read(file: Path) -> list[Looked]:
    """What was kept; a last line that a machine's end cut off is left out.

    Raises WorkbenchError, with the line, for what is not a recording, and for lines of several
    GPUs, targets or versions: times of different grounds are never compared.
    """
    command = "workbench bench search --record --keep"
    found: list[Looked] = lines.read(file, Looked, what="no look at a candidate", command=command)
    grounds = sorted({f"{one.source.rpartition(', ')[0]} for {one.target}" for one in found})
    if len(grounds) > 1:
        what = f"one file holds looks on different grounds: {'; '.join(grounds)}"
        raise WorkbenchError(what, where=str(file), todo="give another --keep FILE")
    return found


def known(looked: Sequence[Looked]) -> set[tuple[str, str, str]]:
    """Problem, candidate and rung of every line: what need not be looked at again."""
    return {(one.problem, one.candidate, one.rung) for one in looked}
