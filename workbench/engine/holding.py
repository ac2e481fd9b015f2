"""Compares a kernel with one that passed its gate earlier, perhaps on another machine."""

from functools import cached_property

from msgspec import Struct

from workbench.engine.workplace import SessionWorkplace
from workbench.gate.records import GateReport, Verdict
from workbench.measure.records import Kind

FLOOR = 0.99
"""Least ratio to the kernel that is to be reached (KLineage, roundtrip admission)."""


class Held(Struct, frozen=True, kw_only=True):
    """The gate's report on a kernel in comparison with another."""

    report: GateReport
    identical: bool
    """Whether it does the same work as the other kernel, so that it was not timed."""

    @property
    def reached(self) -> bool:
        """Whether it passed the comparison."""
        return self.report.verdict is Verdict.ACCEPTED

    @property
    def ratio(self) -> float | None:
        """The other's time over its own; 1.0 if identical, None if not timed."""
        if self.identical and self.reached:
            return 1.0
        return None if self.report.speed is None else self.report.speed.ratio

    @property
    def kind(self) -> Kind | None:
        """Kind of the ratio; None if nothing was timed."""
        return None if self.report.speed is None else self.report.speed.kind


class Yardstick:
    """A kernel with its report, with which others are compared.

    They must reach `FLOOR` of its speed, or do exactly the same work.
    """

    def __init__(
        self, there: SessionWorkplace, source: str, report: GateReport, *, elsewhere: bool
    ) -> None:
        """`elsewhere`: the report is from a GPU that is not here, so the kernel is compiled again
        and, if needed, timed again: a modeled and a measured time cannot be compared."""
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

    def get_ready(self) -> float:
        """Start the workers and inspect the problem, so that no comparison waits for it.

        Returns the seconds of its own verdict where it needs one here, else 0.
        """
        self._there.compiled(self._source)
        return sum(one.seconds for one in self._timed.stages) if self._elsewhere else 0.0

    def hold(self, source: str) -> Held:
        """Gate a kernel in comparison with this one."""
        beside = self._there.beside(source, self._source, self._report, FLOOR)
        # Pairs of two equal kernels of 15 us differ by more than 0.99 allows.
        work = self._compiled.work
        if work and beside.report.work == work:
            return Held(report=beside.proven(), identical=True)
        if self._elsewhere:
            beside = self._there.beside(source, self._source, self._timed, FLOOR)
        return Held(report=beside.judged(), identical=False)
