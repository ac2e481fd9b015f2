"""What interleaved pairs of timings say: a ratio, its interval, and whether that decides anything.

Pure: reads no clock and no device, so the same samples give the same answer next year.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from statistics import median

from msgspec import Struct

from workbench.measure.records import Kind, Speed, Time


class Answer(StrEnum):
    """What the pairs say about the candidate."""

    FASTER = "faster"
    """By more than the threshold, with the stated error."""
    SLOWER = "slower"
    """By more than the threshold, with the stated error."""
    NO_GAIN = "no gain"
    """The interval is narrow enough and holds no gain above the threshold."""
    UNDECIDED = "undecided"
    """More pairs are wanted; at the cap it means: cannot tell."""


class PairRule(Struct, frozen=True, kw_only=True):
    """When pairs decide. Numbers are `gate.md` section 9's, checked there by simulation."""

    threshold: float = 1.01
    """A ratio counts only beyond this, on either side."""
    z: float = 2.58
    """Normal quantile of the order-statistic bounds: 99.5 % on each side."""
    first: int = 60
    """Pairs before the first look."""
    cap: int = 240
    """Pairs after which there is no further look; looks come at `first`, doubled each time."""

    @property
    def confidence(self) -> float:
        """Of the two-sided interval, 0 to 1."""
        return math.erf(self.z / math.sqrt(2))


class PairSummary(Struct, frozen=True, kw_only=True):
    """Pairs reduced to numbers. Ratios are incumbent over candidate: 2.0 is half the time."""

    pairs: int
    ratio: float
    """exp of the median log ratio."""
    low: float
    high: float
    spread: float
    """Interquartile range of the log ratio; 0.01 is about 1 %."""


def summarize(
    incumbent_us: Sequence[float], candidate_us: Sequence[float], rule: PairRule
) -> PairSummary:
    """Median ratio of the pairs and its distribution-free interval from order statistics.

    Samples are microseconds, pair by pair. Raises ValueError on unequal or empty sequences and on
    times that are not positive: a launch that failed is never a number.
    """
    if len(incumbent_us) != len(candidate_us) or not incumbent_us:
        raise ValueError("pairs need two samples each, and at least one pair")
    if min(*incumbent_us, *candidate_us) <= 0:
        raise ValueError("a time must be positive")
    logs = sorted(math.log(a / b) for a, b in zip(incumbent_us, candidate_us, strict=True))
    n = len(logs)
    # The binomial(n, 1/2) count of samples below the median, by its normal approximation.
    below = max(0, math.floor(n / 2 - rule.z * math.sqrt(n) / 2) - 1)
    return PairSummary(
        pairs=n,
        ratio=math.exp(median(logs)),
        low=math.exp(logs[below]),
        high=math.exp(logs[n - 1 - below]),
        spread=logs[(3 * n) // 4] - logs[n // 4],
    )


def answer(summary: PairSummary, rule: PairRule) -> Answer:
    """What these pairs decide under the rule."""
    if summary.low > rule.threshold:
        return Answer.FASTER
    if summary.high < 1 / rule.threshold:
        return Answer.SLOWER
    if summary.high < rule.threshold:
        return Answer.NO_GAIN
    return Answer.UNDECIDED


def next_look(pairs: int, rule: PairRule) -> int | None:
    """How many pairs to have at the next look; None when the cap is reached."""
    if pairs < rule.first:
        return rule.first
    return min(2 * pairs, rule.cap) if pairs < rule.cap else None


def speed(summary: PairSummary, rule: PairRule, gpu_seconds: float) -> Speed:
    """The summary as a record for reports."""
    return Speed(
        kind=Kind.MEASURED,
        ratio=summary.ratio,
        low=summary.low,
        high=summary.high,
        confidence=rule.confidence,
        pairs=summary.pairs,
        gpu_seconds=gpu_seconds,
    )


def measured_time(samples_us: Sequence[float], rule: PairRule, device: str) -> Time:
    """Median of one side with its interval. Raises ValueError without samples."""
    if not samples_us:
        raise ValueError("a measured time needs samples")
    ordered = sorted(samples_us)
    n = len(ordered)
    below = max(0, math.floor(n / 2 - rule.z * math.sqrt(n) / 2) - 1)
    return Time(
        kind=Kind.MEASURED,
        microseconds=median(ordered),
        low=ordered[below],
        high=ordered[n - 1 - below],
        samples=n,
        device=device,
    )
