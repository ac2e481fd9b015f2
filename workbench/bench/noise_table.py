"""Tables from the samples of `bench noise`: error rates, and what fixed schemes would have decided.

Pure: the same file always gives the same tables.
"""

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from statistics import mean, median, stdev

from msgspec import Struct, structs

from workbench.bench.noise_record import Decision, Head, Line, Stream
from workbench.bench.noise_schemes import SchemeRow, grouped, scheme_rows
from workbench.bench.rates import Rate, rate
from workbench.measure.pairs import (
    Answer,
    PairRule,
    PairSummary,
    answer,
    next_look,
    summarize,
)

MOST_FALSE, LEAST_FOUND = 0.001, 0.95
"""Goals: largest share of equals called faster, and least share of 2 % gains found."""
_BLOCK = 16
"""Adjacent pairs that stay together when streams are resampled, to preserve drift (ours)."""
_RESAMPLED = 300
"""Resampled decisions for each kernel and gain."""
_NEAR = 0.15
_MEDIAN_ERROR = math.sqrt(math.pi / 2) / 1.349
"""Standard error of a normal sample's median, times the root of its size, as a multiple of the
interquartile range."""


class Row(Struct, frozen=True, kw_only=True):
    """One kernel at one planted gain."""

    kernel: str
    us: float
    planted: float
    true: float
    """Ratio in the streams: the geometric mean over process pairs."""
    true_low: float
    true_high: float
    """Lowest and highest ratio of a process pair; with a single one, the interval of its pairs."""
    true_pairs: int
    spread: float
    """Interquartile range of a pair's log ratio, median over process pairs."""
    processes: int
    """Number of process pairs."""
    apart: float | None
    """Standard deviation of the process pairs' log ratios; None with a single one."""
    pairs_alone: float
    """What that deviation would be from the noise of their pairs alone."""
    faster: Rate
    """Decisions that called the candidate faster."""
    pairs: float
    """Median number of pairs of the decisions."""
    seconds: float
    """Median GPU-seconds of the decisions."""
    resampled: Rate
    """Resampled decisions that called the candidate faster."""
    doubts: int
    """Decisions in which clocks disagreed."""
    as_planted: bool = True
    """False if the real gain was another one; no rate then counts the decisions."""


class Apart(Struct, frozen=True, kw_only=True):
    """How much processes of equal kernels differ, compared with what the rule allows for."""

    processes: int
    """Number of process pairs of all kernels."""
    most_us: float
    """The largest difference seen between two of them."""
    kernel: str
    beyond_us: float
    """The largest that the noise of their own pairs does not explain."""
    allowed_us: float

    @property
    def met(self) -> bool:
        """Whether the rule allows for the whole difference."""
        return self.beyond_us <= self.allowed_us


class Tables(Struct, frozen=True, kw_only=True):
    """All tables that are printed."""

    head: Head | None
    rows: tuple[Row, ...]
    schemes: tuple[SchemeRow, ...]
    whole: tuple[Decision, ...]
    apart: Apart | None = None

    def rate(self, planted: float, *, resampled: bool = False) -> Rate:
        """How often the candidate was called faster, over all kernels that had this gain."""
        rows = [row for row in self.rows if row.planted == planted and row.as_planted]
        rates = [row.resampled if resampled else row.faster for row in rows]
        return rate(sum(one.times for one in rates), sum(one.of for one in rates))

    @property
    def met(self) -> bool:
        """Whether all goals are."""
        false, found = self.rate(0.0), self.rate(2.0)
        known = min(false.of, found.of) > 0 and self.apart is not None and self.apart.met
        return known and false.share <= MOST_FALSE and found.share >= LEAST_FOUND


def tables(lines: Sequence[Line]) -> Tables:
    """All tables from what was kept."""
    head = next((line for line in lines if isinstance(line, Head)), None)
    rule = head.rule if head else PairRule()
    streams = [line for line in lines if isinstance(line, Stream)]
    decisions = [line for line in lines if isinstance(line, Decision)]
    groups = grouped(streams, lambda stream: (stream.kernel, stream.planted))
    rows = sorted(
        (_row(group, decisions, rule) for group in groups.values()),
        key=lambda row: (_shortest(streams, row.kernel), row.kernel, row.planted),
    )
    planted = {(row.kernel, row.planted) for row in rows if row.as_planted}
    sound = [stream for stream in streams if (stream.kernel, stream.planted) in planted]
    return Tables(
        head=head,
        rows=tuple(rows),
        schemes=tuple(scheme_rows(_joined(sound, decisions), rule)),
        whole=tuple(d for d in decisions if d.how == "whole"),
        apart=_apart([stream for stream in streams if not stream.planted], rule),
    )


