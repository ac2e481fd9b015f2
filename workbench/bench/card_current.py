"""Whether a recorded trial still holds for the present card and kernel."""

from functools import cache

from workbench.bench.card_states import states_of
from workbench.bench.card_trials import Trial
from workbench.errors import WorkbenchError
from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import normalized_sha256
from workbench.problems.load import load_problem, shipped_problems


def outdated(trial: Trial) -> str:
    """Why a trial is no longer evidence for its card; empty where it is.

    Its edit produces another text by now, or the plain form that it was tried on was changed. A
    kernel that is not a shipped form, such as a session's, is taken as recorded.
    """
    now = _texts(trial.problem).get(trial.state)
    if now is not None and now != normalized_sha256(trial.parent):
        return f"the state `{trial.state}` of {trial.problem} is another one now"
    edit = EDITS.get(trial.edit)
    if edit is None:
        return f"there is no edit `{trial.edit}` any more"
    try:
        made = edit.apply(trial.parent, trial.kernel, trial.parameters).source
    except (EditRefused, WorkbenchError) as refused:
        return f"the edit `{trial.edit}` no longer makes it: {refused}"
    if normalized_sha256(made) != normalized_sha256(trial.source):
        return f"the edit `{trial.edit}` makes another kernel now"
    return ""


@cache
def _texts(problem: str) -> dict[str, str]:
    """Digests of the shipped forms of a problem, by name."""
    if problem not in shipped_problems():
        return {}
    states = states_of(load_problem(problem))
    return {state.name: normalized_sha256(state.source) for state in states}
