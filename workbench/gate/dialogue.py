"""The judge's conversation with its two workers: who is asked what, and how a call can end.

Hides where tensors travel: as bytes through the judge on the CPU, as handles on the candidate's
buffers on a GPU. Never the other way round: memory that is shared is the candidate's to overwrite.
"""

import signal
from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate.cases import Call
from workbench.gate.protocol import (
    Compare,
    Compared,
    Draw,
    Fill,
    HandOver,
    Held,
    Lend,
    Made,
    OpenCandidate,
    Opened,
    OpenReference,
    Perturb,
    PutWeights,
    Recheck,
    Rechecked,
    Reference,
    Returned,
    RunCall,
    TensorEntry,
    What,
    decode,
    encode,
)
from workbench.gate.records import Blame, Finding
from workbench.gate.structure import outputs_in_order
from workbench.isolation.outcome import (
    JobFailed,
    WorkerBroke,
    WorkerDied,
    WorkerFault,
    WorkerTimedOut,
)
from workbench.isolation.wire import Blob, Reply
from workbench.isolation.worker import Worker

_REFERENCE = "workbench.gate.reference_job"
_CANDIDATE = "workbench.gate.candidate_job"
_REFERENCE_SECONDS = 300.0
"""For one job of the reference worker; it is our code and the person's problem."""

Message = TypeVar("Message")


class Ended(Exception):
    """The stage is over; `finding` says why, and whose fault it is."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.says)
        self.finding = finding


class Dialogue:
    """Asks both workers. Every method raises Ended where a worker does not answer as it should."""

    def __init__(
        self, reference: Worker, candidate: Worker, *, lends: bool, open_seconds: float
    ) -> None:
        self._reference = reference
        self._candidate = candidate
        self._lends = lends
        self._open_seconds = open_seconds
        self._state: tuple[TensorEntry, ...] = ()

    def open(self, problem: OpenReference, source: str, target: str) -> tuple[Reference, Opened]:
        """Build the reference and the candidate at one shape."""
        reference, init = self._ask_reference("open_reference", problem, Reference)
        self._state = reference.state
        message = OpenCandidate(
            source=source, init=reference.init, build_seed=problem.build_seed, target=target
        )
        reply = self._candidate_call("open_candidate", message, init, seconds=self._open_seconds)
        return reference, _decoded(reply, Opened)

    def put_weights(self, seed: int) -> None:
        """Give both the same perturbed weights."""
        if self._state:
            blobs = self._reference_call("perturb", Perturb(seed=seed)).blobs
            if self._lends:
                self._lend("state", self._state, same_storage=False)
            put = PutWeights(names=tuple(entry.name for entry in self._state))
            self._candidate_call("put_weights", put, blobs)

    def draw(self, call: Call) -> tuple[Made, Sequence[Blob]]:
        """Have inputs and answers of a call made; the inputs lie in the candidate when lent."""
        message = Draw(number=call.number, case=call.case, seed=call.seed)
        made, blobs = self._ask_reference("draw", message, Made)
        if self._lends:
            self._lend("inputs", made.entries, same_storage=call.same_storage)
        return made, blobs

    def run(self, message: RunCall, inputs: Sequence[Blob]) -> tuple[Returned, Sequence[Blob]]:
        """Run the candidate once, then have what it left handed over; nothing where it raised."""
        returned = _decoded(self._candidate_call("call", message, inputs), Returned)
        if returned.raised is not None:
            return returned, ()
        return returned, self._candidate_call("hand_over", HandOver()).blobs

    def compare(
        self, number: int, made: Made, returned: Returned, blobs: Sequence[Blob], *, keep: bool
    ) -> Compared:
        """Measure what a call left; its structure must have been checked."""
        ordered = outputs_in_order(made, returned, blobs)
        message = Compare(number=number, keep=keep)
        compared, _ = self._ask_reference("compare", message, Compared, ordered)
        return compared

    def recheck(self, number: int, held: int, made: Made, returned: Returned) -> Rechecked:
        """Whether the outputs of call `number`, the candidate's `held`-th, are as they were."""
        blobs = self._candidate_call("held", Held(call=held)).blobs
        if len(blobs) != len(made.expected):
            raise Ended(_blame("exited-early", "the candidate no longer holds its outputs"))
        ordered = outputs_in_order(made, returned, blobs)
        message = Recheck(number=number)
        rechecked, _ = self._ask_reference("recheck", message, Rechecked, ordered)
        return rechecked

    def _lend(self, what: What, entries: tuple[TensorEntry, ...], *, same_storage: bool) -> None:
        lend = Lend(what=what, entries=entries, same_storage=same_storage)
        blobs = self._candidate_call("lend", lend).blobs
        self._reference_call("fill", Fill(what=what), blobs)

    def _ask_reference(
        self, job: str, message: Struct, kind: type[Message], blobs: Sequence[Blob] = ()
    ) -> tuple[Message, Sequence[Blob]]:
        reply = self._reference_call(job, message, blobs)
        return decode(reply.body, kind), reply.blobs

    def _reference_call(self, job: str, message: Struct, blobs: Sequence[Blob] = ()) -> Reply:
        try:
            return self._reference.call(
                f"{_REFERENCE}:{job}", encode(message), blobs, deadline=_REFERENCE_SECONDS
            )
        except WorkerFault as fault:
            says = f"the reference's process failed: {fault.what}"
            if isinstance(fault, JobFailed):
                says = fault.message
            raise Ended(
                Finding(code="correctness.cannot-judge", says=says, blame=Blame.PROBLEM)
            ) from fault

    def _candidate_call(
        self,
        job: str,
        message: Struct,
        blobs: Sequence[Blob] = (),
        *,
        seconds: float | None = None,
    ) -> Reply:
        try:
            return self._candidate.call(
                f"{_CANDIDATE}:{job}", encode(message), blobs, deadline=seconds
            )
        except WorkerFault as fault:
            raise Ended(_explain(fault)) from fault


def _decoded(reply: Reply, kind: type[Message]) -> Message:
    """What the candidate's worker answered; anything else than `kind` is its fault."""
    try:
        return decode(reply.body, kind)
    except WorkbenchError as fault:
        raise Ended(_blame("broke-protocol", fault.what)) from fault


def _explain(fault: WorkerFault) -> Finding:
    """A worker's end as a finding about the candidate in it."""
    match fault:
        case WorkerTimedOut():
            says = f"the candidate gave no answer within {fault.seconds:g} s"
            return _blame("timed-out", says, seconds=fault.seconds)
        case WorkerDied():
            return _death(fault)
        case WorkerBroke():
            return _blame("broke-protocol", f"the candidate's process {fault.fault}")
        case JobFailed():
            says = f"{fault.kind}: {fault.message[:300]}"
            return Finding(code="correctness.raised", says=says, line=fault.line)
        case _:
            return _blame("crashed", fault.what)


def _death(fault: WorkerDied) -> Finding:
    stderr = fault.stderr[-500:]
    if fault.signal is not None:
        says = f"the candidate's process was killed by {_signal_name(fault.signal)}"
        return _blame("crashed", says, signal=fault.signal, stderr=stderr)
    if fault.how == "exited":
        says = f"the candidate ended its process (exit code {fault.exit_code}) before it answered"
        return _blame("exited-early", says, stderr=stderr)
    return _blame("crashed", f"the candidate's process ended: {fault.how}", stderr=stderr)


def _blame(code: str, says: str, **evidence: str | float) -> Finding:
    return Finding(code=f"correctness.{code}", says=says, evidence=dict(evidence))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
