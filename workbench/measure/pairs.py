"""What interleaved pairs of timings say: a ratio, its interval, and whether that decides anything.

Pure: reads no clock and no device, so the same samples give the same answer next year.
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
    """By more than the threshold, with the stated error."""
    SLOWER = "slower"
    """By more than the threshold, with the stated error."""
    NO_GAIN = "no gain"
    """By more than the threshold it is not faster, with the rule's error of missing a gain."""
    UNDECIDED = "undecided"
    """More pairs are wanted; at the cap it means: cannot tell."""


class PairRule(Struct, frozen=True, kw_only=True):
    """When pairs decide. The bounds are `measure.sequential`'s: valid at every look, together."""

    threshold: float = 1.01
    """A ratio counts only beyond this, on either side (gate protocol, section 9.4). Below 1 it is
    a floor: the candidate may be slower, but not by more than this."""
    error: float = 0.005
    """One-sided, of the whole sequence of looks: 99.5 % on each side (gate protocol, 9.4)."""
    miss: float = 0.025
    """One-sided error of "no gain" (ours). Larger than `error`, because a missed gain costs a try
    and a false one is built upon; of a gain well above the threshold it is never met."""
    first: int = 14
    """Pairs before the first look: where all of them lie beyond the threshold, that decides."""
    apart_us: float = 0.3
    """What two processes that run one and the same kernel differ by, in all pairs of a run alike
    (ours). On an H200 the same 5.8 us kernel in two workers read 1.028x, and 0.983x in two others,
    over hundreds of pairs each: 0.16 us at most; of kernels from 36 us up no more was seen
    (`workbench bench noise`). No number of pairs shows it, so it widens every interval."""
    cap: int = 960
    """Pairs after which there is no further look (ours: 2 % at 5 % jitter per pair are found)."""

    @property
    def slower_below(self) -> float:
        """Ratios under this are of a slower candidate."""
        return min(self.threshold, 1 / self.threshold)

    @property
    def confidence(self) -> float:
        """Of the two-sided interval, 0 to 1."""
        return 1 - 2 * self.error


class PairSummary(Struct, frozen=True, kw_only=True):
    """Pairs reduced to numbers. Ratios are incumbent over candidate: 2.0 is half the time."""

    pairs: int
    ratio: float
    """exp of the median log ratio."""
    low: float
    high: float
    """The interval, with the rule's confidence at every look together, and with what processes
    differ by on either side."""
    pairs_low: float
    pairs_high: float
    """The interval of these pairs in these processes."""
    apart: float
    """What processes differ by, as a share of the shorter time."""
    most: float
    """Upper end of the pairs with the rule's `miss`, which decides that there is no gain."""
    spread: float
    """Interquartile range of the log ratio; 0.01 is about 1 %."""


def summarize(
    incumbent_us: Sequence[float], candidate_us: Sequence[float], rule: PairRule
) -> PairSummary:
    """Median ratio of the pairs and its distribution-free interval from order statistics.

    The interval is one of a sequence: with the rule's confidence all of them, at all looks, hold
    the true median, so one may stop at any look. Too few pairs for the rule's error have no ends:
    0 and infinity. Samples are microseconds, pair by pair. Raises ValueError on unequal or empty
    sequences and on times that are not positive: a launch that failed is never a number.
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
    """The median's interval among sorted values; None where there are too few for the error."""
    rank = rank_at(len(ordered), first=rule.first, cap=rule.cap, error=error)
    return (None, None) if rank is None else (ordered[rank], ordered[-1 - rank])


def answer(summary: PairSummary, rule: PairRule) -> Answer:
    """What these pairs decide under the rule.

    A gain must be beyond the threshold in the pairs, and beyond what processes differ by: then its
    whole interval is above 1. A floor asks the pairs alone.
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
    """How many pairs to have at the next look; None when the cap is reached."""
    return next((look for look in looks(rule.first, rule.cap) if look > pairs), None)


def speed(summary: PairSummary, rule: PairRule, gpu_seconds: float) -> Speed:
    """The summary as a record for reports."""
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
    """Median of one side with its interval. Raises ValueError without samples."""
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
