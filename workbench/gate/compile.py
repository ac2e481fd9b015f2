"""Whether a candidate compiles for the target at the full shape, and into which kernels."""

import builtins
import re
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from workbench.gate.candidate import Candidate
from workbench.gate.lateness import timeout_finding
from workbench.gate.problem.records import ShapeReport
from workbench.gate.records import Blame, Evidence, Finding, Outcome, Stage, StageReport
from workbench.gate.specs import NoSpec, init_specs, input_specs
from workbench.isolation.outcome import JobFailed, WorkerDied, WorkerFault, WorkerTimedOut
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import Worker
from workbench.isolation.workshop import Workshop
from workbench.kernels.faults import MACHINE
from workbench.kernels.records import KernelCode, Launch
from workbench.kernels.requests import Fault, LaunchRequest, Recorded

_JOB = "workbench.kernels.jobs:record"
_HANGS = "HostHangs"
"""The deadline fault of `workbench.kernels.host_deadline`: host code has less time than the
compiler."""
_SECONDS = 120.0
"""Deadline of the stage (gate protocol, section 10)."""

JOB_MODULES = ("workbench.kernels.jobs", "workbench.kernels.record", "workbench.kernels.warm")
"""Modules to preload in a workshop's forkservers."""


class Compiled(Struct, frozen=True, kw_only=True):
    """The stage's report and the compiled kernels."""

    report: StageReport
    recorded: Recorded = Recorded()

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of one call, compiled for the target."""
        return self.recorded.launches


def run(
    candidate: Candidate,
    shape: ShapeReport,
    target: str,
    workshop: Workshop,
    *,
    seconds: float = _SECONDS,
    disassembled: bool = True,
) -> Compiled:
    """Record one call on lazy tensors and compile every kernel it launches.

    `seconds` is the stage's deadline. Without `disassembled` there is no SASS of any launch.
    Raises WorkbenchError only when no worker starts: whatever the candidate does becomes a finding.
    """
    began = time.monotonic()
    try:
        request = LaunchRequest(
            source=candidate.source,
            target=target,
            init=init_specs(shape),
            inputs=input_specs(shape),
            disassembled=disassembled,
        )
    except NoSpec as reason:
        finding = Finding(
            code="compile.shape-not-seen",
            says=f"the launches at shape {shape.shape} cannot be recorded: {reason}",
            blame=Blame.PROBLEM,
        )
        return Compiled(report=_report(Outcome.UNPROVEN, finding, began, ""))
    with workshop.worker(Flavor.COMPILE, Limits(wall_seconds=seconds)) as worker:
        isolation = worker.isolation
        recorded = _recorded(worker, request)
    if isinstance(recorded, Finding):
        return Compiled(report=_report(_outcome(recorded), recorded, began, isolation))
    wrong = _wrong(recorded)
    if wrong is not None:
        report = _report(_outcome(wrong), wrong, began, isolation)
        return Compiled(report=report, recorded=recorded)
    return Compiled(report=_passed(recorded, began, isolation), recorded=recorded)


def with_builds(
    compiled: Compiled,
    candidate: Candidate,
    shapes: Sequence[ShapeReport],
    target: str,
    workshop: Workshop,
) -> Compiled:
    """What host code compiles ahead of its launches, extended by what it does at other shapes.

    The interpreter answers with it there. Raises WorkbenchError only when no worker starts.
    """
    builds = list(compiled.recorded.builds)
    for shape in shapes:
        there = run(candidate, shape, target, workshop, disassembled=False).recorded.builds
        builds += [build for build in there if build not in builds]
    recorded = structs.replace(compiled.recorded, builds=tuple(builds))
    return structs.replace(compiled, recorded=recorded)


def _outcome(wrong: Finding) -> Outcome:
    return Outcome.UNPROVEN if wrong.blame is Blame.MACHINE else Outcome.FAILED


def _recorded(worker: Worker, request: LaunchRequest) -> Recorded | Finding:
    """What the worker recorded, or the finding that explains its failure."""
    try:
        return msgspec.convert(worker.call(_JOB, msgspec.to_builtins(request)).body, Recorded)
    except WorkerFault as fault:
        return _lost(fault)
    except msgspec.ValidationError as fault:
        return Finding(code="compile.worker-lied", says=f"its worker's answer is none: {fault}")


def _wrong(recorded: Recorded) -> Finding | None:
    if recorded.fault is not None:
        return explain(recorded.fault)
    if not recorded.launches:
        says = "a call launches no kernel at this shape"
        return Finding(code="compile.no-launch", says=says)
    return next(filter(None, map(_reads_clock, recorded.code)), None)


_CLOCKS = re.compile(r"%(clock\w*|globaltimer\w*|pm\d\w*)\b")
"""PTX special registers by which a kernel could tell one call from another."""


def _reads_clock(code: KernelCode) -> Finding | None:
    """The finding for a kernel that reads a clock, by whatever name or inline assembly."""
    found = _CLOCKS.search(code.ptx)
    if found is None:
        return None
    says = f"{code.kernel} reads {found[0]}: what it does may change from call to call"
    return Finding(code="compile.reads-clock", says=says, evidence={"register": found[0]})


_CODES = {
    "compile-failed": "compile.kernel-refused",
    "too-large": "compile.too-large",
    "out-of-bounds": "compile.out-of-bounds",
    "cannot-judge": "compile.cannot-judge",
    "kernel-raised": "compile.kernel-raised",
}


def explain(fault: Fault) -> Finding:
    """The finding for a fault of the kernel jobs."""
    unjudged = fault.kind == "cannot-judge"
    evidence: Evidence = {"kernel": fault.kernel, **fault.details}
    todo = f"; {fault.todo}" if fault.todo else ""
    return Finding(
        code=_CODES[fault.kind],
        says=f"{fault.what}{todo}",
        line=fault.line or None,
        blame=Blame.MACHINE if unjudged else Blame.CANDIDATE,
        evidence=evidence,
    )


def _lost(fault: WorkerFault) -> Finding:
    if isinstance(fault, JobFailed) and fault.kind == _HANGS:
        says = f"{fault.message}: no kernel comes of it"
        return Finding(code="compile.host-hangs", says=says[:600], line=fault.line)
    if isinstance(fault, JobFailed) and _of_machine(fault):
        says = f"this machine could not run the host code: {fault.kind}: {fault.message}"
        return Finding(
            code="compile.cannot-judge", says=says[:600], line=fault.line, blame=Blame.MACHINE
        )
    if isinstance(fault, JobFailed):
        says = f"host code raises {fault.kind}: {fault.message}".rstrip(": ")
        return Finding(code="compile.raised", says=says[:600], line=fault.line)
    if isinstance(fault, WorkerTimedOut):
        return timeout_finding("compile", fault, "it did not compile")
    if isinstance(fault, WorkerDied):
        evidence: Evidence = {"how": fault.how, "stderr": fault.stderr[-400:]}
        return Finding(code="compile.crashed", says=fault.what, evidence=evidence)
    return Finding(code="compile.worker-lied", says=fault.what)


_ERRNO = re.compile(r"\[Errno (\d+)\]")
_NO_TASK = "can't start new thread"


def _of_machine(fault: JobFailed) -> bool:
    """Whether an error is of our machine or sandbox: a full disk, no memory, no more processes.

    Host code starts nothing and opens no files: it meets these inside a library.
    """
    kind = getattr(builtins, fault.kind, None)
    if isinstance(kind, type) and issubclass(kind, OSError):
        said = _ERRNO.match(fault.message)
        return said is not None and int(said[1]) in MACHINE
    return _NO_TASK in fault.message or (fault.kind == "MemoryError" and fault.line is None)


def _passed(recorded: Recorded, began: float, isolation: str) -> StageReport:
    kernels = {launch.cubin_sha256: launch for launch in recorded.launches}.values()
    spilling = [k for k in kernels if k.static.spill_store_bytes or k.static.spill_load_bytes]
    findings = tuple(
        Finding(
            code="compile.spills",
            says=f"{k.kernel} spills {k.static.spill_store_bytes} bytes a thread",
            evidence=_numbers(k),
        )
        for k in spilling
    )
    first = max(kernels, key=lambda k: k.static.registers)
    says = (
        f"{len(kernels)} kernel{'s' if len(kernels) > 1 else ''}, "
        f"{first.static.registers} registers, {first.static.shared_bytes} B shared, "
        f"{'spills' if spilling else 'no spills'}"
    )
    return StageReport(
        stage=Stage.COMPILE,
        outcome=Outcome.PASSED,
        says=says,
        findings=findings,
        seconds=time.monotonic() - began,
        isolation=isolation,
    )


def _numbers(launch: Launch) -> dict[str, Any]:
    static = launch.static
    return {
        "kernel": launch.kernel,
        "registers": static.registers,
        "spill_store_bytes": static.spill_store_bytes,
        "spill_load_bytes": static.spill_load_bytes,
    }


def _report(outcome: Outcome, finding: Finding, began: float, isolation: str) -> StageReport:
    ran: dict[str, Any] = {"isolation": isolation} if isolation else {}
    return StageReport(
        stage=Stage.COMPILE,
        outcome=outcome,
        says=finding.says,
        findings=(finding,),
        seconds=time.monotonic() - began,
        **ran,
    )
