"""How fast a candidate is at the full shape: measured where there is a GPU, else modeled."""

import secrets
import time
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from workbench.gate.background import StartsWorkers
from workbench.gate.candidate import Candidate
from workbench.gate.compile import Compiled, explain
from workbench.gate.correctness.cases import SEED_BYTES, derive
from workbench.gate.problem.records import ShapeReport
from workbench.gate.records import Blame, Evidence, Finding, Outcome, Stage, StageReport
from workbench.gate.scaling import doubt_at_full
from workbench.gate.specs import NoSpec, init_specs, input_specs
from workbench.isolation.outcome import WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import Worker
from workbench.isolation.workshop import Workshop
from workbench.kernels.records import LaunchTrace
from workbench.kernels.requests import Traced, TraceRequest
from workbench.kernels.target import target as known_target
from workbench.measure.model import modeled_time
from workbench.measure.records import Kind, Limit, PairSamples, Speed, Time
from workbench.measure.trust import gain_told, why_not_trusted

_JOB = "workbench.kernels.jobs:trace"
_SECONDS = 90.0
_MEMORY = 16 << 30
"""Address space of lazy tensors at a full shape: reserved and hardly used, but it counts."""

JOB_MODULES = ("workbench.kernels.jobs", "workbench.kernels.interpret")
"""Modules to preload in a workshop's forkservers."""


class Profiled(Struct, frozen=True, kw_only=True):
    """The result of the stage."""

    report: StageReport
    time: Time | None = None
    against: Time | None = None
    speed: Speed | None = None
    """Against the parent."""
    versus_seed: Speed | None = None
    versus_reference: Speed | None = None
    reference: Time | None = None
    limit: Limit | None = None
    """Limit of the full shape's work on the GPU that measured."""
    traces: tuple[LaunchTrace, ...] = ()
    samples: tuple[PairSamples, ...] = ()
    gpu_seconds: float = 0.0


Listen = Callable[[int, int, str], None]
"""`listen(done, total, says)` while pairs are gathered."""


class Timer(Protocol):
    """Times a candidate on a GPU, against its parent where there is one, and judges the gain."""

    def __call__(
        self, candidate: Candidate, parent: Candidate | None, *, seed: bytes, listen: Listen
    ) -> Profiled:
        """Never raises for what a candidate does. `seed` determines everything that is drawn."""


def untimed(outcome: Outcome, says: str) -> Timer:
    """A timer for kernels that need no timing: it measures nothing and answers with `outcome`."""
    answer = Profiled(report=StageReport(stage=Stage.PROFILE, outcome=outcome, says=says))
    return lambda *_given, **_named: answer


def run_modeled(  # noqa: PLR0913 -- what is modeled, where, and what is known already
    candidate: Candidate,
    compiled: Compiled,
    shapes: tuple[ShapeReport, ShapeReport],
    target: str,
    workshop: Workshop,
    *,
    parent: Time | None,
    threshold: float,
    traced: Traced | Finding | None = None,
    seed: bytes = b"",
    seconds: float = _SECONDS,
) -> Profiled:
    """Trace a sample of programs at the full shape and model the time from their counts.

    `shapes` are one at which the candidate was compared, and the full one; the stage is unproven
    where the work at the full shape is less than the first one scales to. `parent` is the modeled
    time of the kernel it was made from; a candidate that is not modeled faster by the factor
    `threshold` fails. `traced` is what an earlier stage traced at the full shape, `seed` draws
    the sampled programs. Unproven after `seconds` of tracing. Raises WorkbenchError when no worker
    starts.
    """
    began = time.monotonic()
    limits = Limits(wall_seconds=seconds, memory_bytes=_MEMORY)
    with workshop.worker(Flavor.INTERPRET, limits) as worker:
        isolation = worker.isolation
        both = _traced_both(worker, candidate, compiled, shapes, target, traced, seed)
    if isinstance(both, Finding):
        outcome = Outcome.FAILED if both.blame is Blame.CANDIDATE else Outcome.UNPROVEN
        return Profiled(report=_report(outcome, both, began, isolation))
    traces = both[1].traces
    if (doubt := _doubt(compiled, shapes, both)) is not None:
        report = _report(Outcome.UNPROVEN, doubt, began, isolation)
        return Profiled(report=report, traces=traces)
    host, work = compiled.recorded.host, shapes[1].work
    modeled = modeled_time(compiled.launches, traces, known_target(target), work, host)
    speed = _speed_over(parent, modeled)
    report = _judged(modeled, speed, threshold, began, isolation)
    return Profiled(report=report, time=modeled, against=parent, speed=speed, traces=traces)


def _speed_over(parent: Time | None, modeled: Time) -> Speed | None:
    """The modeled ratio of two times; None without a parent whose time was modeled too."""
    if parent is None or parent.kind is not Kind.MODELED:
        return None
    return Speed(kind=Kind.MODELED, ratio=parent.microseconds / modeled.microseconds)


def _doubt(
    compiled: Compiled, shapes: tuple[ShapeReport, ShapeReport], traced: tuple[Traced, Traced]
) -> Finding | None:
    """Why the counts at the full shape may not be those of the compiled kernels."""
    (smallest, full), (small, large) = shapes, traced
    return _unlike(compiled, large) or doubt_at_full(
        full,
        large.traces,
        compiled.recorded.host,
        smallest,
        small.traces,
        compared=large.compared,
    )


