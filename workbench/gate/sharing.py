"""Runs a stage on a GPU that it shares with other checks, never with a timing, and guards it."""

import time
from collections.abc import Callable

from workbench.gate import health
from workbench.gate.records import Blame, Finding, Outcome, Stage, StageReport
from workbench.gate.settings import Listen, Told
from workbench.isolation.workshop import Workshop
from workbench.measure.gpulock import GpuBusy, gpu_lock
from workbench.measure.gpuwatch import lock_name

_ON_GPU = (Stage.CORRECTNESS, Stage.PROFILE)


class SharedGpu:
    """The GPU of a sitting; without a `device_index` stages run as they are."""

    def __init__(self, device_index: int | None, workshop: Workshop, listen: Listen) -> None:
        self._device = device_index
        self._workshop = workshop
        self._listen = listen
        self.seconds = 0.0
        """How long it was held for this sitting, shared with others."""

    def share(self, stage: Stage, work: Callable[[], StageReport]) -> StageReport:
        """Do the work while other checks may use the GPU, and no timing does.

        The report is unproven where the GPU stays busy.
        """
        if self._device is None:
            return work()

        def waits() -> None:
            self._listen(Told(stage, total=1, says="waiting: a timing has the GPU"))

        try:
            with gpu_lock(lock_name(self._device), shared=True, waits=waits):
                began = time.monotonic()
                report = work()
        except GpuBusy as busy:
            finding = Finding(code=f"{stage}.gpu-busy", says=busy.what, blame=Blame.MACHINE)
            return StageReport(
                stage=stage,
                outcome=Outcome.UNPROVEN,
                says=finding.says,
                findings=(finding,),
            )
        self.seconds += time.monotonic() - began
        return report

    def guard(self, stage: Stage, question: Callable[[], StageReport]) -> StageReport:
        """The stage's report; one that blames the machine where the GPU is out of use or faulty."""
        device = self._device
        if device is None or stage not in _ON_GPU:
            return question()
        if (sick := health.taken_out(device)) is not None:
            return health.refusal(stage, sick)
        began = time.monotonic()
        report = question()
        if not health.troubled(report):
            return report
        return self.share(
            stage, lambda: health.examined(report, device, self._workshop, since=began)
        )
