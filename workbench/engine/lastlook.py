"""A last look at the kernel that a run ends with, by tools that cost too much for every step.

The result is only reported: whoever reads it decides whether the kernel is taken back. What it
costs is kept in git with what it found, and counts against the limits like a step.
"""

import asyncio
import time
from collections.abc import Callable

from workbench.engine import events as ev
from workbench.engine.books import Books
from workbench.engine.parts import Workplace
from workbench.engine.workclock import now
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Stage, Verdict
from workbench.session.records import Cost
from workbench.session.spends import Spend


class LastLook:
    """Looks at the best kernel of a session when its run ends, at each kernel once."""

    def __init__(
        self, workplace: Workplace, books: Books, emit: Callable[[ev.AnyEvent], None]
    ) -> None:
        self._workplace = workplace
        self._books = books
        self._emit = emit

    async def says(self) -> str:
        """What the tools say of the best kernel, in a clause; empty where none of them ran.

        A seed is not looked at. What no limit has room for is told as left out.
        """
        history = self._books.history
        best = history.best
        if best is None or best.parent is None or history.looked_at(best.number):
            return ""
        if short := self._books.no_look():
            return f"no last look at v{best.number}: {short}; `resume` with a wider limit looks"
        began = time.monotonic()
        try:
            report = await asyncio.to_thread(self._workplace.last_look, best)
            if report is None:
                return ""
            says = _clause(best.number, report)
            self._books.spend(_spend(best.number, report, says, time.monotonic() - began))
        except WorkbenchError as fault:
            self._emit(ev.Note(level="warning", says=f"v{best.number} had no last look: {fault}"))
            return ""
        level = "info" if report.verdict is Verdict.ACCEPTED else "warning"
        self._emit(ev.Note(level=level, says=says))
        return says


def _spend(number: int, report: GateReport, says: str, seconds: float) -> Spend:
    return Spend(
        purpose="last look",
        version=number,
        verdict=report.verdict,
        says=says,
        cost=Cost(gpu_seconds=report.gpu_seconds, wall_seconds=seconds),
        at=now(),
    )


def _clause(number: int, report: GateReport) -> str:
    correctness = report.report(Stage.CORRECTNESS)
    cost = f"{report.gpu_seconds:.1f} GPU-s"
    if report.verdict is Verdict.REJECTED:
        code = f"{report.says} [{report.code}]"
        return f"LAST LOOK AGAINST v{number}: {code}; `workbench undo` takes it back ({cost})"
    says = report.says if correctness is None else correctness.says
    return f"a last look at v{number}: {says} ({cost})"
