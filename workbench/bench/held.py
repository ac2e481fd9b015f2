"""The two ends of a lineage, and a kernel held against its expert."""

from pathlib import Path

from msgspec import Struct

from workbench.bench.roundtrip import FLOOR
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Verdict
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


class Held(Struct, frozen=True, kw_only=True):
    """What the gate said of a kernel beside the expert."""

    report: GateReport
    identical: bool
    """Its work is the expert's, so it was compared and not timed."""

    @property
    def reached(self) -> bool:
        """Whether it passed beside the expert."""
        return self.report.verdict is Verdict.ACCEPTED

    @property
    def ratio(self) -> float | None:
        """The expert's time over its own; 1.0 by identity."""
        if self.identical and self.reached:
            return 1.0
        return None if self.report.speed is None else self.report.speed.ratio

    @property
    def kind(self) -> Kind | None:
        """Of the ratio; None where nothing was timed."""
        return None if self.report.speed is None else self.report.speed.kind


def held(there: SessionWorkplace, source: str, ends: Ends, *, elsewhere: bool) -> Held:
    """A kernel beside the expert; one that does its very work is as fast by identity.

    `elsewhere`: the expert was timed on a GPU that is not here, so that it is compiled again, and
    timed again where it must be: a modeled time beside a measured one says nothing.
    """
    before = ends.report
    if elsewhere:
        before = there.beside(ends.expert, ends.expert, before, None).report
    beside = there.beside(source, ends.expert, ends.report, FLOOR)
    # Pairs of two equal kernels of 15 us differ by more than 0.99 allows.
    identical = bool(before.work) and beside.report.work == before.work
    if identical:
        return Held(report=beside.proven(), identical=True)
    if elsewhere:
        alone = there.gate_alone(ends.expert)
        beside = there.beside(source, ends.expert, alone, FLOOR)
    return Held(report=beside.judged(), identical=False)
