"""The sides of a timing with their workers: a worker per candidate, one for the reference.

Each candidate's worker lends buffers to write into; nothing of the reference is ever shared.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from msgspec import Struct, structs

from workbench.gate import gpu_workers
from workbench.gate.correctness.asking import (
    Ended,
    ask_candidate,
    blame,
    cap_device,
    decoded,
    forbid_programs,
)
from workbench.gate.correctness.dialogue import CANDIDATE_JOB
from workbench.gate.correctness.numbers import check_numbers
from workbench.gate.correctness.protocol import (
    HandOver,
    Lend,
    Made,
    OpenCandidate,
    Opened,
    OpenReference,
    PutWeights,
    Raised,
    Returned,
    What,
)
from workbench.gate.correctness.raising import compiles_late, explain
from workbench.gate.correctness.structure import check_state, check_structure, outputs_in_order
from workbench.gate.gpu_workers import CALL_SECONDS
from workbench.gate.memory import device_budget
from workbench.gate.records import Finding
from workbench.gate.timing.desk import Desk
from workbench.gate.timing.ring_protocol import (
    EmptyTurn,
    Prepared,
    Timed,
    timed_call,
)
from workbench.gate.timing.turns import (
    CANDIDATE,
    PARENT,
    REFERENCE,
    SEED,
    Empty,
    Side,
    SideFault,
    StandIn,
    Turn,
    nobody,
)
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.wire import Blob
from workbench.isolation.worker import Worker
from workbench.isolation.workshop import Workshop

__all__ = [
    "CANDIDATE",
    "PARENT",
    "REFERENCE",
    "SEED",
    "Sides",
    "SidesSpec",
    "open_sides",
    "together",
]

EMPTY_JOB = "workbench.gate.timing.empty_job"
_OPEN_SECONDS = 120.0
_FIRST_SECONDS = 180.0
"""For the first call, which compiles and autotunes (gate protocol, section 10: 120 s for
compiling)."""
_EMPTY_TURNS = 7
"""Empty turns of each kind, of which the median is taken (ours)."""
_REST = 0.1
"""CPU seconds of all sides per second of a stand-in's turn below which they count as idle (ours).
"""
_REHEARSING = Limits(wall_seconds=CALL_SECONDS, memory_bytes=32 << 30, cpu_seconds=1800)
"""Without a GPU inputs of many GB reach the candidate's worker as bytes."""

T = TypeVar("T", bound=Struct)


class SidesSpec(Struct, frozen=True, kw_only=True):
    """Which sides take turns, on what."""

    problem: OpenReference
    candidates: tuple[tuple[str, str], ...]
    """Names and sources, in the order of turns."""
    with_reference: bool
    """The reference takes turns too, after the candidates."""
    target: str
    seed: bytes
    """Seed of weights, contents and everything else that is drawn."""


class Sides(Struct, frozen=True):
    """All sides: warm workers with equal weights, the first contents in place."""

    sides: tuple[Side, ...]
    fresh: Callable[[Sequence[str]], None]
    """Advances to contents that no side has seen and sends them to the named sides."""
    prepared: Prepared
    isolation: str
    stand_in: StandIn = nobody
    """Takes a turn that computes nothing, in the reference's worker."""
    settle: Callable[[], list[str]] = list
    """From here on the candidates' workers start no process; sentences on those that had to be
    ended. To be called once all is compiled. Raises SideFault."""
    still: Callable[[], None] = lambda: None
    """Raises SideFault for a side that has started a process since."""
    spent: Callable[[], dict[str, dict[str, float]]] = dict
    """Seconds of each side's calls so far, as `Worker.spent` has them."""


