"""Finds the version that does the same work on a GPU, so that no work is evaluated twice."""

from workbench.engine.history import History
from workbench.gate.records import Finding, GateReport, Outcome, Stage
from workbench.session.records import Answer, Transition
from workbench.skills.records import Plan

_SPEED = ("profile.not-faster", "profile.slower", "profile.pruned-smoke")
"""Refusals that say how fast it is, and nothing else against it."""
_WRONG = (Outcome.FAILED, Outcome.UNPROVEN)


def twin_of(report: GateReport, plan: Plan | None, history: History) -> Transition | None:
    """The earliest version with the same work whose answer holds for this candidate too.

    Only for candidates that an edit made: what else changes beside the work at the full shape may
    be what a model or a person meant to mend. And only for a version that nothing was found
    against, and that was timed against the line which leads to the incumbent: no kernel gets slower
    along it, so what was not a gain there is none now (ours). Elsewhere, after a branch, it may be.
    """
    incumbent = history.incumbent
    if not report.work or incumbent is None or plan is None or not plan.edit or plan.method:
        return None
    line = history.line(incumbent.number)
    alike = (t for t in history.transitions if t.gate.work == report.work)
    return next((t for t in alike if _answered(t) and {t.number, t.parent} & {*line}), None)


def _answered(version: Transition) -> bool:
    """Whether its speed was judged, and nothing was found against it: what was not a gain before
    anything was compared is none whatever it computes."""
    correct = version.gate.report(Stage.CORRECTNESS)
    outcome = Outcome.SKIPPED if correct is None else correct.outcome
    if outcome in _WRONG:
        return False
    decided = version.decision.answer in {Answer.ACCEPTED, Answer.VETOED}
    return (decided and outcome is Outcome.PASSED) or version.gate.code in _SPEED


def same_work(twin: Transition) -> Finding:
    """Why a candidate with a twin is not evaluated."""
    became = twin.gate.says if twin.decision.answer is Answer.REJECTED else twin.decision.answer
    return Finding(
        code="compile.same-work",
        says=f"it does the very work of v{twin.number} ({became}), so it is not evaluated again",
        evidence={"twin": twin.number},
    )
