"""The ways to evaluate one stream of candidates that `bench search` compares. Pure.

Each takes candidates in the order they come and gives the kernel it ends with. The parent of every
pair is the incumbent, except in successive halving, which knows none before its end.
"""

import math
from collections.abc import Callable, Sequence

from msgspec import structs

from workbench.bench.search_stream import Candidate, Desk
from workbench.measure.pairs import Answer, PairRule, answer
from workbench.measure.records import Kind
from workbench.search.beam import Waiting, beam
from workbench.search.duplicates import same_as
from workbench.search.rungs import Action, Ladder, RungResult

Policy = Callable[[Desk, Sequence[Candidate]], Candidate]

_RULE = PairRule()
_HALVED = 2
"""Successive halving keeps one in so many, and gives those that it keeps four times the pairs: with
half of them left each rung costs twice the pairs of the one below (Jamieson and Talwalkar 2016 give
every rung the same; that gains less here, where pairs are the smaller part of a rung)."""
_MORE_PAIRS = 4


def everything(desk: Desk, order: Sequence[Candidate]) -> Candidate:
    """Full fidelity for each: every shape, sanitizer, counters, and two timing runs."""
    top = desk.stream.rungs[-1]
    incumbent = desk.stream.base
    for one in order:
        if desk.looked(one, top) is None and _gains(desk, one, incumbent, top, always=True):
            incumbent = one
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
        if desk.looked(one, rung) is not None:
            continue
        gains = _gains(desk, one, incumbent, rung, always=False)
        if gains and not (measured and desk.looked(one, rungs[-1])):
            incumbent = one
    return incumbent


def _gains(desk: Desk, one: Candidate, incumbent: Candidate, rung: str, *, always: bool) -> bool:
    """Whether a candidate is faster, found twice; `always` times it twice whatever is found."""
    if desk.stream.kind is Kind.MODELED:
        return (desk.modeled(one, incumbent, rung) or 0.0) > _RULE.threshold
    first = answer(desk.paired(one, incumbent, _RULE), _RULE) is Answer.FASTER
    if not first and not always:
        return False
    return (answer(desk.paired(one, incumbent, _RULE), _RULE) is Answer.FASTER) and first


def halving(desk: Desk, order: Sequence[Candidate]) -> Candidate:
    """Fixed successive halving: all at the lowest timed rung, the better half at each next one."""
    rungs = desk.stream.rungs if desk.stream.kind is Kind.MODELED else desk.stream.rungs[1:]
    base, left, pairs = desk.stream.base, list(order), _RULE.first
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
    """The ratio over so many pairs, of which none is spared."""
    if desk.stream.kind is Kind.MODELED:
        return desk.modeled(one, base, rung) or 0.0
    rule = structs.replace(_RULE, first=pairs, cap=pairs)
    return desk.paired(one, base, rule).ratio


class Climbing:
    """Our ladder, as a policy."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder

    def __call__(self, desk: Desk, order: Sequence[Candidate]) -> Candidate:
        """Candidates wait at the bottom, a few at a time; the best of them climbs on its own."""
        measured = desk.stream.kind is Kind.MEASURED
        ladder = self._ladder if measured else self._ladder.without_gpu()
        ahead = int(ladder.file.search.ahead.value)
        incumbent, coming = desk.stream.base, list(order)
        waiting: list[tuple[Candidate, RungResult]] = []
        seen: list[RungResult] = []
        while coming or waiting:
            while coming and len(waiting) < ahead:
                one = coming.pop(0)
                result = desk.result(one, incumbent, ladder.rungs[0].name, _RULE)
                if same_as(result, seen) is None:
                    waiting.append((one, result))
                seen.append(result)
            chosen = self._next(ladder, desk, waiting, incumbent)
            if chosen is None:
                continue
            waiting.remove(chosen)
            if self._climbs(ladder, desk, *chosen, incumbent):
                incumbent = chosen[0]
        return incumbent

    def _next(
        self,
        ladder: Ladder,
        desk: Desk,
        waiting: list[tuple[Candidate, RungResult]],
        incumbent: Candidate,
    ) -> tuple[Candidate, RungResult] | None:
        """The best that waits, by the beam, None without any; those that may not climb any more
        are dropped."""
        scores: dict[str, float] = {}
        for one, result in list(waiting):
            ratio = desk.modeled(one, incumbent, result.rung)
            now = structs.replace(result, ratio=ratio)
            standing = ladder.standing([now], trusted=desk.stream.trusted)
            if standing.action is Action.PROMOTE:
                scores[one.name] = standing.score
            else:
                waiting.remove((one, result))
        by_name = {one.name: (one, result) for one, result in waiting}
        queue = [
            Waiting(sha256=name, score=score, technique=by_name[name][0].technique)
            for name, score in scores.items()
        ]
        first = beam(queue, ladder.file.search)
        return by_name[first[0].sha256] if first else None

    def _climbs(
        self,
        ladder: Ladder,
        desk: Desk,
        one: Candidate,
        bottom: RungResult,
        incumbent: Candidate,
    ) -> bool:
        """Whether a candidate comes out at the top."""
        ratio = desk.modeled(one, incumbent, bottom.rung)
        results = [structs.replace(bottom, ratio=ratio)]
        while True:
            standing = ladder.standing(results, trusted=desk.stream.trusted)
            if standing.action is not Action.PROMOTE:
                return False
            if not standing.rung or standing.rung not in desk.stream.rungs:
                return not standing.rung
            spec = ladder.rung(standing.rung).spec
            cap = max(1, int(spec.pairs.value))
            rule = structs.replace(_RULE, first=min(_RULE.first, cap), cap=cap)
            results.append(desk.result(one, incumbent, standing.rung, rule))
