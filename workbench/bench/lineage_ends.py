"""Reads the two ends of a recorded lineage: its naive and its expert kernel."""

from pathlib import Path

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport
from workbench.lineage.instances import Instance, instances
from workbench.measure.records import Kind
from workbench.problems.load import shipped_problems
from workbench.session.reader import SessionReader
from workbench.session.records import Answer


class Ends(Struct, frozen=True, kw_only=True):
    """The two ends of a lineage, and the steps between them."""

    problem: str
    target: str
    naive: str
    """Source of the first kernel."""
    expert: str
    """Source of the last kernel."""
    report: GateReport
    """The expert's gate report."""
    steps: tuple[Instance, ...]
    """The steps from naive to expert."""

    @property
    def measured(self) -> bool:
        """Whether the lineage was recorded on a GPU."""
        return self.report.time is not None and self.report.time.kind is Kind.MEASURED


def ends_of(lineage: Path, store: SessionReader) -> Ends:
    """The ends of a recorded lineage of a shipped problem.

    Raises WorkbenchError for a session of another kind, and for a lineage without steps.
    """
    settings = store.settings()
    if settings.kind != "lineage":
        raise WorkbenchError(f"session {lineage.name} is not a lineage", where=str(lineage))
    if settings.problem not in shipped_problems():
        raise WorkbenchError(f"{settings.problem} is not a shipped problem", where=str(lineage))
    chain = [v.number for v in store.overview().versions if v.answer is Answer.ACCEPTED]
    if len(chain) < 2:
        raise WorkbenchError(
            f"lineage {lineage.name} has no step", where=str(lineage), todo="walk it to its end"
        )
    return Ends(
        problem=settings.problem,
        target=settings.target,
        naive=store.source(chain[0]),
        expert=store.source(chain[-1]),
        report=store.transition(chain[-1]).gate,
        steps=tuple(instances([store])),
    )
