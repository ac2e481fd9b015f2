"""The kernel that a run ends with is looked at once more, by tools too dear for every step.

They tell and take nothing back: whoever reads the end decides what becomes of the kernel.
"""

import asyncio
from collections.abc import Callable

from workbench.engine import events as ev
from workbench.engine.history import History
from workbench.engine.parts import Workplace
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Stage, Verdict


class LastLook:
    """`before` is how a session stood when its engine began: what was best then was looked at."""

    def __init__(
        self, workplace: Workplace, before: History, emit: Callable[[ev.AnyEvent], None]
    ) -> None:
        self._workplace = workplace
        self._before = before.best
        self._emit = emit

    async def says(self, history: History) -> str:
        """What the tools say of the best kernel, in a clause; empty where none looked.

        Nothing is asked of a seed, and of what was the best before.
        """
        best = history.best
        known = None if self._before is None else self._before.number
        if best is None or best.parent is None or best.number == known:
            return ""
        try:
            report = await asyncio.to_thread(self._workplace.proven, best)
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
    told = report.report(Stage.CORRECTNESS)
    cost = f"{report.gpu_seconds:.1f} GPU-s, not counted to a step"
    if report.verdict is Verdict.REJECTED:
        code = f"{report.says} [{report.code}]"
        return f"LAST LOOK AGAINST v{number}: {code}; `workbench undo` takes it back ({cost})"
    return f"a last look at v{number}: {report.says if told is None else told.says} ({cost})"
