"""Re-evaluates the candidates of a recorded stream, and counts what that costs. Pure.

Whether two candidates differ follows from their pairs with the seed: the log of one's ratio less
the log of the other's, drawn with replacement. That has the noise of two pairs where a real pair
has that of one, so the replay asks for more pairs than a GPU would, of every policy alike.
"""

import math
import random
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from workbench.bench.search_records import BASE, Looked
from workbench.bench.search_stream import RUNGS, Candidate, Stream, in_runs, opening
from workbench.gate.timing.stage import SEED_PAIRS
from workbench.measure.pairs import Answer, PairRule, PairSummary, answer, next_look, summarize
from workbench.measure.records import Kind
from workbench.search.rungs import RungResult

_SMOKE, _BENCH = 1, 2
"""Places of the rungs that are timed below the top."""

COMPARING, PAIRS, COUNTERS, LAST_LOOK = "comparing", "pairs", "counters", "the last look"
OPENING = "opening workers"
TOP = "all tools of the top rung"
"""What GPU-seconds are for."""


class Cost(Struct, frozen=True):
    """What evaluating cost."""

    gpu_seconds: float = 0.0
    wall_seconds: float = 0.0

    def plus(self, other: "Cost") -> "Cost":
        """The sum of two costs."""
        return Cost(self.gpu_seconds + other.gpu_seconds, self.wall_seconds + other.wall_seconds)


