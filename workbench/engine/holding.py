"""A kernel held against one that passed its gate before, perhaps on another machine."""

from msgspec import Struct

from workbench.engine.workplace import SessionWorkplace
from workbench.gate.records import GateReport, Verdict
from workbench.measure.records import Kind

FLOOR = 0.99
"""Least ratio against what is to be reached (KLineage, roundtrip admission)."""


class Held(Struct, frozen=True, kw_only=True):
    """What the gate said of a kernel beside another."""

    report: GateReport
    identical: bool
    """Its work is the other's, so it was compared and not timed."""

    @property
    def reached(self) -> bool:
        """Whether it passed beside the other."""
        return self.report.verdict is Verdict.ACCEPTED

    @property
    def ratio(self) -> float | None:
        """The other's time over its own; 1.0 by identity."""
        if self.identical and self.reached:
            return 1.0
        return None if self.report.speed is None else self.report.speed.ratio

    @property
    def kind(self) -> Kind | None:
        """Of the ratio; None where nothing was timed."""
        return None if self.report.speed is None else self.report.speed.kind


def held(
    there: SessionWorkplace, source: str, other: str, report: GateReport, *, elsewhere: bool
) -> Held:
    """A kernel beside another, whose own report is given; no slower than `FLOOR` of it, or doing
    its very work, which is as fast by identity.

    `elsewhere`: the other was timed on a GPU that is not here, so that it is compiled again, and
    timed again where it must be: a modeled time beside a measured one says nothing.
    """
    before = report
    if elsewhere:
        before = there.beside(other, other, before, None).report
    beside = there.beside(source, other, report, FLOOR)
    # Pairs of two equal kernels of 15 us differ by more than 0.99 allows.
    identical = bool(before.work) and beside.report.work == before.work
    if identical:
        return Held(report=beside.proven(), identical=True)
    if elsewhere:
        alone = there.gate_alone(other)
        beside = there.beside(source, other, alone, FLOOR)
    return Held(report=beside.judged(), identical=False)
