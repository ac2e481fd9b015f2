"""The ways to evaluate one stream of candidates that `bench search` compares. Pure.

Each takes candidates in the order they come and gives the kernel it ends with. The parent of every
pair is the incumbent, except in successive halving, which knows none before its end.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import structs

from workbench.bench.search_desk import Desk
from workbench.bench.search_stream import Candidate
from workbench.measure.pairs import Answer, PairRule, answer
from workbench.measure.records import Kind
from workbench.search.beam import Waiting, beam
from workbench.search.chain import combined_gain
from workbench.search.paying import SMOKE, worth
from workbench.search.rungs import Action, Ladder, RungResult, Standing

Policy = Callable[[Desk, Sequence[Candidate]], Candidate]

_RULE = PairRule()
_HALVED = 2
"""Successive halving keeps one in this many, and gives those that it keeps four times the pairs:
with half of them left each rung costs twice the pairs of the one below (Jamieson and Talwalkar 2016
give every rung the same; that gains less here, where pairs are the smaller part of a rung)."""
_MORE_PAIRS = 4


def everything(desk: Desk, order: Sequence[Candidate]) -> Candidate:
    """Full fidelity for each: every shape, sanitizer, counters, and two timing runs."""
    top = desk.stream.rungs[-1]
    incumbent = desk.stream.base
    for one in order:
        desk.begin(one)
        if desk.looked(one, top) is None and _gains(desk, one, incumbent, top, always=True):
            incumbent = one
            desk.kept()
    return incumbent


def one_rung(desk: Desk, order: Sequence[Candidate]) -> Candidate:
    """The same rung for each, stopped at the first no; what a run without a ladder does.

    That is the last rung below the top. A gain is confirmed by a second timing run, and what is
    kept pays for the top rung's tools, so that every policy knows as much of its winner.
    """
    rungs = desk.stream.rungs
    measured = desk.stream.kind is Kind.MEASURED
    rung = rungs[-2] if measured else rungs[-1]
    incumbent = desk.stream.base
    for one in order:
        desk.begin(one)
        if desk.looked(one, rung) is not None:
            continue
        gains = _gains(desk, one, incumbent, rung, always=False)
        if gains and not (measured and desk.looked(one, rungs[-1])):
            incumbent = one
            desk.kept()
    return incumbent


def _gains(desk: Desk, one: Candidate, incumbent: Candidate, rung: str, *, always: bool) -> bool:
    """Whether a candidate is faster, found twice; `always` times it twice whatever is found."""
    if desk.stream.kind is Kind.MODELED:
        return (desk.modeled(one, incumbent, rung) or 0.0) > _RULE.threshold
    first = answer(desk.paired(one, incumbent, _RULE), _RULE) is Answer.FASTER
    if not first and not always:
        return False
    if not always:
        desk.open_again(one)
    return (answer(desk.paired(one, incumbent, _RULE), _RULE) is Answer.FASTER) and first


def halving(desk: Desk, order: Sequence[Candidate]) -> Candidate:
    """Fixed successive halving: all at the lowest timed rung, the better half at each next one."""
    rungs = desk.stream.rungs if desk.stream.kind is Kind.MODELED else desk.stream.rungs[1:]
    base, left, pairs = desk.stream.base, list(order), _RULE.first
    for one in left:
        desk.begin(one)
    for rung in rungs:
        right = [one for one in left if desk.looked(one, rung) is None]
        ranked = [(_fixed(desk, one, base, rung, pairs), one) for one in right]
        ranked.sort(key=lambda pair: (-pair[0], pair[1].name))
        if rung == rungs[-1]:
            kept = [one for ratio, one in ranked if ratio > _RULE.threshold]
            return kept[0] if kept else base
        left = [one for _, one in ranked[: math.ceil(len(ranked) / _HALVED)]]
        pairs *= _MORE_PAIRS
    return base


def _fixed(desk: Desk, one: Candidate, base: Candidate, rung: str, pairs: int) -> float:
    """The ratio over this many pairs, all of which are taken."""
    if desk.stream.kind is Kind.MODELED:
        return desk.modeled(one, base, rung) or 0.0
    rule = structs.replace(_RULE, first=pairs, cap=pairs)
    return desk.paired(one, base, rule).ratio


class Climbing:
    """Our ladder: candidates wait at the bottom, and the best of them climbs on its own."""

    def __init__(self, ladder: Ladder, *, ahead: int | None = None) -> None:
        """`ahead` wait at once, as many as the ladder says when None; 1: climbing as they come."""
        self._ladder = ladder
        self._ahead = ahead

    def __call__(self, desk: Desk, order: Sequence[Candidate]) -> Candidate:
        """Every candidate once, until none waits."""
        measured = desk.stream.kind is Kind.MEASURED
        ladder = self._ladder if measured else self._ladder.without_gpu()
        ahead = self._ahead or int(ladder.file.search.ahead.value)
        walk = Walk(ladder, desk)
        coming = list(order)
        waiting: list[tuple[Candidate, RungResult]] = []
        while coming or waiting:
            while coming and len(waiting) < ahead:
                one = coming.pop(0)
                bottom = walk.bottom(one)
                if bottom is not None:
                    waiting.append((one, bottom))
            chosen = self._next(walk, waiting)
            if chosen is not None:
                waiting.remove(chosen)
                walk.climb(*chosen)
        return walk.incumbent

    def _next(
        self, walk: "Walk", waiting: list[tuple[Candidate, RungResult]]
    ) -> tuple[Candidate, RungResult] | None:
        """The best that waits, by the beam, None without any; those that may not climb any more
        are dropped."""
        scores: dict[str, float] = {}
        for one, result in list(waiting):
            standing = walk.standing(one, [result])
            if standing.action is Action.PROMOTE:
                scores[one.name] = standing.score
            else:
                waiting.remove((one, result))
        by_name = {one.name: (one, result) for one, result in waiting}
        queue = [
            Waiting(sha256=name, score=score, technique=by_name[name][0].technique)
            for name, score in scores.items()
        ]
        first = beam(queue, walk.ladder.file.search)
        return by_name[first[0].sha256] if first else None


def a_run(ladder: Ladder) -> Policy:
    """`run` on a GPU: candidates as they come, timed before they are compared, smoke where that
    pays; the kernel that it ends with is looked at at the top rung."""

    def policy(desk: Desk, order: Sequence[Candidate]) -> Candidate:
        walk = Walk(ladder, desk)
        for one in order:
            bottom = walk.bottom(one)
            if bottom is None or walk.standing(one, [bottom]).action is not Action.PROMOTE:
                continue
            if not walk.slow_at_smoke(one):
                walk.gate(one)
        desk.last_look(walk.incumbent)
        return walk.incumbent

    return policy


class Beaming:
    """`run --beam N`: N are looked at, the best of them climbs, the others wait for later."""

    def __init__(self, ladder: Ladder, width: int) -> None:
        self._ladder = ladder
        self._width = width

    def __call__(self, desk: Desk, order: Sequence[Candidate]) -> Candidate:
        """Every candidate is looked at once; those put aside come back at the end."""
        walk = Walk(self._ladder, desk)
        coming = list(order)
        beam_: list[_Aside] = []
        held: list[_Aside] = []
        while True:
            while coming and len(beam_) < self._width:
                self._look(walk, coming.pop(0), beam_, held)
            if beam_:
                best = max(beam_, key=lambda one: one.score)
                beam_.remove(best)
                if walk.gate(best.candidate):
                    held += beam_
                    beam_ = []
            elif not coming:
                back = self._back(walk, held)
                if back is None:
                    desk.last_look(walk.incumbent)
                    return walk.incumbent
                walk.gate(back.candidate)

    def _look(
        self, walk: "Walk", one: Candidate, beam_: "list[_Aside]", held: "list[_Aside]"
    ) -> None:
        """Static and smoke, and where they put it."""
        bottom = walk.bottom(one, side_by_side=True)
        if bottom is None or walk.standing(one, [bottom]).action is not Action.PROMOTE:
            return
        results = (bottom, walk.result(one, "smoke"))
        standing = walk.standing(one, results)
        aside = _Aside(one, results, standing.score, len(walk.gains))
        if standing.action is Action.PROMOTE:
            beam_.append(aside)
        elif standing.action is Action.HOLD:
            held.append(aside)

    def _back(self, walk: "Walk", held: "list[_Aside]") -> "_Aside | None":
        """The one put aside that has most to be said for it now; what is slower is dropped."""
        found: list[tuple[float, _Aside]] = []
        for one in list(held):
            last, since = one.results[-1], walk.gains[one.base :]
            standing = walk.ladder.standing(
                [last], incumbent=combined_gain(since, last) if since else None
            )
            if standing.action is Action.PRUNE:
                held.remove(one)
            else:
                found.append((standing.score, one))
        if not found:
            return None
        back = max(found, key=lambda row: row[0])[1]
        held.remove(back)
        return back


class _Aside(NamedTuple):
    """A candidate that was looked at."""

    candidate: Candidate
    results: tuple[RungResult, ...]
    score: float
    base: int
    """Gains before it was looked at."""


class Walk:
    """Candidates of one replay on their way up, against the incumbent of the moment."""

    def __init__(self, ladder: Ladder, desk: Desk) -> None:
        self.ladder = ladder
        self.incumbent = desk.stream.base
        self.gains: list[RungResult] = []
        """What each accepted candidate gained, in order."""
        self._desk = desk
        self._seen: set[str] = set()
        self._costs: list[RungResult] = []

    def bottom(self, one: Candidate, *, side_by_side: bool = False) -> RungResult | None:
        """The lowest rung; None for the same work as an earlier candidate's."""
        result = self._desk.bottom(one, self.incumbent, side_by_side=side_by_side)
        known = one.work in self._seen
        if one.work:
            self._seen.add(one.work)
        return None if known else result

    def standing(self, one: Candidate, results: Sequence[RungResult]) -> Standing:
        """What the ladder says now; a modeled ratio is told against the incumbent of the moment."""
        bottom, *above = results
        ratio = self._desk.modeled(one, self.incumbent, bottom.rung)
        now = [structs.replace(bottom, ratio=ratio), *above]
        return self.ladder.standing(now, trusted=self._desk.stream.trusted)

    def result(self, one: Candidate, rung: str) -> RungResult:
        """Ask a rung."""
        cap = max(1, int(self.ladder.rung(rung).spec.pairs.value))
        rule = structs.replace(_RULE, first=min(_RULE.first, cap), cap=cap)
        found = self._desk.result(one, self.incumbent, rung, rule)
        self._costs.append(found)
        return found

    def climb(self, one: Candidate, bottom: RungResult) -> None:
        """Ask rung after rung; who comes out at the top is the incumbent."""
        reached = [bottom]
        while (standing := self.standing(one, reached)).action is Action.PROMOTE:
            if not standing.rung:
                self._keep(one, reached[-1])
                return
            reached.append(self.result(one, standing.rung))

    def slow_at_smoke(self, one: Candidate) -> bool:
        """Whether smoke is asked, where it pays, and gives the candidate up."""
        if not worth(self._costs, self.ladder.file).pays:
            return False
        few = self.result(one, SMOKE)
        return self.ladder.standing([few]).action is Action.PRUNE

    def gate(self, one: Candidate) -> bool:
        """Whether the whole gate keeps a candidate; then it is the incumbent."""
        found = self._desk.gated(one, self.incumbent)
        self._costs.append(found)
        if found.gain:
            self._keep(one, found)
        return found.gain

    def _keep(self, one: Candidate, found: RungResult) -> None:
        self.incumbent = one
        self.gains.append(found)
        self._desk.kept()
