"""The judge's handle on the reference's worker during a timing: contents, answers, eager times.

It owns contents, weights and answers, and also runs the reference itself.
"""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from workbench.gate.correctness.asking import Ended, ask_reference
from workbench.gate.correctness.cases import derive
from workbench.gate.correctness.dialogue import REFERENCE_JOB
from workbench.gate.correctness.nest import Nest
from workbench.gate.correctness.protocol import (
    Compared,
    Fill,
    Made,
    OpenReference,
    Perturb,
    Reference,
    Returned,
    decode,
)
from workbench.gate.timing.ring_protocol import (
    Advance,
    Advanced,
    Answer,
    Prepare,
    Prepared,
    Screen,
    Screened,
    Take,
    Timed,
    TimeNative,
    Verify,
    timed_call,
)
from workbench.gate.timing.turns import REFERENCE, SideFault, Turn
from workbench.isolation.wire import Blob
from workbench.isolation.worker import Worker

RING_JOB = "workbench.gate.timing.ring_job"
STAND_IN_JOB = "workbench.gate.timing.stand_in_job"

T = TypeVar("T", bound=Struct)


class Desk:
    """The judge's handle on the reference's worker. Methods raise SideFault."""

    def __init__(self, worker: Worker, seed: bytes) -> None:
        self._worker = worker
        self._seed = seed
        self._turn = 0
        self.lends = False
        """Contents are written into buffers on the GPU; otherwise they travel as bytes."""
        self.state: tuple[str, ...] = ()
        """Names of the weights."""
        self._opened: tuple[Reference, Sequence[Blob]] | None = None
        self._prepared: Prepared | None = None
        self.contents: tuple[Nest, Sequence[Blob]] | None = None
        """The present contents: their nesting and, where they travel, the tensors."""
        self.made: Made | None = None
        """Answers to the first contents, whose structure all others share."""
        self.weights: Sequence[Blob] = ()
        """The weights, where they travel."""

    @property
    def device(self) -> str:
        """The device of inputs and outputs, as workers name it."""
        return "cuda:0" if self.lends else "cpu"

    @property
    def opened(self) -> tuple[Reference, Sequence[Blob]]:
        """The reply to building the reference, and its init tensors."""
        if self._opened is None:
            raise RuntimeError("the reference is not open yet")
        return self._opened

    @property
    def prepared(self) -> Prepared:
        """The reply to making the ring."""
        if self._prepared is None:
            raise RuntimeError("there is no ring yet")
        return self._prepared

    def open(self, problem: OpenReference) -> None:
        """Build the reference and perturb its weights."""
        self.lends = problem.lends
        reference, init = self._ask(f"{REFERENCE_JOB}:open_reference", problem, Reference)
        self.state = tuple(entry.name for entry in reference.state)
        if self.state:
            seed = Perturb(seed=derive(self._seed, "weights"))
            self.weights = self._blobs(f"{REFERENCE_JOB}:perturb", seed)
        self._opened = reference, init

    def fill_state(self, buffers: Sequence[Blob]) -> None:
        """Write the weights into buffers that a side lends."""
        self._blobs(f"{REFERENCE_JOB}:fill", Fill(what="state"), buffers)

    def prepare(self) -> None:
        """Make the ring of input sets."""
        message = Prepare(seed=derive(self._seed, "ring"))
        prepared, _ = self._ask(f"{RING_JOB}:prepare", message, Prepared)
        self.made = prepared.made
        self._prepared = prepared

    def take(self, side: str, buffers: Sequence[Blob]) -> None:
        """Keep the buffers that a side lends."""
        self._blobs(f"{RING_JOB}:take", Take(side=side), buffers)

    def fresh(self, sides: Sequence[str]) -> None:
        """Advance to contents that no side has seen, and send them to these sides."""
        self._turn += 1
        seed = derive(self._seed, "turn", self._turn)
        message = Advance(seed=seed, sides=tuple(sides))
        advanced, blobs = self._ask(f"{RING_JOB}:advance", message, Advanced)
        self.contents = advanced.inputs, blobs

    def answer(self) -> Made:
        """The expected outputs for the present contents."""
        return self._ask(f"{RING_JOB}:answer_now", Answer(), Made)[0]

    def alike(self, outputs: Sequence[Blob]) -> bool:
        """Whether outputs, in the reference's order, pass the cheap check against eager's."""
        return self._ask(f"{RING_JOB}:screen", Screen(), Screened, outputs)[0].alike

    def verify(self, side: str, blobs: Sequence[Blob]) -> Compared:
        """Compare the outputs of a side's call with the expected ones."""
        return self._ask(f"{RING_JOB}:verify", Verify(side=side), Compared, blobs)[0]

    def time_native(self, *, bare: bool) -> Turn:
        """Time one call of the reference itself."""
        timed, _ = self._ask(f"{RING_JOB}:time_native", TimeNative(bare=bare), Timed)
        return Turn(reading=timed.reading, judge_us=self._worker.waited * 1e6)

    def stand_in(self, *, bare: bool) -> Turn | None:
        """Time one call of an empty candidate; None where it could not be built."""
        nest, _ = self.contents or (None, ())
        if nest is None:
            raise RuntimeError("there are no contents yet")
        message = timed_call(nest, bare=bare, reset_state=False)
        returned, _ = self._ask(f"{STAND_IN_JOB}:turn", message, Returned)
        if returned.reading is None:
            return None
        return Turn(reading=returned.reading, judge_us=self._worker.waited * 1e6)

    def _ask(
        self, job: str, message: Struct, kind: type[T], blobs: Sequence[Blob] = ()
    ) -> tuple[T, Sequence[Blob]]:
        try:
            reply = ask_reference(self._worker, job, message, blobs)
        except Ended as end:
            raise SideFault(REFERENCE, end.finding) from end
        return decode(reply.body, kind), reply.blobs

    def _blobs(self, job: str, message: Struct, blobs: Sequence[Blob] = ()) -> Sequence[Blob]:
        try:
            return ask_reference(self._worker, job, message, blobs).blobs
        except Ended as end:
            raise SideFault(REFERENCE, end.finding) from end
