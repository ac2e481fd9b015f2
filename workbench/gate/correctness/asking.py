"""One request to a worker of the gate, and the finding when no valid reply comes back."""

import signal
from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate.correctness.protocol import OpenReference, decode, encode
from workbench.gate.lateness import timeout_finding
from workbench.gate.memory import over_limit
from workbench.gate.records import Blame, Finding
from workbench.isolation.outcome import (
    JobFailed,
    WorkerBroke,
    WorkerDied,
    WorkerFault,
    WorkerTimedOut,
)
from workbench.isolation.wire import Blob, Reply
from workbench.isolation.worker import Worker
from workbench.problems.records import Problem, Shape

REFERENCE_SECONDS = 300.0
"""Deadline of one job of a reference worker, which runs our code and the person's problem."""

_CLOCK_FAULT = "ClockFault"
"""Name of `workbench.gate.timing.clock.ClockFault`: that module imports torch, so it is not
imported here."""

Message = TypeVar("Message")


class Ended(Exception):
    """The stage is over; `finding` says why and who is to blame."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.says)
        self.finding = finding


def ask_reference(worker: Worker, job: str, message: Struct, blobs: Sequence[Blob] = ()) -> Reply:
    """The reply of a reference worker to `job` (`module:function`). Raises Ended."""
    try:
        return worker.call(job, encode(message), blobs, deadline=REFERENCE_SECONDS)
    except WorkerFault as fault:
        raise Ended(_explain_reference(fault)) from fault


def ask_candidate(
    worker: Worker,
    job: str,
    message: Struct,
    blobs: Sequence[Blob] = (),
    *,
    seconds: float | None = None,
) -> Reply:
    """The reply of a candidate's worker to `job`, within `seconds` or its limits. Raises Ended."""
    try:
        return worker.call(job, encode(message), blobs, deadline=seconds)
    except WorkerFault as fault:
        raise Ended(_explain(fault)) from fault


def opening(problem: Problem, shape: Shape, build_seed: int, *, lends: bool) -> OpenReference:
    """The message with which a reference worker loads a problem at one of its shapes."""
    return OpenReference(
        source=problem.source,
        values=shape.values,
        build_seed=build_seed,
        precision=problem.precision,
        tolerance=problem.tolerance,
        selections=problem.selections,
        lends=lends,
    )


def cap_device(worker: Worker, size: int) -> None:
    """Cap a worker's GPU memory, bytes, before a candidate is in it. Raises Ended.

    Also closes the machine's shared memory to it where that works (`Worker.layers` says so).
    """
    try:
        worker.allow_device_bytes(size)
        worker.close_shared_memory()
    except WorkerFault as fault:
        raise Ended(_explain(fault)) from fault


def forbid_programs(worker: Worker) -> int:
    """Let a candidate's worker start no process any more; how many it had. Raises Ended."""
    try:
        return worker.forbid_programs()
    except WorkerFault as fault:
        raise Ended(_explain(fault)) from fault


def decoded(reply: Reply, kind: type[Message]) -> Message:
    """The reply of a candidate's worker; raises Ended, blaming it, for anything but a `kind`."""
    try:
        return decode(reply.body, kind)
    except WorkbenchError as fault:
        raise Ended(blame("broke-protocol", fault.what)) from fault


def _explain_reference(fault: WorkerFault) -> Finding:
    """The finding for the end of a reference worker: the problem's fault, or the machine's."""
    if not isinstance(fault, JobFailed):
        says = f"the reference's process failed: {fault.what}"
    elif fault.kind == _CLOCK_FAULT:
        return _no_clock(fault)
    else:
        says = fault.message
    return Finding(code="correctness.cannot-judge", says=says, blame=Blame.PROBLEM)


def _no_clock(fault: JobFailed) -> Finding:
    says = f"the clock does not start on this GPU: {fault.message}"
    return Finding(code="correctness.clock-failed", says=says, blame=Blame.MACHINE)


def _explain(fault: WorkerFault) -> Finding:
    """The finding for the end of a candidate's worker."""
    match fault:
        case WorkerTimedOut():
            return timeout_finding("correctness", fault, "the candidate gave no answer")
        case WorkerDied():
            return _death(fault)
        case WorkerBroke():
            return blame("broke-protocol", f"the candidate's process {fault.fault}")
        case JobFailed() if fault.kind == _CLOCK_FAULT:
            return _no_clock(fault)
        case JobFailed():
            says = f"{fault.kind}: {fault.message[:300]}"
            return Finding(code="correctness.raised", says=says, line=fault.line)
        case _:
            return blame("crashed", fault.what)


def _death(fault: WorkerDied) -> Finding:
    stderr = fault.stderr[-500:]
    if (memory := over_limit(fault)) is not None:
        return memory
    if fault.signal == signal.SIGXCPU:  # no call by itself: each has a deadline
        says = "all calls together took more processor time than a worker is given"
        return Finding(code="correctness.cannot-judge", says=says, blame=Blame.MACHINE)
    if fault.signal is not None:
        says = f"the candidate's process was killed by {_signal_name(fault.signal)}"
        return blame("crashed", says, signal=fault.signal, stderr=stderr)
    if fault.how == "exited":
        says = f"the candidate ended its process (exit code {fault.exit_code}) before it answered"
        return blame("exited-early", says, stderr=stderr)
    return blame("crashed", f"the candidate's process ended: {fault.how}", stderr=stderr)


def blame(code: str, says: str, **evidence: str | float) -> Finding:
    """A finding against the candidate."""
    return Finding(code=f"correctness.{code}", says=says, evidence=dict(evidence))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
