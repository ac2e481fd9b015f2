"""A kernel held against one that passed its gate before, perhaps on another machine."""

from functools import cached_property

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


class Yardstick:
    """A kernel with its own report, which others are held against: no slower than `FLOOR` of it, or
    doing its very work, which is as fast by identity."""

    def __init__(
        self, there: SessionWorkplace, source: str, report: GateReport, *, elsewhere: bool
    ) -> None:
        """`elsewhere`: it was timed on a GPU that is not here, so that it is compiled again, and
        timed again where it must be: a modeled time beside a measured one says nothing."""
        self._there = there
        self._source = source
        self._report = report
        self._elsewhere = elsewhere

    @cached_property
    def _compiled(self) -> GateReport:
        if not self._elsewhere:
            return self._report
        return self._there.beside(self._source, self._source, self._report, None).report

    @cached_property
    def _timed(self) -> GateReport:
        return self._there.gate_alone(self._source) if self._elsewhere else self._report

    def hold(self, source: str) -> Held:
        """What the gate says of a kernel beside it."""
        beside = self._there.beside(source, self._source, self._report, FLOOR)
        # Pairs of two equal kernels of 15 us differ by more than 0.99 allows.
        work = self._compiled.work
        if work and beside.report.work == work:
            return Held(report=beside.proven(), identical=True)
        if self._elsewhere:
            beside = self._there.beside(source, self._source, self._timed, FLOOR)
        return Held(report=beside.judged(), identical=False)
