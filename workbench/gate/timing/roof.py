"""A problem's roofline on this GPU: the limit that times are shown against, and the floor below
which they are refused."""

from collections.abc import Callable
from datetime import UTC, datetime

from workbench.errors import WorkbenchError
from workbench.gate.problem.records import ProblemReport, ShapeReport
from workbench.gate.timing.ring_protocol import Prepared
from workbench.isolation.workshop import Workshop
from workbench.kernels.target import target as known_target
from workbench.measure.ceilings import Ceilings, keep_raised, known_or_measured
from workbench.measure.floor import Demand, Floor, floor, limit
from workbench.measure.raising import Shown, raised
from workbench.measure.records import Limit
from workbench.problems.records import Problem


class Roof:
    """The roofline of a problem's full shape; `facts` gives what `inspect_problem` found.

    Without a `device_index` nothing is known of a GPU: there is no limit.
    """

    def __init__(
        self,
        problem: Problem,
        facts: Callable[[], ProblemReport],
        *,
        target: str,
        device_index: int | None,
        workshop: Workshop,
    ) -> None:
        self._problem = problem
        self._facts = facts
        self._target = known_target(target)
        self._device_index = device_index
        self._workshop = workshop
        self._ceilings: Ceilings | None = None
        self._l2_bytes = self._target.l2_bytes
        self.doubt = ""
        """Why the limit comes from the datasheet although there is a GPU; empty until asked."""

    def limit(self) -> Limit | None:
        """The roofline at the rates this GPU reaches, which are measured if they never were.

        The caller holds the GPU exclusively. None where the work is not known.
        """
        if self._device_index is None:
            return None
        return limit(self._demand(), self._target, self._reached(self._device_index))

    def _demand(self) -> Demand | None:
        shape = self._facts().full
        if shape.work is None:
            return None
        return Demand(
            work=shape.work,
            dtypes=_dtypes(shape),
            precision=self._problem.precision,
            written=_written(shape),
            counted=shape.counted,
        )

    def raised_by(self, us: float, who: str) -> str:
        """Raise the ceilings where a time that is beyond doubt shows them to be too low.

        Returns a sentence on what was raised; empty where nothing was. `limit` then changes.
        """
        demand, known, index = self._demand(), self._ceilings, self._device_index
        if known is None or index is None or demand is None:
            return ""
        before = self.limit()
        if before is None:
            return ""
        shown = Shown(
            us=us,
            who=who,
            day=datetime.now(UTC).date().isoformat(),
            demand=demand,
            l2_bytes=self._l2_bytes,
        )
        found = raised(known, before, self._target, shown)
        if found is None:
            return ""
        self._ceilings = found
        keep_raised(index, found)
        (says,) = (note for name, note in found.raised.items() if known.raised.get(name) != note)
        return f"ceiling raised by {says}"

    def floor(self, prepared: Prepared) -> Floor:
        """The least time that can be true, by the datasheet, so that a slow GPU refuses no
        candidate.
        """
        self._l2_bytes = max(self._l2_bytes, prepared.l2_bytes or 0)
        demand, sms = self._demand(), prepared.sms
        return floor(demand, self._target, sms=sms, l2_bytes=prepared.l2_bytes)

    def _reached(self, device_index: int) -> Ceilings | None:
        if self._ceilings is None and not self.doubt:
            try:
                self._ceilings = known_or_measured(device_index, self._workshop)
            except WorkbenchError as fault:
                self.doubt = str(fault)
        return self._ceilings


def _written(shape: ShapeReport) -> float:
    """Bytes of all outputs."""
    return float(sum(entry.bytes for entry in shape.output_entries))


def _dtypes(shape: ShapeReport) -> set[str]:
    """Dtypes of inputs, weights and outputs."""
    entries = (*shape.input_entries, *shape.state, *shape.output_entries)
    return {entry.dtype for entry in entries}
