"""What the judge and the reference's worker tell each other about baselines."""

from msgspec import Struct

from workbench.gate.correctness.protocol import Compared


class TimeRuns(Struct, frozen=True, kw_only=True):
    """Run the reference, or what was compiled of it, on the clock. Answered by `Read`."""

    runs: int
    seed: int = 0
    """Seed of the inputs; given with the first message."""


class Read(Struct, frozen=True, kw_only=True):
    """What the clock said, microseconds, in order."""

    us: tuple[float, ...]


class CompileNative(Struct, frozen=True, kw_only=True):
    """Compile the reference and call it once. Answered by `Compiled`."""

    mode: str


class Compiled(Struct, frozen=True, kw_only=True):
    """It is compiled."""

    seconds: float
    compared: Compared
    """Its first outputs against the reference's answers."""
