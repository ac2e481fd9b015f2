"""A last look at the kernel that a run ends with, by tools that cost too much for every step.

The result is only reported: whoever reads it decides whether the kernel is taken back.
"""

import asyncio
from collections.abc import Callable

from workbench.engine import events as ev
from workbench.engine.history import History
from workbench.engine.parts import Workplace
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Stage, Verdict


class LastLook:
    """Looks at the best kernel of a session when its run ends.

    `before` is the session's history when its engine began: a kernel that was the best by then is
    not looked at again.
    """

    def __init__(
        self, workplace: Workplace, before: History, emit: Callable[[ev.AnyEvent], None]
    ) -> None:
        self._workplace = workplace
        self._before = before.best
        self._emit = emit

    async def says(self, history: History) -> str:
        """What the tools say of the best kernel, in a clause; empty where none of them ran.

        A seed, and a kernel that was the best before, are not looked at.
        """
        best = history.best
        known = None if self._before is None else self._before.number
        if best is None or best.parent is None or best.number == known:
            return ""
        try:
            report = await asyncio.to_thread(self._workplace.last_look, best)
        except WorkbenchError as fault:
            self._emit(ev.Note(level="warning", says=f"v{best.number} had no last look: {fault}"))
            return ""
        if report is None:
            return ""
        says = _clause(best.number, report)
        level = "info" if report.verdict is Verdict.ACCEPTED else "warning"
        self._emit(ev.Note(level=level, says=says))
        return says


def _clause(number: int, report: GateReport) -> str:
    correctness = report.report(Stage.CORRECTNESS)
    cost = f"{report.gpu_seconds:.1f} GPU-s, counted to no step"
    if report.verdict is Verdict.REJECTED:
        code = f"{report.says} [{report.code}]"
        return f"LAST LOOK AGAINST v{number}: {code}; `workbench undo` takes it back ({cost})"
    says = report.says if correctness is None else correctness.says
    return f"a last look at v{number}: {says} ({cost})"
