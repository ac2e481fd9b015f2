"""Candidates that were put aside because others were gated first, and which of them comes back.

They are ordinary transitions, so that a killed run has the same queue when it is resumed.
"""

from collections.abc import Sequence

from msgspec import structs

from workbench.engine.history import History
from workbench.measure.records import Kind, Speed
from workbench.search.chain import combined_gain
from workbench.search.records import Proposal
from workbench.search.rungs import Action, Ladder, RungResult
from workbench.session.records import PUT_ASIDE, Answer, RungVisit, Transition

HELD = PUT_ASIDE
"""Reason code of a candidate that was put aside."""


def put_aside(transition: Transition) -> bool:
    """Whether a candidate was set aside before its gate ended, with no fault found so far."""
    return transition.gate.code == HELD and transition.decision.answer is Answer.REJECTED


def waiting(history: History) -> list[Transition]:
    """Candidates that were put aside and have not come back yet."""
    back = {t.plan.held for t in history.transitions if t.plan is not None}
    return [t for t in history.transitions if put_aside(t) and t.number not in back]


def comes_back(history: History, ladder: Ladder, *, trusted: bool) -> tuple[Transition, str] | None:
    """The waiting candidate with the best standing against the incumbent, and the ladder's reason.

    None if none of them may still be a gain. A candidate that was compared with an earlier
    incumbent is compared with the present one by the intervals of the steps between. Measuring
    again may change a measured ratio, but never a modeled one: of the modeled, only a gain
    comes back.
    """
    found: list[tuple[float, int, Transition, str]] = []
    for one in waiting(history):
        result = _result(one)
        since = None if result is None else _since(one, result, history)
        if result is None or since is None:
            continue
        incumbent = combined_gain(since, result) if since else None
        if since and incumbent is None:
            continue
        standing = ladder.standing([result], incumbent=incumbent, trusted=trusted)
        measured = result.kind is Kind.MEASURED and standing.action is Action.HOLD
        if standing.action is Action.PROMOTE or measured:
            found.append((-standing.score, one.number, one, standing.reason))
    if not found:
        return None
    _, _, one, reason = min(found, key=lambda row: row[:2])
    return one, reason


def as_step(one: Transition, reason: str, source: str) -> Proposal | None:
    """A candidate that comes back, as a step from the incumbent; None if it has no plan."""
    if one.plan is None:
        return None
    why = f"put aside as v{one.number} ({reason}); now nothing goes before it"
    plan = structs.replace(one.plan, held=one.number, reason=why, trail=(why,))
    return Proposal(plan=plan, source=source)


def measured_speed(rungs: Sequence[RungVisit]) -> Speed | None:
    """The last speed that a rung measured in pairs, for a candidate whose gate measured none."""
    speeds = [v.speed for v in rungs if v.speed is not None and v.speed.kind is Kind.MEASURED]
    return speeds[-1] if speeds else None


def _last(transition: Transition) -> RungVisit | None:
    """The visit to the rung at which the candidate was put aside."""
    return next((v for v in reversed(transition.rungs) if v.speed is not None), None)


def _result(transition: Transition) -> RungResult | None:
    visit = _last(transition)
    if visit is None or visit.speed is None:
        return None
    return _of(visit.rung, visit.speed)


def _of(rung: str, speed: Speed) -> RungResult:
    return RungResult(
        rung=rung,
        passed=True,
        kind=speed.kind,
        ratio=speed.ratio,
        low=speed.low,
        high=speed.high,
    )


def _since(one: Transition, like: RungResult, history: History) -> list[RungResult] | None:
    """The speed of each step from the candidate's parent to the incumbent.

    None if the parent is not among the incumbent's ancestors, or if a step was not timed.
    """
    incumbent = history.incumbent
    line = () if incumbent is None else history.line(incumbent.number)
    if one.parent is None or one.parent not in line:
        return None
    speeds = [history.get(n).gate.speed for n in line[line.index(one.parent) + 1 :]]
    known = [_of(like.rung, speed) for speed in speeds if speed is not None]
    return known if len(known) == len(speeds) else None
