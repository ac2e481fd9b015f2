"""Whether a candidate climbs, waits or is given up: decided from results alone, with the reason.

No clock, no files, no randomness: the same results give the same standing. KernelBrain
names score, promotion and pruning without formulas; these are ours, their numbers `ladder.toml`'s.
"""

from collections.abc import Sequence
from enum import StrEnum
from math import inf, isfinite
from pathlib import Path

from msgspec import Struct, structs

from workbench.measure.records import Kind
from workbench.search.ladder import LadderFile, RungSpec, load_ladder


class Action(StrEnum):
    """What happens to a candidate."""

    PROMOTE = "promote"
    """Goes to the next rung, or is kept if this is the top one."""
    HOLD = "hold"
    """It may be promoted later: nothing speaks against it, and others go first."""
    PRUNE = "prune"
    """It is never evaluated again."""


class RungResult(Struct, frozen=True, kw_only=True):
    """The result of one rung for one candidate, and its cost.

    Ratios are a base's time over the candidate's: 2.0 is half the time. The base is the incumbent,
    or any kernel that the incumbent's own result also refers to.
    """

    rung: str
    """`static`, `smoke`, `bench` or `profile`."""
    passed: bool
    """Whether policy, compiler and correctness found nothing against it as far as they were asked;
    a time never makes it false."""
    unproven: bool = False
    """The machine kept it from being judged: not the candidate's failure."""
    kind: Kind = Kind.MODELED
    ratio: float | None = None
    """None where nothing was timed."""
    low: float | None = None
    high: float | None = None
    """Ends of the interval, where there is one; a modeled ratio has none."""
    gain: bool = False
    """Whether the pairs' own test (`measure.pairs.answer`) found a gain over the incumbent. For a
    short kernel the interval is wider than that test requires."""
    gpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    """Wall seconds of this rung alone."""


class Rung(Struct, frozen=True, kw_only=True):
    """One step of the ladder."""

    name: str
    place: int
    """Place of the rung, from 0."""
    spec: RungSpec


class Standing(Struct, frozen=True, kw_only=True):
    """What happens to a candidate, and why."""

    action: Action
    reason: str
    """One sentence without a full stop."""
    score: float
    """Sort key of candidates: the lower end of the speedup plus the rung's bonus. Higher is better;
    0 when pruned."""
    rung: str = ""
    """The rung to which it is promoted; empty from the top rung, or if it is not."""


class Interval(Struct, frozen=True):
    """The interval of a speedup over the incumbent."""

    low: float
    high: float
    ratio: float
    """The likeliest ratio, between the ends."""
    kind: Kind

    def says(self) -> str:
        """`1.043x [1.036, 1.050] measured`."""
        high = f"{self.high:.3f}" if isfinite(self.high) else "unbounded"
        return f"{self.ratio:.3f}x [{self.low:.3f}, {high}] {self.kind}"


