"""The two ends of a lineage."""

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
    """The two ends of a lineage."""

    problem: str
    target: str
    naive: str
    expert: str
    report: GateReport
    """Of the expert."""
    steps: tuple[Instance, ...]
    """From the one to the other."""

    @property
    def measured(self) -> bool:
        """Whether the lineage was recorded on a GPU."""
        return self.report.time is not None and self.report.time.kind is Kind.MEASURED


def ends_of(lineage: Path, store: SessionReader) -> Ends:
    """Of a recorded lineage. Raises WorkbenchError for what is none, or has no step."""
    settings = store.settings()
    if settings.kind != "lineage":
        raise WorkbenchError(f"session {lineage.name} is no lineage", where=str(lineage))
    if settings.problem not in shipped_problems():
        raise WorkbenchError(f"{settings.problem} is no shipped problem", where=str(lineage))
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
