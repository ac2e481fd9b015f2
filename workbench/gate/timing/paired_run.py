"""Sides that take turns on one GPU until there are enough pairs: warm-up, rounds, checks, drops.

Part of the judge, without access to a device: it asks sides for timed calls and keeps the samples.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from workbench.gate.records import Blame, Finding
from workbench.gate.timing.cooling import Cooling
from workbench.gate.timing.turns import (
    Disagreement,
    Empty,
    Side,
    SideFault,
    StandIn,
    Turn,
    disagreement,
    implausible,
    nobody,
)
from workbench.measure.gpuwatch import GpuState, Watch, capped, unsteady
from workbench.measure.records import PairSamples
from workbench.measure.rounds import Round, Warmth, rounds

MOST_DROPPED = 0.3
"""Share of the pairs that may be dropped for unsteady clocks (gate protocol, section 9.1)."""
_FEW = 20
"""Pairs below which that share is not tested (ours)."""

_TELL_SECONDS = 0.25
"""Least time between two progress reports, which cost time on a GPU that others wait for."""

Told = Callable[[int, int], None]
"""`told(done, wanted)`, called now and then."""


class Noisy(Exception):
    """Too many pairs were dropped; the text says why the last one was."""


class PairedRun:
    """One run: the same sides in the same workers from warm-up to the last pair.

    `fresh` gives the named sides contents that none has seen; a `stand_in` takes a turn after
    theirs in each round, which measures the overhead of a turn at that moment. Clocks are read
    before and after every round, and a round in which they changed makes no pair; after rounds that
    ran into the power cap the run pauses (`cooling`). Methods raise SideFault and Noisy.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        fresh: Callable[[Sequence[str]], None],
        *,
        seed: int,
        swapped: bool,
        watch: Watch,
        stand_in: StandIn = nobody,
        told: Told = lambda done, wanted: None,  # noqa: ARG005 -- nobody listens
    ) -> None:
        self._sides = sides
        self._fresh = fresh
        self._watch = watch
        self._stand_in = stand_in
        self._told = told
        self._told_at = 0.0
        self._state: GpuState | None = None
        checkable = [place for place, side in enumerate(sides) if side.checkable]
        self._rounds = rounds(seed, len(sides), checkable=checkable, swapped=swapped)
        self.samples: dict[str, list[float]] = {side.name: [] for side in sides}
        """Microseconds by side; equal positions make a pair."""
        self.held: dict[str, list[Turn]] = {side.name: [] for side in sides}
        self.bare: dict[str, list[Turn]] = {side.name: [] for side in sides}
        self._stood_in: dict[bool, list[Turn]] = {False: [], True: []}
        """Turns of the stand-in, held and bare."""
        self.checked: Counter[str] = Counter()
        self.dropped = 0
        self.capped = 0
        """Pairs measured under the power cap, because no pause kept the GPU below it."""
        self._cooling = Cooling()
        self._cooled = 0
        """Number of dropped pairs after which the run pauses longer."""
        self.round_seconds = 0.0
        """Seconds of the last warm-up round."""

    @property
    def pairs(self) -> int:
        """Number of pairs that count."""
        return min(len(samples) for samples in self.samples.values())

    def warm_up(self) -> None:
        """Take turns until the times of every side are stable."""
        names = [side.name for side in self._sides]
        warmth = {name: Warmth() for name in names}
        while not all(one.warm for one in warmth.values()):
            began = time.perf_counter()
            self._fresh(names)
            between = time.perf_counter() - began
            turns = {side.name: self._turn(side, bare=False) for side in self._sides}
            at_work = sum(turn.judge_us for turn in turns.values()) / 1e6
            for name, turn in turns.items():
                warmth[name].feed(turn.reading.us, at_work)
            self.round_seconds = between + at_work

    def extend(self, pairs: int) -> None:
        """Run rounds until there are this many pairs."""
        while self.pairs < pairs:
            self._round()
            now = time.monotonic()
            if now - self._told_at > _TELL_SECONDS:
                self._told(self.pairs, pairs)
                self._told_at = now

    def disagreement(self, name: str) -> Disagreement | None:
        """How the clocks of a side's turns contradict each other; None when they agree."""
        empty = next(side.empty for side in self._sides if side.name == name)
        held, bare = (tuple(self._stood_in[kind]) for kind in (False, True))
        return disagreement(
            self.held[name], self.bare[name], empty, beside=Empty(held=held, bare=bare)
        )

    def disagreements(self, names: Iterable[str]) -> dict[str, Disagreement]:
        """Disagreements by side; empty when all clocks agree."""
        found = {name: self.disagreement(name) for name in names}
        return {name: one for name, one in found.items() if one is not None}

    @property
    def under_cap(self) -> str:
        """A sentence saying that pairs were measured under the power cap; empty if none were."""
        if not self.capped:
            return ""
        return (
            f"{self.capped} of {self.pairs} pairs ran under the GPU's power cap: "
            "what they say holds at the clocks that it leaves"
        )

    def kept(self, name: str, seconds: float) -> PairSamples:
        """Every sample so far, as a report keeps it; `seconds` is how long the GPU was held."""
        return PairSamples(
            run=name,
            us={side: tuple(round(x, 3) for x in us) for side, us in self.samples.items()},
            dropped=self.dropped,
            capped=self.capped,
            checked=sum(self.checked.values()),
            gpu_seconds=round(seconds, 3),
        )

    def _round(self) -> None:
        plan = next(self._rounds)
        self._fresh([side.name for side in self._sides])
        if self._cooling.rest(self.round_seconds):
            self._state = None
        before = self._state or self._watch.state()
        turns: dict[str, Turn] = {}
        for place in plan.order:
            side = self._sides[place]
            turns[side.name] = self._turn(side, bare=plan.bare)
        self._state = self._watch.state()
        # After the round, so that nothing runs between the two calls of a pair.
        if (stood_in := self._stand_in(bare=plan.bare)) is not None:
            self._stood_in[plan.bare].append(stood_in)
        self._check(plan)
        if plan.bare:
            for name, turn in turns.items():
                self.bare[name].append(turn)
        elif why := unsteady((before, self._state), hot=self._cooling.hot):
            self._drop(why, (before, self._state))
        else:
            self.capped += capped((before, self._state))
            for name, turn in turns.items():
                self.held[name].append(turn)
                self.samples[name].append(turn.reading.us)

    def _turn(self, side: Side, *, bare: bool) -> Turn:
        turn = side.turn(bare=bare)
        if why := implausible(turn):
            finding = Finding(
                code="profile.clocks-disagree", says=f"{side.name}: {why}", blame=Blame.MACHINE
            )
            raise SideFault(side.name, finding)
        return turn

    def _check(self, plan: Round) -> None:
        for place in sorted(plan.checked):
            side = self._sides[place]
            self.checked[side.name] += 1
            findings = side.check(closely=place in plan.closely)
            if findings:
                worst = findings[0]
                evidence = {**worst.evidence, "found": worst.code}
                raise SideFault(
                    side.name,
                    structs.replace(worst, code="profile.timed-output-wrong", evidence=evidence),
                )

    def _drop(self, why: str, states: Sequence[GpuState]) -> None:
        self.dropped += 1
        if self._cooling.spoilt(states):
            self._cooled += 1
            return
        spoilt = self.dropped - self._cooled
        tried = self.pairs + spoilt
        if tried >= _FEW and spoilt > MOST_DROPPED * tried:
            raise Noisy(f"{self.dropped} of {tried} pairs were dropped: {why}")
