"""What the samples of `bench noise` say: error rates with their intervals, and what fixed schemes
would have made of the same kernels. Pure: no GPU, the same file gives the same tables."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from statistics import mean, median

from msgspec import Struct

from workbench.bench.noise_record import Decision, Head, Line, Stream
from workbench.measure.pairs import Answer, PairRule, answer, next_look, summarize

MOST_FALSE, LEAST_FOUND = 0.001, 0.95
"""Goals: equals called faster, and 2 % gains found."""
_CONFIDENCE = 0.95
_BLOCK = 16
"""Pairs that stay together when streams are resampled, so that drift does too (ours)."""
_RESAMPLED = 300
"""For each kernel and gain."""
_STEP = 25
"""Pairs between two windows of a fixed scheme."""


class Rate(Struct, frozen=True, kw_only=True):
    """How often something happened."""

    times: int
    of: int
    low: float
    high: float
    """Clopper-Pearson, 95 %; an end at 0 or 1 leaves 5 % on the other side."""

    @property
    def share(self) -> float:
        """0 to 1."""
        return self.times / self.of if self.of else math.nan

    def words(self) -> str:
        """`0 of 312 (at most 0.96 %)`."""
        if not self.of:
            return "not tried"
        if self.times == 0:
            return f"0 of {self.of} (at most {100 * self.high:.2g} %)"
        if self.times == self.of:
            return f"{self.of} of {self.of} (at least {100 * self.low:.3g} %)"
        return f"{self.times} of {self.of} ({100 * self.low:.2g} to {100 * self.high:.3g} %)"


class Row(Struct, frozen=True, kw_only=True):
    """One kernel at one planted gain."""

    kernel: str
    us: float
    planted: float
    true: float
    """Ratio of the long stream's pairs."""
    true_low: float
    true_high: float
    true_pairs: int
    spread: float
    """Interquartile range of a pair's log ratio."""
    faster: Rate
    pairs: float
    """Median of the decisions."""
    seconds: float
    """Median GPU-seconds of the decisions."""
    resampled: Rate
    doubts: int
    """Decisions in which clocks disagreed."""


class Scheme(Struct, frozen=True, kw_only=True):
    """A fixed scheme: how many samples a side, and the time that it makes of them."""

    name: str
    samples: int
    reduce: Callable[[Sequence[float]], float]


class SchemeRow(Struct, frozen=True, kw_only=True):
    """What a fixed scheme decides where a gain is planted."""

    name: str
    planted: float
    above_one: float
    """Share of its decisions that call the candidate faster at all."""
    above_threshold: float
    """Share that call it faster by more than the rule's threshold."""
    seconds: float
    """GPU-seconds for the same samples here, median over the kernels."""


class Tables(Struct, frozen=True, kw_only=True):
    """Everything that is shown."""

    head: Head | None
    rows: tuple[Row, ...]
    schemes: tuple[SchemeRow, ...]
    whole: tuple[Decision, ...]

    def rate(self, planted: float, *, resampled: bool = False) -> Rate:
        """How often the candidate was called faster, over all kernels."""
        rows = [row for row in self.rows if row.planted == planted]
        rates = [row.resampled if resampled else row.faster for row in rows]
        return rate(sum(one.times for one in rates), sum(one.of for one in rates))

    @property
    def met(self) -> bool:
        """Whether both goals are."""
        false, found = self.rate(0.0), self.rate(2.0)
        known = min(false.of, found.of) > 0
        return known and false.share <= MOST_FALSE and found.share >= LEAST_FOUND


SCHEMES = (
    Scheme(name="mean of 100 (KernelBench)", samples=100, reduce=mean),
    Scheme(name="median of 100 (do_bench)", samples=100, reduce=median),
    Scheme(
        name="mean of 3 medians of 50 (10 + 50 x 3)",
        samples=150,
        reduce=lambda us: mean(median(us[i : i + 50]) for i in (0, 50, 100)),
    ),
)


def tables(lines: Sequence[Line]) -> Tables:
    """All tables from what was kept."""
    head = next((line for line in lines if isinstance(line, Head)), None)
    rule = head.rule if head else PairRule()
    streams = [line for line in lines if isinstance(line, Stream)]
    decisions = [line for line in lines if isinstance(line, Decision)]
    rows = tuple(_row(stream, decisions, rule) for stream in streams)
    return Tables(
        head=head,
        rows=rows,
        schemes=tuple(_schemes(streams, rule)),
        whole=tuple(d for d in decisions if d.how == "whole"),
    )


def rate(times: int, of: int) -> Rate:
    """With its exact interval (Clopper and Pearson 1934, Biometrika 26(4))."""
    if not of:
        return Rate(times=0, of=0, low=0.0, high=1.0)
    error = 1 - _CONFIDENCE if times in (0, of) else (1 - _CONFIDENCE) / 2
    low = 0.0 if times == 0 else _solve(lambda p: 1 - _below(times - 1, of, p), error)
    high = 1.0 if times == of else _solve(lambda p: 1 - _below(times, of, p), 1 - error)
    return Rate(times=times, of=of, low=low, high=high)