class Desk:
    """Evaluates candidates of one stream, and counts what that costs.

    On a GPU the next candidate is compiled beside the running one, as the engine does it: whoever
    asks for it waits for what is left of that.
    """

    def __init__(self, stream: Stream, rng: random.Random) -> None:
        self.stream = stream
        self.cost = Cost()
        self.gpu_seconds: dict[str, float] = {}
        """Of the cost, by what it was for."""
        self._rng = rng
        self._since = 0.0
        """When the next candidate could begin, in seconds since the start."""

    def begin(self, one: Candidate) -> None:
        """Pay for policy and compiler where no rung is asked whose cost includes them."""
        bottom = one.looks.get(RUNGS[0])
        self._wait(0.0 if bottom is None else bottom.begun_seconds)

    def bottom(self, one: Candidate, against: Candidate, *, side_by_side: bool) -> RungResult:
        """Ask the bottom rung; `side_by_side`: those that follow began when this one did."""
        if self.stream.kind is Kind.MODELED:
            return self.result(one, against, RUNGS[0], PairRule())
        refused = one.refused
        look = one.looks.get(RUNGS[0])
        if look is not None:
            # As in a run: nothing is modeled where that may not rank.
            trusted = self.stream.trusted or not look.begun_seconds
            took = look.wall_seconds if trusted else look.begun_seconds
            self._wait(took, side_by_side=side_by_side)
        wrong = refused is not None and refused.rung == RUNGS[0]
        return RungResult(
            rung=RUNGS[0],
            passed=not wrong,
            ratio=self.modeled(one, against, RUNGS[0]),
        )

    def kept(self) -> None:
        """Note that the incumbent changed: work begun for the one before it is thrown away."""
        self._since = self.cost.wall_seconds

    def _wait(self, seconds: float, *, side_by_side: bool = False) -> None:
        """Wait for this many seconds of work on the CPU, some of which may be done already."""
        now = self.cost.wall_seconds
        since = now if self.stream.kind is Kind.MODELED else self._since
        self._pay("", Cost(0.0, max(0.0, since + seconds - now)))
        if not side_by_side:
            self._since = self.cost.wall_seconds

    def looked(self, one: Candidate, rung: str) -> Looked | None:
        """Pay for everything at a rung but its pairs; returns why it is refused there."""
        refused = one.refused
        if refused is not None and self._place(refused.rung) <= self._place(rung):
            self._pay(COMPARING, Cost(refused.gpu_seconds, refused.wall_seconds))
            return refused
        alike = self._alike(one, rung)
        self._pay(COMPARING, self._beside_pairs(alike))
        self._pay(OPENING, Cost(median(map(opening, alike)), 0.0))
        return None

    def _place(self, rung: str) -> int:
        return self.stream.rungs.index(rung)

    def _alike(self, one: Candidate, rung: str) -> list[Looked]:
        """The candidate's look at a rung, else the others', which stand for it."""
        own = one.looks.get(rung)
        return [own] if own is not None else self._others(rung)

    @staticmethod
    def _beside_pairs(alike: Sequence[Looked]) -> Cost:
        """What looks cost in the middle, pairs and the opening of their workers left aside; the
        wall seconds are all."""
        return Cost(
            median([_gpu_beside(look) for look in alike]),
            median([look.wall_seconds - in_runs(look) for look in alike]),
        )

    def open_again(self, one: Candidate) -> None:
        """Pay for new workers of one more timing run; without a GPU none is made."""
        if self.stream.kind is Kind.MEASURED:
            own = one.looks.get(RUNGS[_SMOKE])
            alike = [own] if own is not None and own.runs else self._others(RUNGS[_SMOKE])
            seconds = median(map(opening, alike))
            self._pay(OPENING, Cost(seconds, seconds))

    def _others(self, rung: str) -> list[Looked]:
        found = [
            c.looks[rung] for c in self.stream.candidates if rung in c.looks and c.passed(rung)
        ]
        found = found or [one for one in self.stream.elsewhere if one.rung == rung]
        if not found:
            raise KeyError(rung)
        return found

    def paired(self, one: Candidate, against: Candidate, rule: PairRule) -> PairSummary:
        """Draw pairs of two candidates, one look after another, until they decide."""
        times: list[tuple[float, float]] = []
        wanted: int | None = min(rule.first, rule.cap)
        summary: PairSummary | None = None
        while wanted is not None:
            times += [self._pair(one, against) for _ in range(wanted - len(times))]
            summary = summarize([a for a, _ in times], [b for _, b in times], rule)
            decided = answer(summary, rule) is not Answer.UNDECIDED
            wanted = None if decided else next_look(len(times), rule)
        if summary is None:
            raise ValueError("a rule without pairs decides nothing")
        seconds = one.setup_seconds + len(times) * one.pair_seconds
        self._pay(PAIRS, Cost(seconds, seconds))
        return summary

    def _pair(self, one: Candidate, against: Candidate) -> tuple[float, float]:
        log = self._rng.choice(one.logs)
        if against.logs:
            log -= self._rng.choice(against.logs)
        return one.us * math.exp(log), one.us

    def modeled(self, one: Candidate, against: Candidate, rung: str) -> float | None:
        """The speedup that a rung modeled; None where it modeled none."""
        here = [c.looks.get(rung) or c.looks.get(RUNGS[0]) for c in (against, one)]
        times = [None if look is None else look.modeled_us for look in here]
        before, after = times
        return before / after if before and after else None

    def gated(self, one: Candidate, against: Candidate) -> RungResult:
        """The whole gate as a run asks it on a GPU (`engine.halves`): pairs, then comparing, then
        the pairs again in fresh processes, then the counters of what is kept."""
        before, rule = self.cost, PairRule()
        first = self._first_run(one, against, rule)
        refused, gain = one.refused, False
        if first is None or answer(first, rule) is Answer.FASTER:
            refused = self.looked(one, RUNGS[_BENCH])
            if first is not None and refused is None:
                gain = answer(self.paired(one, against, rule), rule) is Answer.FASTER
                if gain:
                    self._pay(*self._counters())
                    self._beside_seed(one, against)
        return RungResult(
            rung=RUNGS[_BENCH],
            passed=refused is None,
            kind=Kind.MEASURED,
            ratio=None if first is None else first.ratio,
            low=None if first is None else first.low,
            high=None if first is None else first.high,
            gain=gain,
            gpu_seconds=self.cost.gpu_seconds - before.gpu_seconds,
            wall_seconds=self.cost.wall_seconds - before.wall_seconds,
        )

    def a_seed(self) -> float:
        """GPU-seconds of a seed's own verdict: what the top rung takes, without the sanitizer."""
        if self.stream.kind is Kind.MODELED:
            return 0.0
        looks = self._others(RUNGS[-1])
        return median(
            _gpu_beside(look) + opening(look) / 2 + in_runs(look) / 2 - look.sanitizer_seconds
            for look in looks
        )

    def last_look(self, winner: Candidate) -> None:
        """Pay for the last look, which only the kernel that a run ends with gets."""
        told = self._split()
        if winner.name != BASE and told:
            gpu = median([_gpu_beside(look) - look.counters_seconds for look in told])
            self._pay(LAST_LOOK, Cost(gpu, gpu))

    def _first_run(self, one: Candidate, against: Candidate, rule: PairRule) -> PairSummary | None:
        """None of one that was never timed, since something else was found first: it costs what a
        first look costs the others, and counts as faster."""
        self.open_again(one)
        if one.logs:
            return self.paired(one, against, rule)
        timed = [c for c in self.stream.candidates if c.logs]
        seconds = median([c.setup_seconds + rule.first * c.pair_seconds for c in timed])
        self._pay(PAIRS, Cost(seconds, seconds))
        return None

    def _beside_seed(self, one: Candidate, against: Candidate) -> None:
        """Time a candidate that is kept against the session's seed, unless that was its parent."""
        if against.name != BASE:
            self.open_again(one)
            seconds = one.setup_seconds + SEED_PAIRS * one.pair_seconds
            self._pay(PAIRS, Cost(seconds, seconds))

    def _counters(self) -> tuple[str, Cost]:
        """The cost of a kept kernel's counters; of the top rung if they were not timed alone."""
        told = self._split()
        if told:
            seconds = median([look.counters_seconds for look in told])
            return COUNTERS, Cost(seconds, seconds)
        return TOP, self._beside_pairs(self._alike(self.stream.base, RUNGS[-1]))

    def _split(self) -> list[Looked]:
        """Recorded looks at the top rung in which the counters were timed on their own."""
        return [look for look in self._others(RUNGS[-1]) if look.counters_seconds]

    def _pay(self, part: str, cost: Cost) -> None:
        self.cost = self.cost.plus(cost)
        if cost.gpu_seconds:
            self.gpu_seconds[part] = self.gpu_seconds.get(part, 0.0) + cost.gpu_seconds

    def result(self, one: Candidate, against: Candidate, rung: str, rule: PairRule) -> RungResult:
        """Evaluate a candidate at a rung; returns the result that the ladder sees."""
        before = self.cost
        refused = self.looked(one, rung)
        timed = refused is None and self.stream.kind is Kind.MEASURED and rung != RUNGS[0]
        summary = self.paired(one, against, rule) if timed else None
        modeled = self.modeled(one, against, rung)
        return RungResult(
            rung=rung,
            passed=refused is None,
            kind=Kind.MODELED if summary is None else Kind.MEASURED,
            ratio=modeled if summary is None else summary.ratio,
            low=None if summary is None else summary.low,
            high=None if summary is None else summary.high,
            gain=summary is not None and answer(summary, rule) is Answer.FASTER,
            gpu_seconds=self.cost.gpu_seconds - before.gpu_seconds,
            wall_seconds=self.cost.wall_seconds - before.wall_seconds,
        )


def _gpu_beside(look: Looked) -> float:
    """GPU-seconds of a look beside its runs and the opening of their workers."""
    return max(0.0, look.gpu_seconds - look.opening_seconds - in_runs(look))