@contextmanager
def open_sides(spec: SidesSpec, workshop: Workshop) -> Iterator[Sides]:
    """Start the workers and build all sides in parallel; only the empty turns are sequential.

    Spare workers start meanwhile. Raises SideFault; WorkbenchError when no worker starts.
    """
    tried = gpu_workers.CANDIDATE if spec.problem.lends else (Flavor.INTERPRET, _REHEARSING)
    wanted = [gpu_workers.REFERENCE, *(tried for _ in spec.candidates)]
    with workshop.workers(*wanted) as (first, *others):
        desk = Desk(first, spec.seed)
        names = [name for name, _ in spec.candidates]
        sides = [CandidateSide(*one, desk) for one in zip(names, others, strict=True)]
        clocks = [side.start_clock for side in sides] if spec.problem.lends else []
        together([partial(desk.open, spec.problem), *clocks])
        if spec.problem.lends:
            # One after the other: they measure the overhead of a turn on an idle GPU.
            for side in sides:
                side.idle()
        gpu_workers.spare(workshop)
        sources = [source for _, source in spec.candidates]
        builds = [
            partial(side.open, source, spec) for side, source in zip(sides, sources, strict=True)
        ]
        together([*builds, desk.prepare])
        for side in sides:
            side.place(desk.prepared.made)
        players: list[Side] = [*sides]
        if spec.with_reference:
            players.append(ReferenceSide(desk))
        workers = dict(zip((REFERENCE, *names), (first, *others), strict=True))
        yield Sides(
            tuple(players),
            desk.fresh,
            desk.prepared,
            sides[0].isolation,
            partial(_stood_in, desk, others),
            lambda: [says for side in sides if (says := side.settle())],
            lambda: together([side.still for side in sides]),
            lambda: {name: dict(worker.spent) for name, worker in workers.items()},
        )


def _stood_in(desk: Desk, workers: Sequence[Worker], *, bare: bool) -> Turn | None:
    """A stand-in's turn; None where a side was busy meanwhile, which would delay the host."""
    before = [worker.work() for worker in workers]
    turn = desk.stand_in(bare=bare)
    did = [worker.work().since(was) for worker, was in zip(workers, before, strict=True)]
    if turn is None or sum(did) > _REST * turn.judge_us / 1e6:
        return None
    return turn


def together(works: Sequence[Callable[[], object]]) -> None:
    """Run all of them in parallel; raises the first error, in their order."""
    with ThreadPoolExecutor(len(works)) as pool:
        done = [pool.submit(work) for work in works]
    for one in done:
        one.result()


