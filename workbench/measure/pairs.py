"""The ratio that interleaved pairs of timings show, its interval, and what that decides.

Pure: reads no clock and no device, so the same samples always give the same answer.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from statistics import median

from msgspec import Struct

from workbench.measure.records import Kind, Speed, Time
from workbench.measure.sequential import looks, rank_at


class Answer(StrEnum):
    """What the pairs say about the candidate."""

    FASTER = "faster"
    """Faster by more than the threshold, with the rule's `error`."""
    SLOWER = "slower"
    """Slower by more than the threshold, with the rule's `error`."""
    NO_GAIN = "no gain"
    """Not faster by more than the threshold, with the rule's `miss`."""
    UNDECIDED = "undecided"
    """More pairs are needed; at the cap, it cannot be told."""


class PairRule(Struct, frozen=True, kw_only=True):
    """When pairs decide. Bounds come from `measure.sequential` and hold at all looks together."""

    threshold: float = 1.01
    """A ratio counts only beyond this, on either side (gate protocol, section 9.4). Below 1 it is
    a floor: the candidate may be slower, but not by more than this."""
    error: float = 0.005
    """One-sided error of the whole sequence of looks: 99.5 % on each side (gate protocol, section
    9.4)."""
    miss: float = 0.025
    """One-sided error of "no gain" (ours). Larger than `error`, because a missed gain costs one
    attempt, while later steps build on a false one. A gain well above the threshold is never
    missed."""
    first: int = 14
    """Pairs before the first look, which decides if all of them lie beyond the threshold."""
    apart_us: float = 0.3
    """Constant difference, in microseconds, between two processes that run the same kernel (ours).
    On an H200 the same 5.8 us kernel read 1.028x in two workers and 0.983x in two others, over
    hundreds of pairs each: 0.16 us at most. Kernels from 36 us up showed no more (`workbench bench
    noise`). More pairs do not reveal it, so it widens every interval."""
    cap: int = 960
    """Pairs at the last look (ours: enough to find a gain of 2 % at 5 % jitter per pair)."""

    @property
    def slower_below(self) -> float:
        """A ratio below this means that the candidate is slower."""
        return min(self.threshold, 1 / self.threshold)

    @property
    def confidence(self) -> float:
        """Confidence of the two-sided interval, 0 to 1."""
        return 1 - 2 * self.error


class PairSummary(Struct, frozen=True, kw_only=True):
    """Pairs reduced to numbers. Ratios are incumbent over candidate: 2.0 is half the time."""

    pairs: int
    ratio: float
    """exp of the median log ratio."""
    low: float
    high: float
    """Ends of the interval of the ratio: `pairs_low` and `pairs_high`, widened by `apart`."""
    pairs_low: float
    pairs_high: float
    """Ends of the interval of the pairs, with the rule's confidence at all looks together."""
    apart: float
    """The rule's `apart_us` as a share of the shorter time."""
    most: float
    """Upper end of the interval with the rule's `miss`; it decides that there is no gain."""
    spread: float
    """Interquartile range of the log ratio; 0.01 is about 1 %."""


def summarize(
    incumbent_us: Sequence[float], candidate_us: Sequence[float], rule: PairRule
) -> PairSummary:
    """Median ratio of the pairs and its distribution-free interval from order statistics.

    The intervals at all looks together contain the true median with the rule's confidence, so one
    may stop at any look. With too few pairs for the rule's error the ends are 0 and infinity.
    Samples are microseconds, in order of pairs. Raises ValueError when the sequences are empty or
    of different lengths, or when a time is not positive: a failed launch is never a number.
    """
    if len(incumbent_us) != len(candidate_us) or not incumbent_us:
        raise ValueError("pairs need two samples each, and at least one pair")
    if min(*incumbent_us, *candidate_us) <= 0:
        raise ValueError("a time must be positive")
    logs = sorted(math.log(a / b) for a, b in zip(incumbent_us, candidate_us, strict=True))
    low, high = _ends(logs, rule, rule.error)
    _, most = _ends(logs, rule, rule.miss)
    n = len(logs)
    apart = rule.apart_us / min(median(incumbent_us), median(candidate_us))
    pairs_low = 0.0 if low is None else math.exp(low)
    pairs_high = math.inf if high is None else math.exp(high)
    return PairSummary(
        pairs=n,
        ratio=math.exp(median(logs)),
        low=pairs_low / (1 + apart),
        high=pairs_high * (1 + apart),
        pairs_low=pairs_low,
        pairs_high=pairs_high,
        apart=apart,
        most=math.inf if most is None else math.exp(most),
        spread=logs[(3 * n) // 4] - logs[n // 4],
    )


def _ends(
    ordered: Sequence[float], rule: PairRule, error: float
) -> tuple[float | None, float | None]:
    """Ends of the median's interval in sorted values; None twice if too few for the error."""
    rank = rank_at(len(ordered), first=rule.first, cap=rule.cap, error=error)
    return (None, None) if rank is None else (ordered[rank], ordered[-1 - rank])


def answer(summary: PairSummary, rule: PairRule) -> Answer:
    """What these pairs decide under the rule.

    A gain must exceed the threshold in the pairs and also the difference between processes, so
    that its whole interval lies above 1. A floor looks at the pairs alone.
    """
    floor = rule.threshold < 1
    if summary.pairs_low > rule.threshold and (floor or summary.low > 1):
        return Answer.FASTER
    if summary.pairs_high < rule.slower_below and (floor or summary.high < 1):
        return Answer.SLOWER
    told_apart = rule.threshold if floor else max(rule.threshold, 1 + summary.apart)
    if summary.most < told_apart:
        return Answer.NO_GAIN
    return Answer.UNDECIDED


def next_look(pairs: int, rule: PairRule) -> int | None:
    """Number of pairs at the next look; None when the cap is reached."""
    return next((look for look in looks(rule.first, rule.cap) if look > pairs), None)


def speed(summary: PairSummary, rule: PairRule, gpu_seconds: float) -> Speed:
    """The summary as a record for reports, measured in `gpu_seconds`."""
    known = math.isfinite(summary.high)
    return Speed(
        kind=Kind.MEASURED,
        ratio=summary.ratio,
        low=summary.low if known else None,
        high=summary.high if known else None,
        confidence=rule.confidence if known else None,
        pairs=summary.pairs,
        gpu_seconds=gpu_seconds,
    )


def measured_time(samples_us: Sequence[float], rule: PairRule, device: str) -> Time:
    """Median time of one side with its interval. Raises ValueError without samples."""
    if not samples_us:
        raise ValueError("a measured time needs samples")
    ordered = sorted(samples_us)
    low, high = _ends(ordered, rule, rule.error)
    return Time(
        kind=Kind.MEASURED,
        microseconds=median(ordered),
        low=low,
        high=high,
        samples=len(ordered),
        device=device,
    )