def traced_at(
    candidate: Candidate,
    compiled: Compiled,
    shape: ShapeReport,
    target: str,
    workshop: StartsWorkers,
    *,
    seed: bytes = b"",
) -> Traced | Finding:
    """The launches at a shape as a sample of programs shows them, or why they cannot be traced.

    `seed` draws the sampled programs. Raises WorkbenchError when no worker starts.
    """
    limits = Limits(wall_seconds=_SECONDS, memory_bytes=_MEMORY)
    with workshop.worker(Flavor.INTERPRET, limits) as worker:
        return _traced(worker, candidate, compiled, shape, target, seed)


def launches_of(traced: Traced | Finding) -> tuple[LaunchTrace, ...]:
    """What was traced, for facts; empty where the launches cannot be traced."""
    return () if isinstance(traced, Finding) or traced.fault is not None else traced.traces


def _traced_both(
    worker: Worker,
    candidate: Candidate,
    compiled: Compiled,
    shapes: tuple[ShapeReport, ShapeReport],
    target: str,
    traced: Traced | Finding | None,
    seed: bytes,
) -> tuple[Traced, Traced] | Finding:
    """Traces at the smallest and at the full shape, or the finding that explains the failure."""
    smallest, full = shapes
    if traced is None:
        traced = _traced(worker, candidate, compiled, full, target, seed)
    elif isinstance(traced, Traced) and traced.fault is not None:
        traced = explain(traced.fault)
    if isinstance(traced, Finding) or smallest.shape == full.shape:
        return traced if isinstance(traced, Finding) else (traced, traced)
    small = _traced(worker, candidate, compiled, smallest, target, seed)
    return small if isinstance(small, Finding) else (small, traced)


def _traced(
    worker: Worker,
    candidate: Candidate,
    compiled: Compiled,
    shape: ShapeReport,
    target: str,
    seed: bytes = b"",
) -> Traced | Finding:
    """The trace at a shape, or the finding that explains the failure."""
    try:
        request = TraceRequest(
            source=candidate.source,
            target=target,
            init=init_specs(shape),
            inputs=input_specs(shape),
            configs=compiled.recorded.configs,
            builds=compiled.recorded.builds,
            sample_seed=derive(seed or secrets.token_bytes(SEED_BYTES), shape.shape, "programs"),
        )
        told = msgspec.convert(worker.call(_JOB, msgspec.to_builtins(request)).body, Traced)
        traced = structs.replace(told, compared=False)  # not for a candidate's worker to say
    except (NoSpec, WorkerFault, msgspec.ValidationError) as fault:
        return Finding(
            code="profile.cannot-trace",
            says=f"its launches at shape {shape.shape} cannot be traced: {fault}",
            blame=Blame.MACHINE,
        )
    return traced if traced.fault is None else explain(traced.fault)


def _unlike(compiled: Compiled, traced: Traced) -> Finding | None:
    """The doubt that the interpreter launched other kernels than were compiled."""
    seen = [launch.kernel for launch in compiled.launches]
    ran = [trace.kernel for trace in traced.traces]
    if seen == ran:
        return None
    says = f"it launches {_names(ran)} when interpreted and {_names(seen)} when compiled"
    return Finding(code="profile.launches-differ", says=says, blame=Blame.MACHINE)


def _names(kernels: list[str]) -> str:
    return ", ".join(dict.fromkeys(kernels)) or "nothing"


def _judged(
    modeled: Time, speed: Speed | None, threshold: float, began: float, isolation: str
) -> StageReport:
    says = f"{modeled.microseconds:.1f} us modeled for {modeled.device}"
    outcome = Outcome.PASSED
    findings: tuple[Finding, ...] = ()
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


def doubted(profiled: Profiled, family: str, target: str, threshold: float) -> Profiled:
    """What was modeled, saying so where the model was never shown to rank such kernels.

    There a modeled loss refuses nobody, and a modeled gain counts only beyond what the model errs
    by (`measure.trust.gain_told`): what is nearer is unproven, and only a GPU can tell. Below a
    `threshold` of 1 no gain was asked for, and none has to be told.
    """
    why = why_not_trusted(family, target)
    if not why or profiled.speed is None:
        return profiled
    report, least = profiled.report, max(threshold, gain_told(family, target))
    doubt = Finding(
        code="profile.model-not-trusted",
        says=f"modeled, not trusted to rank here: {why}; a gain counts above {least:.2f}x",
        blame=Blame.MACHINE,
        evidence={"ratio": profiled.speed.ratio, "counts_above": least},
    )
    passed = report.outcome is Outcome.PASSED
    counts = passed and (threshold < 1 or profiled.speed.ratio > least)
    near = f", where a gain counts above {least:.2f}x" if passed and not counts else ""
    report = structs.replace(
        report,
        outcome=report.outcome if counts else Outcome.UNPROVEN,
        says=f"{report.says} (modeled, not trusted to rank here{near})",
        findings=(*report.findings, doubt) if counts else (doubt, *report.findings),
    )
    return structs.replace(profiled, report=report)


def not_faster(speed: Speed, threshold: float) -> Finding | None:
    """Why a speed against the parent does not count as a gain; None when it does.

    A modeled ratio has no interval and is compared itself; of a measured one the lower end is.
    """
    least = speed.ratio if speed.low is None else speed.low
    if least > threshold:
        return None
    evidence: Evidence = {"ratio": speed.ratio, "threshold": threshold, "kind": str(speed.kind)}
    most = speed.ratio if speed.high is None else speed.high
    if most < min(threshold, 1 / threshold):
        says = f"{speed.in_full()}: slower than its parent"
        return Finding(code="profile.slower", says=says, evidence=evidence)
    says = f"{speed.in_full()}: no gain above {threshold:g}x over its parent"
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