def _shortest(streams: Sequence[Stream], kernel: str) -> float:
    return min(median(s.candidate_us) for s in streams if s.kernel == kernel)


def _row(group: Sequence[Stream], decisions: Sequence[Decision], rule: PairRule) -> Row:
    kernel, planted = group[0].kernel, group[0].planted
    mine = [d for d in decisions if (d.kernel, d.planted, d.how) == (kernel, planted, "one run")]
    each = [_alone(stream, rule) for stream in group]
    logs = [math.log(one.ratio) for one in each]
    single = len(each) == 1
    return Row(
        kernel=kernel,
        us=median(us for stream in group for us in stream.candidate_us),
        planted=planted,
        true=math.exp(mean(logs)),
        true_low=each[0].pairs_low if single else min(one.ratio for one in each),
        true_high=each[0].pairs_high if single else max(one.ratio for one in each),
        true_pairs=sum(one.pairs for one in each),
        spread=median(one.spread for one in each),
        processes=len(each),
        apart=None if single else stdev(logs),
        pairs_alone=math.sqrt(mean((_MEDIAN_ERROR * one.spread) ** 2 / one.pairs for one in each)),
        faster=rate(sum(_faster(d, rule) for d in mine), len(mine)),
        pairs=median([d.pairs for d in mine] or [math.nan]),
        seconds=median([d.seconds for d in mine] or [math.nan]),
        resampled=_resampled(group, rule),
        doubts=sum(bool(d.doubt) for d in mine),
        as_planted=as_planted(math.exp(mean(logs)), planted, median(group[0].candidate_us), rule),
    )


def as_planted(ratio: float, planted: float, us: float, rule: PairRule) -> bool:
    """Whether a gain is what it was to be, percent: within 15 % of it, or within half of what
    processes differ by (ours). Equals are what they are."""
    allowed = max(_NEAR * planted, 100 * rule.apart_us / us / 2)
    return not planted or abs(100 * (ratio - 1) - planted) <= allowed


def _alone(stream: Stream, rule: PairRule) -> PairSummary:
    """All pairs of one stream, with their interval."""
    count = len(stream.candidate_us)
    fixed = PairRule(error=rule.error, apart_us=0.0, first=count, cap=count)
    return summarize(stream.incumbent_us, stream.candidate_us, fixed)


def _apart(equals: Sequence[Stream], rule: PairRule) -> Apart | None:
    """How far the processes of equal kernels were apart at most."""
    if not equals:
        return None
    found = []
    for stream in equals:
        one, us = _alone(stream, rule), median(stream.candidate_us)
        beyond = max(0.0, math.log(one.pairs_low or 1e-9), -math.log(one.pairs_high))
        found.append((beyond * us, abs(math.log(one.ratio)) * us, stream.kernel))
    beyond_us, most_us, kernel = max(found)
    return Apart(
        processes=len(equals),
        most_us=most_us,
        kernel=kernel,
        beyond_us=beyond_us,
        allowed_us=rule.apart_us,
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


def _resampled(group: Sequence[Stream], rule: PairRule) -> Rate:
    """Decisions on blocks of one process pair's pairs, resampled (circular block bootstrap:
    Politis and Romano 1992). They share their samples: their interval says nothing of another
    day."""
    first = group[0]
    rng = random.Random(f"{first.kernel} {first.planted}")  # noqa: S311 -- repeatable on purpose
    streams = [list(zip(one.incumbent_us, one.candidate_us, strict=True)) for one in group]
    turns = itertools.islice(itertools.cycle(streams), _RESAMPLED)
    faster = sum(_decided(_blocks(pairs, rng), rule) is Answer.FASTER for pairs in turns)
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


def _joined(streams: Sequence[Stream], decisions: Sequence[Decision]) -> list[Stream]:
    """All samples of each process pair, in the order in which they were taken."""
    joined = []
    for stream in streams:
        its = (stream.kernel, stream.planted, stream.table, "one run")
        more = [d for d in decisions if (d.kernel, d.planted, d.table, d.how) == its]
        joined.append(
            structs.replace(
                stream,
                incumbent_us=sum((d.incumbent_us for d in more), stream.incumbent_us),
                candidate_us=sum((d.candidate_us for d in more), stream.candidate_us),
                seconds=stream.seconds + sum(d.seconds for d in more),
            )
        )
    return joined
