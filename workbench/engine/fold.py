"""How events change what is known of a running session: a pure fold over the log."""

from collections.abc import Iterable
from typing import Any, assert_never

from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.telling import tell
from workbench.engine.view import Climber, LogLine, Snapshot, State, StripStage, Talk
from workbench.gate.records import Stage
from workbench.session.records import Cost

LOG_LINES = 200
CLIMBERS = 40
"""Candidates on the ladder that are kept; a screen shows fewer."""
TALK_CHARACTERS = 4000
"""Characters kept from the end of an arriving reply; a screen shows fewer."""
_ENDED = {
    "finished": State.FINISHED,
    "budget": State.BUDGET,
    "stopped": State.STOPPED,
    "failed": State.FAILED,
}
_LIVE = frozenset({State.STARTING, State.RUNNING, State.WAITING, State.PAUSED})
EMPTY_STRIP = tuple(StripStage(stage=stage, outcome=None) for stage in Stage)


def fold(snapshot: Snapshot, events: Iterable[ev.AnyEvent]) -> Snapshot:
    """The snapshot after these events. Versions, best and cost come from git, not from here."""
    log: list[LogLine] = list(snapshot.log)
    for event in events:
        changes = _changes(snapshot, event)
        line = tell(event)
        if line is not None:
            log.append(line)
        snapshot = structs.replace(snapshot, **changes)
    return structs.replace(snapshot, log=tuple(log[-LOG_LINES:]), revision=snapshot.revision + 1)


def _changes(  # noqa: PLR0911 -- one case a kind of event
    now: Snapshot, event: ev.AnyEvent
) -> dict[str, Any]:
    """Fields of the snapshot that an event changes; most notes of the engine change none."""
    match event:
        case ev.RunStarted() | ev.RunPaused() | ev.RunResumed() | ev.RunEnded() | ev.MainMoved():
            return _run_changes(now, event)
        case ev.PlanMade():
            return {
                "state": State.RUNNING,
                "current": event.number,
                "plan": event.plan,
                "strip": EMPTY_STRIP,
            }
        case ev.StageStarted() | ev.StageProgress() | ev.StageFinished():
            return _stage_changes(now, event)
        case ev.DecisionWanted():
            return {"state": State.WAITING, "pending": event.number, "current": event.number}
        case ev.DecisionTaken():
            return {"state": State.RUNNING, "pending": None}
        case ev.ModelAsked() | ev.ModelSaid() | ev.ModelAnswered():
            return _talk_changes(now, event)
        case ev.RungReached():
            return {"climbers": _climbers(now, event)}
        case ev.BudgetSpent():
            return {"spent": event.cost, "steps": event.steps}
        case _:
            return {}


def _run_changes(
    now: Snapshot,
    event: ev.RunStarted | ev.RunPaused | ev.RunResumed | ev.RunEnded | ev.MainMoved,
) -> dict[str, Any]:
    match event:
        case ev.RunStarted():
            return {
                "state": State.STARTING,
                "says": "",
                "engine_pid": event.pid,
                "mode": event.mode,
                "device": event.device,
                "budget": event.budget,
            }
        case ev.RunPaused():
            return {"state": State.PAUSED, "says": event.says}
        case ev.RunResumed():
            return {"state": State.RUNNING, "says": ""}
        case ev.RunEnded():
            return {
                "state": _ENDED.get(event.how, State.FAILED),
                "says": event.says,
                "engine_pid": None,
            }
        case ev.MainMoved():
            # How the run ended is no longer how the session stands.
            return {} if now.state in _LIVE else {"state": State.STOPPED, "says": event.says}
        case _:
            assert_never(event)


def _climbers(now: Snapshot, event: ev.RungReached) -> tuple[Climber, ...]:
    """The candidates with one more rung, the newest of them."""
    known = {one.number: one for one in now.climbers}
    before = known[event.number].visits if event.number in known else ()
    kept = tuple(visit for visit in before if visit.rung != event.visit.rung)
    known[event.number] = Climber(number=event.number, visits=(*kept, event.visit))
    return tuple(known[number] for number in sorted(known))[-CLIMBERS:]


def _talk_changes(
    now: Snapshot, event: ev.ModelAsked | ev.ModelSaid | ev.ModelAnswered
) -> dict[str, Any]:
    line = tell(event)
    says = line.says if line is not None else ""
    if isinstance(event, ev.ModelAsked):
        talk = Talk(number=event.number, role=event.role, model=event.model, says=says)
        return {"talk": talk, "state": State.RUNNING}
    talk = now.talk or Talk(number=event.number, role=event.role, model="")
    if isinstance(event, ev.ModelSaid):
        kind = "reasoning" if event.kind == "reasoning" else "text"
        whole = getattr(talk, kind) + event.text
        return {"talk": structs.replace(talk, **{kind: whole[-TALK_CHARACTERS:]})}
    spent = now.spent.plus(Cost(usd=event.usd or 0.0))
    return {"talk": structs.replace(talk, running=False, says=says), "spent": spent}


def _stage_changes(
    now: Snapshot, event: ev.StageStarted | ev.StageProgress | ev.StageFinished
) -> dict[str, Any]:
    strip = now.strip if now.current == event.number and now.strip else EMPTY_STRIP
    if isinstance(event, ev.StageFinished):
        done = StripStage(
            stage=event.report.stage,
            outcome=event.report.outcome,
            seconds=event.report.seconds,
            says=event.report.says,
        )
    elif isinstance(event, ev.StageProgress):
        says = event.says or f"{event.done} of {event.total}"
        done = StripStage(stage=Stage(event.stage), outcome=None, running=True, says=says)
    else:
        done = StripStage(stage=Stage(event.stage), outcome=None, running=True)
    changes: dict[str, Any] = {
        "state": State.RUNNING,
        "current": event.number,
        "strip": tuple(done if known.stage is done.stage else known for known in strip),
    }
    if now.current != event.number:
        changes["plan"] = None
    return changes
