"""How fast a candidate is at the shape that counts: measured where there is a GPU, else modeled."""

import time
from typing import Protocol

import msgspec
from msgspec import Struct

from workbench.gate.candidate import Candidate
from workbench.gate.compile import Compiled, explain
from workbench.gate.problem_records import ShapeReport
from workbench.gate.records import Blame, Evidence, Finding, Outcome, Stage, StageReport
from workbench.gate.specs import init_specs, input_specs
from workbench.isolation.outcome import WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.workshop import Workshop
from workbench.kernels.records import LaunchTrace
from workbench.kernels.requests import Traced, TraceRequest
from workbench.kernels.target import target as known_target
from workbench.measure.model import modeled_time
from workbench.measure.records import Kind, Speed, Time

_JOB = "workbench.kernels.jobs:trace"
_SECONDS = 90.0
_MEMORY = 16 << 30
"""Lazy memory of a full shape is reserved, not used; it counts all the same."""

JOB_MODULES = ("workbench.kernels.jobs", "workbench.kernels.interpret")
"""Worth preloading in a workshop's forkservers."""


class Profiled(Struct, frozen=True, kw_only=True):
    """What the stage found."""

    report: StageReport
    time: Time | None = None
    against: Time | None = None
    speed: Speed | None = None
    """Against the parent."""
    versus_seed: Speed | None = None
    versus_reference: Speed | None = None
    reference: Time | None = None
    traces: tuple[LaunchTrace, ...] = ()
    gpu_seconds: float = 0.0


class Timer(Protocol):
    """Times a candidate on a GPU, against its parent where there is one, and judges the gain."""

    def __call__(self, candidate: Candidate, parent: Candidate | None) -> Profiled:
        """Never raises for what a candidate does."""


def run_modeled(
    candidate: Candidate,
    compiled: Compiled,
    shape: ShapeReport,
    target: str,
    workshop: Workshop,
    *,
    parent: Time | None,
    threshold: float,
) -> Profiled:
    """Trace a sample of programs at the full shape and model the time from what they did.

    `parent` is the modeled time of the kernel it was made from; a candidate that is not modeled
    faster than it by `threshold` fails the stage. Raises WorkbenchError when no worker starts.
    """
    began = time.monotonic()
    request = TraceRequest(
        source=candidate.source,
        target=target,
        init=init_specs(shape),
        inputs=input_specs(shape),
        configs=compiled.recorded.configs,
    )
    limits = Limits(wall_seconds=_SECONDS, memory_bytes=_MEMORY)
    with workshop.worker(Flavor.INTERPRET, limits) as worker:
        isolation = worker.isolation
        try:
            traced = msgspec.convert(worker.call(_JOB, msgspec.to_builtins(request)).body, Traced)
        except (WorkerFault, msgspec.ValidationError) as fault:
            finding = Finding(
                code="profile.cannot-trace",
                says=f"its launches at shape {shape.shape} cannot be traced: {fault}",
                blame=Blame.MACHINE,
            )
            return Profiled(report=_report(Outcome.UNPROVEN, finding, began, isolation))
    if traced.fault is not None:
        finding = explain(traced.fault)
        outcome = Outcome.UNPROVEN if finding.blame is Blame.MACHINE else Outcome.FAILED
        return Profiled(report=_report(outcome, finding, began, isolation))
    modeled = modeled_time(compiled.launches, traced.traces, known_target(target), shape.work)
    speed = None
    if parent is not None and parent.kind is Kind.MODELED:
        speed = Speed(kind=Kind.MODELED, ratio=parent.microseconds / modeled.microseconds)
    report = _judged(modeled, speed, threshold, began, isolation)
    return Profiled(report=report, time=modeled, against=parent, speed=speed, traces=traced.traces)


def _judged(
    modeled: Time, speed: Speed | None, threshold: float, began: float, isolation: str
) -> StageReport:
    says = f"{modeled.microseconds:.1f} us modeled for {modeled.device}"
    outcome, findings = Outcome.PASSED, ()
    if speed is not None:
        says += f", {speed.ratio:.3f}x its parent"
        finding = not_faster(speed, threshold)
        if finding is not None:
            outcome, findings, says = Outcome.FAILED, (finding,), finding.says
    return StageReport(
        stage=Stage.PROFILE,
        outcome=outcome,
        says=says,
        findings=findings,
        seconds=time.monotonic() - began,
        isolation=isolation,
    )


def not_faster(speed: Speed, threshold: float) -> Finding | None:
    """Why a speed against the parent does not count as a gain; None when it does.

    A modeled speed has no interval and is compared itself; of a measured one the lower end is.
    """
    least = speed.ratio if speed.low is None else speed.low
    if least > threshold:
        return None
    evidence: Evidence = {"ratio": speed.ratio, "threshold": threshold, "kind": str(speed.kind)}
    most = speed.ratio if speed.high is None else speed.high
    if most < 1 / threshold:
        says = f"{speed.says()}: slower than its parent"
        return Finding(code="profile.slower", says=says, evidence=evidence)
    says = f"{speed.says()}: no gain above {threshold:g}x over its parent"
    return Finding(code="profile.not-faster", says=says, evidence=evidence)


def _report(outcome: Outcome, finding: Finding, began: float, isolation: str) -> StageReport:
    return StageReport(
        stage=Stage.PROFILE,
        outcome=outcome,
        says=finding.says,
        findings=(finding,),
        seconds=time.monotonic() - began,
        isolation=isolation,
    )