class CandidateSide:
    """A candidate that takes turns in a worker of its own."""

    checkable = True

    def __init__(self, name: str, worker: Worker, desk: Desk) -> None:
        self.name = name
        self._worker = worker
        self._desk = desk
        self._changes_state = False
        self._called = False
        self._settled = False
        self._returned: Returned | None = None
        self.empty = Empty()

    @property
    def isolation(self) -> str:
        """What confines the worker."""
        return self._worker.isolation

    def start_clock(self) -> None:
        """Take a turn that creates the clock, before any candidate code is in the worker."""
        self._empty(bare=False)

    def idle(self) -> None:
        """Take empty turns, while no candidate code is in the worker."""
        held, bare = (
            tuple(self._empty(bare=kind) for _ in range(_EMPTY_TURNS)) for kind in (False, True)
        )
        self.empty = Empty(held=held, bare=bare)

    def _empty(self, *, bare: bool) -> Turn:
        try:
            reply = ask_candidate(
                self._worker, f"{EMPTY_JOB}:turn", EmptyTurn(bare=bare), seconds=_OPEN_SECONDS
            )
            timed = decoded(reply, Timed)
        except Ended as end:
            raise SideFault(self.name, end.finding) from end
        return Turn(reading=timed.reading, judge_us=self._worker.waited * 1e6)

    def open(self, source: str, spec: SidesSpec) -> None:
        """Build the candidate and give it the reference's weights."""
        reference, init = self._desk.opened
        message = OpenCandidate(
            source=source,
            init=reference.init,
            build_seed=spec.problem.build_seed,
            target=spec.target,
        )
        if self._desk.lends:
            self._cap(device_budget(reference))
        opened = self._ask("open_candidate", message, Opened, init, seconds=_OPEN_SECONDS)
        if opened.raised is not None:
            raise SideFault(self.name, self._explain(opened.raised, "building ModelNew"))
        findings = check_state(reference.state, opened.state)
        if findings:
            raise SideFault(self.name, findings[0])
        if not self._desk.state:
            return
        if self._desk.lends:
            lend = Lend(what="state", entries=reference.state, same_storage=False)
            self._desk.fill_state(self._blobs("lend", lend))
        self._blobs("put_weights", PutWeights(names=self._desk.state), self._desk.weights)

    def place(self, made: Made) -> None:
        """Lend the buffers for inputs, for the whole run."""
        self._changes_state = made.changes_state
        # Restoring the weights before each call adds overhead that empty turns do not have.
        self.empty = structs.replace(self.empty, alike=not made.changes_state)
        if self._desk.lends:
            what: What = "inputs"
            lend = Lend(what=what, entries=made.entries, same_storage=False)
            self._desk.take(self.name, self._blobs("lend", lend))

    def turn(self, *, bare: bool) -> Turn:
        """One call on the present contents."""
        if self._desk.contents is None:
            raise RuntimeError("there are no contents yet")
        nest, inputs = self._desk.contents
        message = timed_call(nest, bare=bare, reset_state=self._changes_state)
        seconds = CALL_SECONDS if self._called else _FIRST_SECONDS
        self._called = True
        returned = self._ask("call", message, Returned, inputs, seconds=seconds)
        judge_us = self._worker.waited * 1e6
        if returned.raised is not None:
            late = self._settled and returned.raised.kind == PermissionError.__name__
            explained = (compiles_late if late else self._explain)(returned.raised, "forward")
            raise SideFault(self.name, explained)
        if returned.reading is None:
            finding = Finding(code="profile.no-reading", says="its worker read no clock")
            raise SideFault(self.name, finding)
        self._returned = returned
        return Turn(reading=returned.reading, judge_us=judge_us)

    def settle(self) -> str:
        """Let the worker start no process from now on; says if some had to be ended."""
        try:
            ended = forbid_programs(self._worker)
        except Ended as end:
            raise SideFault(self.name, end.finding) from end
        self._settled = True
        return f"{self.name}: {ended} processes of its worker were ended" if ended else ""

    def still(self) -> None:
        """Raise SideFault where the worker has a process although it may start none."""
        if started := self._worker.started():
            says = f"{started} processes run in its worker, which may start none while it is timed"
            raise SideFault(self.name, blame("started-a-process", says))

    def check(self, *, closely: bool) -> Sequence[Finding]:
        """What is wrong with the last call's outputs, by the correctness stage's rules."""
        returned, known = self._returned, self._desk.made
        if returned is None or known is None:
            raise RuntimeError("there was no turn to check")
        blobs = self._blobs("hand_over", HandOver())
        if not closely and not check_structure(known, returned, blobs, self._desk.device):
            outputs = outputs_in_order(known, returned, blobs)[: len(known.expected)]
            if self._desk.alike(outputs):
                return ()
        made = self._desk.answer()
        findings = check_structure(made, returned, blobs, self._desk.device)
        if findings:
            return findings
        ordered = outputs_in_order(made, returned, blobs)
        return check_numbers(self._desk.verify(self.name, ordered))

    def _explain(self, raised: Raised, doing: str) -> Finding:
        return explain(raised, doing, self._worker.device_use())

    def _cap(self, size: int) -> None:
        try:
            cap_device(self._worker, size)
        except Ended as end:
            raise SideFault(self.name, end.finding) from end

    def _ask(
        self, job: str, message: Struct, kind: type[T], blobs: Sequence[Blob], *, seconds: float
    ) -> T:
        try:
            reply = ask_candidate(
                self._worker, f"{CANDIDATE_JOB}:{job}", message, blobs, seconds=seconds
            )
            return decoded(reply, kind)
        except Ended as end:
            raise SideFault(self.name, end.finding) from end

    def _blobs(self, job: str, message: Struct, blobs: Sequence[Blob] = ()) -> Sequence[Blob]:
        try:
            return ask_candidate(self._worker, f"{CANDIDATE_JOB}:{job}", message, blobs).blobs
        except Ended as end:
            raise SideFault(self.name, end.finding) from end


class ReferenceSide:
    """Eager PyTorch: the reference itself, in its own worker."""

    name = REFERENCE
    checkable = False

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.empty = Empty()

    def turn(self, *, bare: bool) -> Turn:
        """One call on the present contents."""
        return self._desk.time_native(bare=bare)

    def check(self, *, closely: bool) -> Sequence[Finding]:  # noqa: ARG002 -- a side's shape
        """Nothing: it is what others are checked against."""
        return ()