class Ladder:
    """The rungs, and the rules by which candidates climb them."""

    def __init__(self, file: LadderFile) -> None:
        self.file = file
        self.rungs = tuple(
            Rung(name=name, place=place, spec=spec)
            for place, (name, spec) in enumerate(file.rung.items())
        )
        self._measures = any(rung.spec.needs_gpu for rung in self.rungs)

    @classmethod
    def load(cls, user: Path | None = None) -> "Ladder":
        """The shipped rungs with a person's own changes (`ladder.load_ladder` says the errors)."""
        return cls(load_ladder(user))

    def without_gpu(self) -> "Ladder":
        """The ladder without the rungs that need a GPU."""
        return self.without(*(rung.name for rung in self.rungs if rung.spec.needs_gpu))

    def without(self, *names: str) -> "Ladder":
        """The ladder without these rungs."""
        kept = {rung.name: rung.spec for rung in self.rungs if rung.name not in names}
        return Ladder(structs.replace(self.file, rung=kept))

    def rung(self, name: str) -> Rung:
        """The rung of that name. Raises KeyError where there is none."""
        for rung in self.rungs:
            if rung.name == name:
                return rung
        raise KeyError(name)

    def standing(
        self,
        results: Sequence[RungResult],
        *,
        incumbent: RungResult | None = None,
        trusted: bool = False,
    ) -> Standing:
        """Whether a candidate with these results is promoted, held or pruned, and why.

        Results may be in any order; of several at one rung the last counts. `incumbent` is a result
        against the same base; None means that the candidate was timed against the incumbent itself.
        `trusted` tells whether modeled times may rank such kernels (`trust.why_not_trusted`);
        where they may not, they decide nothing. Raises KeyError for a result of a rung that is not
        on the ladder.
        """
        reached = sorted(results, key=lambda one: self.rung(one.rung).place)
        if not reached:
            return self._up(-1, "it is new", 1.0)
        last = reached[-1]
        rung = self.rung(last.rung)
        interval = self.interval(last, incumbent, trusted=trusted)
        action, reason = self._action(reached, interval, incumbent, trusted=trusted)
        score = 0.0 if action is Action.PRUNE else _score(interval, rung)
        if action is not Action.PROMOTE:
            return Standing(action=action, reason=reason, score=score)
        return self._up(rung.place, reason, score)

    def _action(
        self,
        reached: Sequence[RungResult],
        interval: Interval | None,
        incumbent: RungResult | None,
        *,
        trusted: bool,
    ) -> tuple[Action, str]:
        """The decision by the rungs, the lowest first."""
        last = reached[-1]
        rung = self.rung(last.rung)
        if refused := next((one for one in reached if not one.passed and not one.unproven), None):
            return Action.PRUNE, f"{refused.rung} refused it"
        if last.unproven:
            return Action.HOLD, f"{last.rung} could not judge it"
        if last.kind is Kind.MODELED and not self._measures:
            return _as_modeled(last, incumbent, rung, trusted=trusted)
        proven = last.gain and incumbent is None
        return _ruled(interval, rung, top=rung is self.rungs[-1], proven=proven)

    def interval(
        self, result: RungResult, incumbent: RungResult | None, *, trusted: bool
    ) -> Interval | None:
        """The interval of the speedup over the incumbent; None where nothing can be said.

        A modeled ratio may err by the ladder's `model_doubt` either way, and says nothing where the
        model is not trusted. Kinds are never mixed: an incumbent's result of another kind says
        nothing either.
        """
        own = self._ends(result, trusted=trusted)
        if own is None or incumbent is None:
            return own
        other = self._ends(incumbent, trusted=trusted)
        if other is None or other.kind is not own.kind:
            return None
        if own.kind is Kind.MODELED:
            # The model's doubt applies to the ratio of two modeled ratios, not to each of them.
            ratio, doubt = own.ratio / other.ratio, self.file.search.model_doubt.value
            return Interval(ratio / doubt, ratio * doubt, ratio, own.kind)
        low = own.low / other.high if isfinite(other.high) else 0.0
        high = own.high / other.low if other.low > 0 else inf
        return Interval(low, high, own.ratio / other.ratio, own.kind)

    def _ends(self, one: RungResult, *, trusted: bool) -> Interval | None:
        if one.ratio is None or not one.ratio > 0:
            return None
        if one.kind is Kind.MODELED:
            doubt = self.file.search.model_doubt.value
            low, high = one.ratio / doubt, one.ratio * doubt
            return Interval(low, high, one.ratio, one.kind) if trusted else None
        low = 0.0 if one.low is None else one.low
        return Interval(low, inf if one.high is None else one.high, one.ratio, one.kind)

    def _up(self, place: int, reason: str, score: float) -> Standing:
        """Promote to the next rung, if there is one."""
        if place + 1 >= len(self.rungs):
            return Standing(action=Action.PROMOTE, reason=f"{reason}: it is kept", score=score)
        name = self.rungs[place + 1].name
        return Standing(
            action=Action.PROMOTE, reason=f"{reason}: to {name}", score=score, rung=name
        )


def _score(interval: Interval | None, rung: Rung) -> float:
    """The lower end of the speedup, 1 where nothing is known, plus the rung's bonus."""
    return (1.0 if interval is None else interval.low) + rung.spec.bonus.value


def _ruled(interval: Interval | None, rung: Rung, *, top: bool, proven: bool) -> tuple[Action, str]:
    """The decision that an interval means at a rung, by its thresholds."""
    spec, name = rung.spec, rung.name
    if interval is None:
        if top:
            return Action.HOLD, f"{name} has no time of it"
        return Action.PROMOTE, f"{name} found nothing against it"
    says = f"{interval.says()} at {name}"
    least = spec.promote_above.value
    if proven or interval.low > max(1.0, least):
        return Action.PROMOTE, f"{says} is a gain above {least:g}x"
    if interval.high < spec.prune_below.value and interval.low <= 1:
        return Action.PRUNE, f"{says} is below {spec.prune_below.value:g}x"
    if interval.ratio >= spec.likely_above.value and not top:
        return Action.PROMOTE, f"{says} may be a gain"
    return Action.HOLD, f"{says} proves no gain above {least:g}x"


def _as_modeled(
    last: RungResult, incumbent: RungResult | None, rung: Rung, *, trusted: bool
) -> tuple[Action, str]:
    """On a ladder without measurements: the modeled ratio itself decides, as in the gate.

    No higher rung will know better. It may promote a candidate anywhere, and prune one only where
    the model is trusted.
    """
    base = 1.0 if incumbent is None else incumbent.ratio
    alike = incumbent is None or incumbent.kind is Kind.MODELED
    if last.ratio is None or not base or not alike:
        return Action.HOLD, f"{rung.name} has no time of it"
    ratio, least = last.ratio / base, rung.spec.promote_above.value
    says = f"{ratio:.3f}x modeled" + ("" if trusted else ", not trusted to rank here")
    if ratio > least:
        return Action.PROMOTE, f"{says}, is above {least:g}x"
    action = Action.PRUNE if trusted else Action.HOLD
    return action, f"{says}, is not a gain above {least:g}x"
