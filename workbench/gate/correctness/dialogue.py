"""The judge's requests to its two workers in one trial.

Hides how tensors travel: as bytes through the judge on the CPU, as handles on the candidate's
buffers on a GPU. The reference's memory is never shared: a candidate could overwrite it.
"""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from workbench.gate.correctness.asking import (
    Ended,
    ask_candidate,
    ask_reference,
    blame,
    cap_device,
    decoded,
)
from workbench.gate.correctness.cases import Call, TrialSettings
from workbench.gate.correctness.protocol import (
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
)
from workbench.gate.correctness.structure import outputs_in_order
from workbench.gate.memory import device_budget
from workbench.isolation.gpumemory import DeviceUse
from workbench.isolation.wire import Blob, Reply
from workbench.isolation.worker import Worker

REFERENCE_JOB = "workbench.gate.correctness.reference_job"
CANDIDATE_JOB = "workbench.gate.correctness.candidate_job"

Message = TypeVar("Message")


class Dialogue:
    """Requests to both workers. Every method raises Ended where a worker does not reply."""

    def __init__(
        self, reference: Worker, candidate: Worker, *, lends: bool, open_seconds: float
    ) -> None:
        self._reference = reference
        self._candidate = candidate
        self.lends = lends
        self._open_seconds = open_seconds
        self._state: tuple[TensorEntry, ...] = ()
        self._budget = 0

    @property
    def device_use(self) -> DeviceUse | None:
        """The candidate's GPU memory at this moment."""
        return self._candidate.device_use()

    def open(
        self, problem: OpenReference, source: str, settings: TrialSettings, *, held_calls: int
    ) -> tuple[Reference, Opened]:
        """Build the reference and the candidate at one shape; on a GPU cap the latter's memory.

        Outputs of `held_calls` calls will be kept.
        """
        reference, init = self._ask_reference("open_reference", problem, Reference)
        self._state = reference.state
        if self.lends:
            self._budget = max(self._budget, device_budget(reference, held_calls))
            cap_device(self._candidate, self._budget)
        message = OpenCandidate(
            source=source,
            init=reference.init,
            build_seed=problem.build_seed,
            target=settings.target,
            builds=settings.builds,
        )
        reply = self._candidate_call("open_candidate", message, init, seconds=self._open_seconds)
        return reference, decoded(reply, Opened)

    def put_weights(self, seed: int | None) -> None:
        """Give both the same perturbed weights; None: those that the reference was built with."""
        if self._state:
            blobs = self._reference_call("perturb", Perturb(seed=seed)).blobs
            if self.lends:
                self._lend("state", self._state, same_storage=False)
            put = PutWeights(names=tuple(entry.name for entry in self._state))
            self._candidate_call("put_weights", put, blobs)

    def draw(self, call: Call) -> tuple[Made, Sequence[Blob]]:
        """Have the inputs and answers of a call made; lent inputs are already in the candidate's
        buffers.
        """
        message = Draw(number=call.number, case=call.case, seed=call.seed, layout=call.layout)
        made, blobs = self._ask_reference("draw", message, Made)
        if self.lends:
            self._lend("inputs", made.entries, same_storage=call.same_storage)
        return made, blobs

    def run(
        self, message: RunCall, inputs: Sequence[Blob], *, seconds: float | None = None
    ) -> tuple[Returned, Sequence[Blob]]:
        """Run the candidate once and fetch its results; nothing where it raised.

        `seconds` is the call's deadline, by default its worker's.
        """
        reply = self._candidate_call("call", message, inputs, seconds=seconds)
        returned = decoded(reply, Returned)
        if returned.raised is not None:
            return returned, ()
        return returned, self._candidate_call("hand_over", HandOver()).blobs

    def compare(
        self, number: int, made: Made, returned: Returned, blobs: Sequence[Blob], *, keep: bool
    ) -> Compared:
        """Measure the results of a call; their structure must have been checked."""
        ordered = outputs_in_order(made, returned, blobs)
        message = Compare(number=number, keep=keep)
        compared, _ = self._ask_reference("compare", message, Compared, ordered)
        return compared

    def recheck(self, number: int, held: int, made: Made, returned: Returned) -> Rechecked:
        """Whether the outputs of call `number`, the candidate's `held`-th, have changed since."""
        blobs = self._candidate_call("held", Held(call=held)).blobs
        if len(blobs) != len(made.expected):
            raise Ended(blame("exited-early", "the candidate no longer holds its outputs"))
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
        return ask_reference(self._reference, f"{REFERENCE_JOB}:{job}", message, blobs)

    def _candidate_call(
        self,
        job: str,
        message: Struct,
        blobs: Sequence[Blob] = (),
        *,
        seconds: float | None = None,
    ) -> Reply:
        return ask_candidate(
            self._candidate, f"{CANDIDATE_JOB}:{job}", message, blobs, seconds=seconds
        )
