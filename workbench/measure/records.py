"""Records of times and speeds, each number with its kind: exact, modeled or measured."""

from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """Where a number comes from. Kinds are never mixed in one ratio."""

    EXACT = "exact"
    """Given by the compiler."""
    MODELED = "modeled"
    """Computed from counted work."""
    MEASURED = "measured"
    """Read on a GPU."""


FLOOR = "floor"
"""Key of `Time.detail` for the time of the problem's compulsory bytes: a bound, not a part."""


class Time(Struct, frozen=True, kw_only=True):
    """Time of one call of a candidate or reference at one shape."""

    kind: Kind
    microseconds: float
    """The median of the samples when measured."""
    low: float | None = None
    high: float | None = None
    """Ends of the median's interval in microseconds; None when modeled, or with few samples."""
    samples: int = 0
    """Number of samples; 0 when modeled."""
    device: str = ""
    """Name of the GPU, or of the target when modeled (`sm90`)."""
    detail: dict[str, float] = {}
    """Parts of a modeled time in microseconds (`dram`, `l2`, `fp32`, `tensor`, `launch`, ...), and
    `FLOOR`."""


class Speed(Struct, frozen=True, kw_only=True):
    """How many times faster something is than what it is compared with (2.0 = half the time)."""

    kind: Kind
    ratio: float
    low: float | None = None
    high: float | None = None
    """Ends of the confidence interval; None when modeled, or with too few pairs."""
    confidence: float | None = None
    """Confidence of the interval, 0 to 1."""
    pairs: int = 0
    """Number of pairs; 0 when modeled."""
    gpu_seconds: float = 0.0
    """How long the GPU was held alone to measure it."""

    @property
    def paired(self) -> float | None:
        """The ratio of measured pairs, to four places as cards keep it; None when modeled."""
        return round(self.ratio, 4) if self.kind is Kind.MEASURED else None

    def says(self) -> str:
        """Short form, for trailers and screens: `1.320 [1.310, 1.330] measured`."""
        known = self.low is not None and self.high is not None
        interval = f" [{self.low:.3f}, {self.high:.3f}]" if known else ""
        return f"{self.ratio:.3f}{interval} {self.kind}"

    def in_full(self) -> str:
        """Long form, for verdicts: `1.043x [1.036, 1.050], 99 %, 86 pairs, 0.4 GPU-s`."""
        if self.low is None or self.high is None or self.confidence is None:
            return f"{self.ratio:.3f}x {self.kind}"
        return (
            f"{self.ratio:.3f}x [{self.low:.3f}, {self.high:.3f}], {self.confidence:.0%}, "
            f"{self.pairs} pairs, {self.gpu_seconds:.1f} GPU-s"
        ).replace("%", " %")


class Limit(Struct, frozen=True, kw_only=True):
    """The time that a problem's work would take at the best rates of a GPU (its roofline)."""

    us: float
    """Microseconds."""
    says: str
    """How it was computed: `8.59e+09 bytes at 4271 GB/s`."""
    bound: str
    """What binds: `memory` or `arithmetic`."""
    source: str
    """Where the rates come from: `measured ceiling, 2026-11-29`, or `datasheet`."""
    above: str = ""
    """How a time can be shorter than this limit."""

    def share(self, time: Time) -> float:
        """The share of the limit that a time reaches; 1.0 is the limit itself."""
        return self.us / time.microseconds

    def words(self, time: Time) -> str:
        """`71 % of limit (memory, datasheet)`; above 100 %, also how that is possible."""
        share = f"{100 * self.share(time):.3g}"
        how = f"; {self.above}" if self.above and float(share) > 100 else ""
        return f"{share} % of limit ({self.bound}, {self.source}{how})"


class PairSamples(Struct, frozen=True, kw_only=True):
    """Every sample of one timing run, in the order of its rounds; nothing is trimmed."""

    run: str
    """Which run: `alone`, `first`, `second` (new workers, the other order), `seed`, or `beside`
    (a run that decides nothing)."""
    us: dict[str, tuple[float, ...]]
    """Microseconds by side (`candidate`, `parent`, `seed`, `reference`); equal indices pair up."""
    dropped: int = 0
    """Pairs discarded because the clocks changed."""
    capped: int = 0
    """Pairs kept in `us` that were taken under the GPU's power cap."""
    checked: int = 0
    """Timed outputs that were compared with an expected answer."""
    gpu_seconds: float = 0.0
    """How long the GPU was held alone."""
