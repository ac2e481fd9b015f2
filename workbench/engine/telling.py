"""One plain sentence for each event: log pane, `watch` and headless progress all say the same."""

from typing import assert_never

from workbench.engine import events as ev
from workbench.engine.view import LogLine
from workbench.engine.visible import visible
from workbench.gate.records import Finding, Outcome, StageReport

_MARK = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "FAILED",
    Outcome.UNPROVEN: "unproven",
    Outcome.SKIPPED: "skipped",
}


def tell(event: ev.AnyEvent) -> LogLine | None:
    """The event as a log line; None for meter ticks, which are not news."""
    says = visible(_sentence(event))
    if not says:
        return None
    news = isinstance(event, ev.Note) and event.level != "info"
    return LogLine(at=event.at, level=_level(event), says=says, news=news)


def _level(event: ev.AnyEvent) -> str:
    match event:
        case ev.Note():
            return event.level
        case ev.RunEnded(how="failed"):
            return "error"
        case ev.DecisionWanted():
            return "warning"
        case ev.ModelAnswered() if event.says:
            return "warning"
        case _:
            return "info"


def _sentence(event: ev.AnyEvent) -> str:  # noqa: C901, PLR0911, PLR0912 -- one case an event
    match event:
        case ev.RunStarted():
            how = "resumed" if event.resumed else "started"
            return f"run {how} on {event.device} for {event.target}, mode {event.mode}"
        case ev.PlanMade():
            return f"v{event.number} from v{event.parent}: {_plan(event)}"
        case ev.StageStarted() | ev.StageProgress() | ev.ModelSaid():
            return ""
        case ev.StageFinished():
            return f"v{event.number} {stage_line(event.report)}"
        case ev.DecisionWanted():
            return f"v{event.number} waits for your decision"
        case ev.DecisionTaken():
            why = f": {event.reason}" if event.reason else ""
            said = "unproven, so not kept" if event.unproven else f"{event.answer} by {event.by}"
            return f"v{event.number} {said}{why}"
        case ev.TransitionCommitted():
            return f"v{event.number} committed as {event.commit[:9]}"
        case ev.MainMoved():
            return f"{event.says}, told by commit {event.commit[:9]}"
        case ev.BudgetSpent() | ev.RungReached() | ev.AheadUsed() | ev.AheadDropped():
            return ""
        case ev.RunPaused():
            return f"paused{': ' + event.says if event.says else ''}"
        case ev.RunResumed():
            return "goes on"
        case ev.RunEnded():
            return f"run {event.how}: {event.says}"
        case ev.ModelAsked():
            return _asked(event)
        case ev.ModelAnswered():
            return _answered(event)
        case ev.Note():
            return event.says
        case _:
            assert_never(event)


def _plan(event: ev.PlanMade) -> str:
    plan = event.plan
    values = ", ".join(f"{key}={value}" for key, value in plan.parameters.items())
    return f"{plan.title}{' (' + values + ')' if values else ''} on {plan.kernel}"


def _asked(event: ev.ModelAsked) -> str:
    again = f", attempt {event.attempt}" if event.attempt > 1 else ""
    most = "" if event.usd_at_most is None else f", at most ${event.usd_at_most:.4f}"
    why = f"; handed back: {event.because}" if event.because and not again else ""
    return (
        f"v{event.number} asks {event.model} as {event.role}{again}:"
        f" about {event.prompt_tokens:,} tokens{most}{why}"
    )


def _answered(event: ev.ModelAnswered) -> str:
    about = "about " if event.counted else ""
    counted = f"; counted here: {event.counts}" if event.counted and event.counts else ""
    cached = f" ({event.cached_tokens:,} cached)" if event.cached_tokens else ""
    dollars = "dollars unknown" if event.usd is None else f"${event.usd:.4f}"
    fault = f" ({event.says})" if event.says else ""
    return (
        f"v{event.number} {event.role}: {event.ending}{fault} in {event.seconds:.1f} s,"
        f" {about}{event.prompt_tokens:,}{cached} + {event.reply_tokens:,} tokens,"
        f" {dollars}{counted}"
    )


def stage_line(report: StageReport) -> str:
    """`policy passed in 0.03 s: 1 kernel launched from forward`."""
    took = f" in {report.seconds:.2f} s" if report.outcome is not Outcome.SKIPPED else ""
    return f"{report.stage} {_MARK[report.outcome]}{took}: {report.says}"


def evidence_line(finding: Finding) -> str:
    """What a finding rests on, `shape=full, share=0.001465`, and what to do about it.

    Empty where it names nothing; a name that the finding's sentence has is not said twice.
    """
    values = dict(finding.evidence)
    todo = values.pop("todo", "")
    if str(values.get("name", "")) in finding.says:
        values.pop("name", None)
    said = ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
    )
    return "; ".join(filter(None, (said, f"to do: {todo}" if todo else "")))
