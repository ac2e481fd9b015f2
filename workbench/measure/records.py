"""What is known of a kernel's speed, each number with its kind: exact, modeled or measured."""

from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """Where a number comes from. Kinds are never mixed in one ratio."""

    EXACT = "exact"
    """From the compiler."""
    MODELED = "modeled"
    """Computed from counted work."""
    MEASURED = "measured"
    """Read on a GPU."""


class Time(Struct, frozen=True, kw_only=True):
    """Time of one call of a candidate or reference at one shape."""

    kind: Kind
    microseconds: float
    """Median when measured."""
    low: float | None = None
    high: float | None = None
    """Interval of the median, microseconds; None when modeled."""
    samples: int = 0
    device: str = ""
    """Name of the GPU, or of the target when modeled (`sm90`)."""
    detail: dict[str, float] = {}
    """Parts of a modeled time in microseconds (`dram`, `l2`, `fp32`, `tensor`, `launch`, ...)."""


class Speed(Struct, frozen=True, kw_only=True):
    """How many times faster something is than what it is compared with (2.0 = half the time)."""

    kind: Kind
    ratio: float
    low: float | None = None
    high: float | None = None
    """Confidence interval; None when modeled."""
    confidence: float | None = None
    """Of the interval, 0 to 1."""
    pairs: int = 0
    gpu_seconds: float = 0.0
    """For how long the GPU was held alone for it."""

    def says(self) -> str:
        """As a trailer and a screen show it: `1.32 [1.31, 1.33] measured`."""
        known = self.low is not None and self.high is not None
        interval = f" [{self.low:.3f}, {self.high:.3f}]" if known else ""
        return f"{self.ratio:.3f}{interval} {self.kind}"

    def in_full(self) -> str:
        """As a verdict tells it: `1.043x [1.036, 1.050], 99 %, 86 pairs, 0.4 GPU-s`."""
        if self.low is None or self.high is None or self.confidence is None:
            return f"{self.ratio:.3f}x {self.kind}"
        return (
            f"{self.ratio:.3f}x [{self.low:.3f}, {self.high:.3f}], {self.confidence:.0%}, "
            f"{self.pairs} pairs, {self.gpu_seconds:.1f} GPU-s"
        ).replace("%", " %")


class Limit(Struct, frozen=True, kw_only=True):
    """The time that a problem's work would take at the best rates of a GPU (its roofline)."""

    us: float
    says: str
    """`8.59e+09 bytes at 4271 GB/s`."""
    bound: str
    """`memory` or `arithmetic`."""
    source: str
    """`measured ceiling, 2026-11-29`, or `datasheet`."""
    above: str = ""
    """How a time can be below it."""

    def share(self, time: Time) -> float:
        """How much of the limit a time reaches: 1.0 is all of it."""
        return self.us / time.microseconds

    def words(self, time: Time) -> str:
        """`71 % of limit (memory, datasheet)`; above 100 % with how that can be."""
        share = f"{100 * self.share(time):.3g}"
        how = f"; {self.above}" if self.above and float(share) > 100 else ""
        return f"{share} % of limit ({self.bound}, {self.source}{how})"


class PairSamples(Struct, frozen=True, kw_only=True):
    """Every sample of one timing run, in the order of its rounds; nothing is trimmed."""

    run: str
    """`alone`, `first`, `second` (new workers, the other order), `seed`, or `beside` (one run that
    decides nothing)."""
    us: dict[str, tuple[float, ...]]
    """Microseconds by side (`candidate`, `parent`, `seed`, `reference`); equal places pair up."""
    dropped: int = 0
    """Pairs that the clocks spoilt."""
    capped: int = 0
    """Pairs of these that were taken under the GPU's power cap."""
    checked: int = 0
    """Timed outputs that were compared with an answer."""
    gpu_seconds: float = 0.0
    """For how long the GPU was held alone."""
