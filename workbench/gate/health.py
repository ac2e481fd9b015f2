"""Whether a GPU can still be trusted after a candidate crashed, hung or was killed on it.

Answered by a canary in a trusted worker, by what the driver reports, and by whether killed
processes disappear. A GPU that fails is taken out of use (`measure.gpuhealth`).
"""

import time

import msgspec
from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.gate.canary_protocol import CanaryResult
from workbench.gate.records import Blame, Finding, Outcome, Stage, StageReport
from workbench.isolation.outcome import WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.workshop import Workshop
from workbench.measure.gpuhealth import (
    Sick,
    complaint,
    how_to_clear,
    lingering,
    sickness,
    take_out,
)
from workbench.measure.gpuwatch import lock_name

JOB_MODULES = ("workbench.gate.canary_job",)
"""Modules to preload in a workshop's forkservers."""

_SECONDS = 20.0
"""Deadline of the canary, which takes well under 2 s on a healthy GPU."""
_VANISH_SECONDS = 30.0
"""Until the driver must no longer list a killed process (gate protocol, section 10)."""

_TROUBLE = {
    "crashed",
    "timed-out",
    "no-answer",
    "exited-early",
    "broke-protocol",
    "out-of-bounds",
    "gpu-memory",
}
"""Finding codes after which a GPU is examined."""


def troubled(report: StageReport) -> bool:
    """Whether the findings of a stage suggest that the GPU may be in a bad state."""
    for finding in report.findings:
        reason = finding.code.partition(".")[2]
        # CUDA reports most of its faults as exceptions.
        if reason in _TROUBLE or (reason == "raised" and "CUDA" in finding.says):
            return True
    return False


def taken_out(device_index: int) -> Sick | None:
    """The record of the workshop's GPU, if it was taken out of use."""
    return sickness(lock_name(device_index))


def examined(
    report: StageReport, device_index: int, workshop: Workshop, *, since: float
) -> StageReport:
    """The report of a troubled stage; unproven where the GPU turns out to be faulty.

    `since` is when the stage began, on the monotonic clock. Takes about a second.
    """
    # What broke one CUDA context may have broken those of spare workers: discard them.
    workshop.drop_spares()
    reason = _ill(device_index, workshop, since)
    if not reason:
        return report
    sick = take_out(lock_name(device_index), f"{reason}, after: {report.says}"[:600])
    refused = refusal(report.stage, sick)
    return structs.replace(
        refused,
        findings=(*refused.findings, *(_excused(finding) for finding in report.findings)),
        seconds=report.seconds,
        isolation=report.isolation,
    )


def refusal(stage: Stage, sick: Sick) -> StageReport:
    """The report of a stage that is not run because its GPU was taken out of use."""
    says = f"the GPU was taken out on {sick.since}: {sick.reason}"
    finding = Finding(
        code=f"{stage}.gpu-sick",
        says=says,
        blame=Blame.MACHINE,
        evidence={"gpu": sick.uuid, "since": sick.since, "needs": how_to_clear(sick.uuid)},
    )
    return StageReport(stage=stage, outcome=Outcome.UNPROVEN, says=says, findings=(finding,))


def _excused(finding: Finding) -> Finding:
    """The report without blame: what was found on a faulty GPU is not held against a candidate."""
    return structs.replace(finding, blame=Blame.MACHINE)


def _ill(device_index: int, workshop: Workshop, since: float) -> str:
    """Why the GPU cannot be trusted; empty when it can."""
    left = lingering(workshop.device_processes, workshop.ended_pids(since), _VANISH_SECONDS)
    if left:
        return f"the driver still lists process {left[0]}, killed {_VANISH_SECONDS:g} s ago"
    return complaint(lock_name(device_index)) or canary(workshop)


def canary(workshop: Workshop) -> str:
    """What the known computation got wrong on the workshop's device; empty if nothing."""
    began = time.monotonic()
    try:
        with workshop.worker(Flavor.REFERENCE, Limits(wall_seconds=_SECONDS)) as worker:
            reply = worker.call("workbench.gate.canary_job:run_canary", {})
            wrong = msgspec.convert(reply.body, CanaryResult).wrong
    except WorkerFault as fault:
        return f"the canary failed: {fault.what}"
    except WorkbenchError as fault:
        took = time.monotonic() - began
        return f"no canary could start within {took:.0f} s: {fault.what}"
    return f"the canary is wrong: {wrong}" if wrong else ""
