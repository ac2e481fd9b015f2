"""Sides taking turns on one GPU until there are enough pairs: warm-up, rounds, checks, drops.

The judge's part: it never sees a device. What it is given takes turns; what it keeps are samples.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import structs

from workbench.gate.records import Blame, Finding
from workbench.gate.timing.turns import Side, SideFault, Turn, disagreement, implausible
from workbench.measure.gpuwatch import Watch, unsteady
from workbench.measure.rounds import Warmth, rounds

MOST_DROPPED = 0.3
"""Share of the pairs that may be dropped for unsteady clocks (gate protocol, section 9.1)."""
_FEW = 20
"""Pairs before that share means anything (ours)."""

Told = Callable[[int, int], None]
"""`told(done, wanted)` after every pair."""


class Noisy(Exception):
    """Too many pairs were dropped; the text says why the last one was."""


class PairedRun:
    """One run: the same sides in the same workers from warm-up to the last pair.

    `fresh` moves all sides on to contents that none has seen. Methods raise SideFault and Noisy.
    """

    def __init__(  # the sides, what they are given, and who looks on
        self,
        sides: Sequence[Side],
        fresh: Callable[[], None],
        *,
        seed: int,
        swapped: bool,
        watch: Watch,
        told: Told = lambda done, wanted: None,  # noqa: ARG005  # nobody listens
    ) -> None:
        self._sides = sides
        self._fresh = fresh
        self._watch = watch
        self._told = told
        checkable = [place for place, side in enumerate(sides) if side.checkable]
        self._rounds = rounds(seed, len(sides), checkable=checkable, swapped=swapped)
        self.samples: dict[str, list[float]] = {side.name: [] for side in sides}
        """Microseconds by side; equal places are a pair."""
        self.held: dict[str, list[Turn]] = {side.name: [] for side in sides}
        self.bare: dict[str, list[Turn]] = {side.name: [] for side in sides}
        self.checked: Counter[str] = Counter()
        self.dropped = 0
        self.round_seconds = 0.0
        """Of the last warm-up round."""

    @property
    def pairs(self) -> int:
        """Pairs that count."""
        return min(len(samples) for samples in self.samples.values())

    def warm_up(self) -> None:
        """Turns until every side has reached its pace."""
        warmth = {side.name: Warmth() for side in self._sides}
        while not all(one.warm for one in warmth.values()):
            self._fresh()
            turns = {side.name: self._turn(side, bare=False) for side in self._sides}
            for name, turn in turns.items():
                warmth[name].feed(turn.reading.us, turn.judge_us / 1e6)
            self.round_seconds = sum(turn.judge_us for turn in turns.values()) / 1e6

    def extend(self, pairs: int) -> None:
        """Rounds until there are so many pairs."""
        while self.pairs < pairs:
            self._round()
            self._told(self.pairs, pairs)

    def disagreement(self, side: str) -> str:
        """How the clocks of a side's turns contradict each other; empty when they agree."""
        return disagreement(self.held[side], self.bare[side])

    def _round(self) -> None:
        plan = next(self._rounds)
        self._fresh()
        turns: dict[str, Turn] = {}
        states = []
        for place in plan.order:
            side = self._sides[place]
            turns[side.name] = self._turn(side, bare=plan.bare)
            states.append(self._watch.state())
        # Afterwards, so that nothing comes between the two halves of a pair.
        for place in sorted(plan.checked):
            self._check(self._sides[place])
        if plan.bare:
            for name, turn in turns.items():
                self.bare[name].append(turn)
        elif why := unsteady(states):
            self._drop(why)
        else:
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

    def _check(self, side: Side) -> None:
        self.checked[side.name] += 1
        findings = side.check()
        if findings:
            worst = findings[0]
            evidence = {**worst.evidence, "found": worst.code}
            raise SideFault(
                side.name,
                structs.replace(worst, code="profile.timed-output-wrong", evidence=evidence),
            )

    def _drop(self, why: str) -> None:
        self.dropped += 1
        tried = self.pairs + self.dropped
        if tried >= _FEW and self.dropped > MOST_DROPPED * tried:
            raise Noisy(f"{self.dropped} of {tried} pairs were dropped: {why}")
