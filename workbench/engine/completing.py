"""Completes a gate report for a session: the baselines, and the speedup since the seed."""

from collections.abc import Callable
from functools import cached_property

from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.baselines import baselines_of, todays_baselines
from workbench.engine.history import modeled_speed
from workbench.errors import WorkbenchError
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import GateReport
from workbench.isolation.workshop import Workshop
from workbench.kernels.target import target
from workbench.measure.baselines import Baselines
from workbench.measure.eager import modeled_eager
from workbench.measure.records import Kind, Time
from workbench.problems.records import Precision, Problem
from workbench.session.records import SessionSettings


class Completing:
    """Completes the reports of one session; baselines are timed at most once."""

    def __init__(
        self,
        problem: Problem,
        facts: Callable[[], ProblemReport],
        settings: SessionSettings,
        workshop: Workshop,
        emit: Callable[[ev.AnyEvent], None],
    ) -> None:
        self._problem = problem
        self._facts = facts
        self._settings = settings
        self._workshop = workshop
        self._emit = emit
        self._baselines: Baselines | None = None
        self._asked_baselines = False

    def completed(self, report: GateReport, seed_time: Time | None) -> GateReport:
        """The report with baselines, and speeds against seed and reference of the same kind."""
        if report.time is None or report.time.kind is not Kind.MODELED:
            return self._with_baselines(report, timed=report.time is not None)
        versus_seed = None if seed_time is None else modeled_speed(seed_time, report.time)
        return structs.replace(self.beside_eager(report), versus_seed=versus_seed)

    def beside_eager(self, report: GateReport) -> GateReport:
        """A modeled report with the modeled time of eager PyTorch; any other report unchanged."""
        if report.time is None or report.time.kind is not Kind.MODELED:
            return report
        reference = self._reference_time
        versus = None if reference is None else modeled_speed(reference, report.time)
        return structs.replace(report, reference=reference, versus_reference=versus)

    def _with_baselines(self, report: GateReport, *, timed: bool) -> GateReport:
        """The report of a measured kernel with baselines, as far as they are known."""
        spent = 0.0
        if timed and self._baselines is None and self._settings.device_index is not None:
            self._baselines, spent = self._timed_baselines(self._settings.device_index)
        return structs.replace(
            report, baselines=self._baselines, gpu_seconds=report.gpu_seconds + spent
        )

    def _timed_baselines(self, device_index: int) -> tuple[Baselines | None, float]:
        """Cached or newly timed baselines, and the GPU-seconds that they took."""
        known = todays_baselines(self._problem, device_index)
        if self._asked_baselines or self._settings.baselines == "eager":
            return known, 0.0
        self._asked_baselines = True
        if known is not None and known.compiled is not None:
            return known, 0.0
        self._emit(ev.Note(level="info", says="timing the reference under torch.compile"))
        try:
            timed = baselines_of(self._problem, self._facts, device_index, self._workshop)
        except WorkbenchError as fault:
            self._emit(ev.Note(level="warning", says=f"there are no baselines: {fault}"))
            return known, 0.0
        return timed, timed.gpu_seconds

    @cached_property
    def _reference_time(self) -> Time | None:
        operators = self._facts().full.operators
        if not operators:
            return None
        tf32 = self._problem.precision is Precision.TF32
        return modeled_eager(operators, target(self._settings.target), tf32=tf32)
