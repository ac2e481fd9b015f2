"""What the judge and the reference's worker tell each other about baselines."""

from msgspec import Struct

from workbench.gate.correctness.protocol import Compared


class TimeRuns(Struct, frozen=True, kw_only=True):
    """Time the reference, or its compiled form. Answered by `Read`."""

    runs: int
    seed: int = 0
    """Seed of the inputs, given in the first message."""


class Read(Struct, frozen=True, kw_only=True):
    """The times in microseconds, in order."""

    us: tuple[float, ...]


class CompileNative(Struct, frozen=True, kw_only=True):
    """Compile the reference and call it once. Answered by `Compiled`."""

    mode: str


class Compiled(Struct, frozen=True, kw_only=True):
    """The result of compiling."""

    seconds: float
    compared: Compared
    """Its first outputs compared with the reference's."""