def _below(times: int, of: int, chance: float) -> float:
    """That a thing of this chance happens at most so often."""
    if chance in (0.0, 1.0):
        return float(chance == 0.0 or times >= of)
    terms = (
        math.lgamma(of + 1)
        - math.lgamma(k + 1)
        - math.lgamma(of - k + 1)
        + k * math.log(chance)
        + (of - k) * math.log1p(-chance)
        for k in range(times + 1)
    )
    return min(1.0, sum(map(math.exp, terms)))


def _solve(rising: Callable[[float], float], value: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return low


def _row(stream: Stream, decisions: Sequence[Decision], rule: PairRule) -> Row:
    mine = [
        d
        for d in decisions
        if (d.kernel, d.planted, d.how) == (stream.kernel, stream.planted, "one run")
    ]
    count = len(stream.candidate_us)
    fixed = PairRule(error=rule.error, apart_us=0.0, first=count, cap=count)
    true = summarize(stream.incumbent_us, stream.candidate_us, fixed)
    return Row(
        kernel=stream.kernel,
        us=median(stream.candidate_us),
        planted=stream.planted,
        true=true.ratio,
        true_low=true.low,
        true_high=true.high,
        true_pairs=count,
        spread=true.spread,
        faster=rate(sum(_faster(d, rule) for d in mine), len(mine)),
        pairs=median([d.pairs for d in mine] or [math.nan]),
        seconds=median([d.seconds for d in mine] or [math.nan]),
        resampled=_resampled(stream, rule),
        doubts=sum(bool(d.doubt) for d in mine),
    )


def _faster(decision: Decision, rule: PairRule) -> bool:
    """Whether a decision's pairs call the candidate faster by the rule.

    A rule that asks for more pairs than the one that stopped the decision is not given them: what
    these cannot tell counts as not faster.
    """
    if not decision.candidate_us:
        return decision.faster
    summary = summarize(decision.incumbent_us, decision.candidate_us, rule)
    return answer(summary, rule) is Answer.FASTER


def _resampled(stream: Stream, rule: PairRule) -> Rate:
    """Decisions on blocks of the stream's pairs, drawn anew (circular block bootstrap: Politis and
    Romano 1992). They share their samples: their interval says nothing of another day."""
    rng = random.Random(f"{stream.kernel} {stream.planted}")  # noqa: S311 -- repeatable on purpose
    pairs = list(zip(stream.incumbent_us, stream.candidate_us, strict=True))
    faster = sum(_decided(_blocks(pairs, rng), rule) is Answer.FASTER for _ in range(_RESAMPLED))
    return rate(faster, _RESAMPLED)


def _blocks(
    pairs: Sequence[tuple[float, float]], rng: random.Random
) -> Iterator[tuple[float, float]]:
    while True:
        start = rng.randrange(len(pairs))
        for place in range(start, start + _BLOCK):
            yield pairs[place % len(pairs)]


def _decided(drawn: Iterator[tuple[float, float]], rule: PairRule) -> Answer:
    had: list[tuple[float, float]] = []
    while (wanted := next_look(len(had), rule)) is not None:
        had += [next(drawn) for _ in range(wanted - len(had))]
        old, new = [pair[0] for pair in had], [pair[1] for pair in had]
        found = answer(summarize(old, new, rule), rule)
        if found is not Answer.UNDECIDED:
            return found
    return Answer.UNDECIDED


def _schemes(streams: Sequence[Stream], rule: PairRule) -> Iterator[SchemeRow]:
    for scheme in SCHEMES:
        for planted in sorted({stream.planted for stream in streams}):
            ratios, seconds = [], []
            for stream in streams:
                if stream.planted == planted:
                    ratios += list(_ratios(stream, scheme))
                    seconds.append(stream.seconds * scheme.samples / len(stream.candidate_us))
            if ratios:
                yield SchemeRow(
                    name=scheme.name,
                    planted=planted,
                    above_one=mean(ratio > 1 for ratio in ratios),
                    above_threshold=mean(ratio > rule.threshold for ratio in ratios),
                    seconds=median(seconds),
                )


def _ratios(stream: Stream, scheme: Scheme) -> Iterator[float]:
    """One side's samples and then the other's, as these schemes take them; windows overlap."""
    n = scheme.samples
    for start in range(0, len(stream.candidate_us) - 2 * n + 1, _STEP):
        first, second = slice(start, start + n), slice(start + n, start + 2 * n)
        if start // _STEP % 2:
            first, second = second, first
        yield scheme.reduce(stream.incumbent_us[first]) / scheme.reduce(stream.candidate_us[second])
