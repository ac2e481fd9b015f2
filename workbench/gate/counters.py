"""What the GPU's own counters say of a candidate that the gate accepted: one run of ncu.

Its numbers explain a time and never are one: nothing in here can pass or fail a candidate.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.gate import counters_canary as canary_text
from workbench.gate.candidate import Candidate
from workbench.gate.correctness.cases import derive
from workbench.gate.counters_level import Level, remember, remembered
from workbench.gate.records import NO_CODE_RAN
from workbench.gate.tool_program import STOPS, CallRequest, tool_program
from workbench.isolation.scratch import ScratchRoot
from workbench.kernels.records import Launch
from workbench.measure.gpulock import GpuBusy, gpu_lock
from workbench.measure.gpuwatch import lock_name
from workbench.measure.ncu.command import find_ncu, version_of
from workbench.measure.ncu.records import NcuRecord, NcuState
from workbench.measure.ncu.run import SECONDS, Door, Dropped, NcuJob, Stop, keep_report, profile
from workbench.measure.ncu.states import without_profile
from workbench.problems.records import Problem

NCU = "Nsight Compute"
_LOOK_SECONDS = 0.1
_CANARY_SECONDS = 60.0
"""Our own kernel takes some ten; a tool that hangs in the sandbox is not waited for longer."""
_MAY_BE_THE_SANDBOX = (
    NcuState.CRASHED,
    NcuState.NO_KERNEL,
    NcuState.UNREADABLE,
    NcuState.TIMED_OUT,
)
"""How ncu ends where something was shut that it needs."""


class NotWanted(Exception):
    """The candidate turned out not to be worth a look."""


class Proof:
    """Whether a candidate is worth a look: known later, told once, asked from another thread."""

    def __init__(self) -> None:
        self._told: Future[bool] = Future()

    def tell(self, *, worth: bool) -> None:
        """What is told first holds."""
        if not self._told.done():
            self._told.set_result(worth)

    def __call__(self) -> bool:
        """What was told, waited for."""
        return self._told.result()

    @property
    def refused(self) -> bool:
        """Whether it is known by now that it is worth none."""
        return self._told.done() and not self._told.result()


_PROVEN = Proof()
_PROVEN.tell(worth=True)


class Profiler(Protocol):
    """Reads a GPU's counters while an accepted candidate runs."""

    def __call__(
        self,
        candidate: Candidate,
        launches: Sequence[Launch],
        *,
        seed: bytes,
        waits: Callable[[], None],
        proven: Proof,
    ) -> NcuRecord | None:
        """Never raises for what a candidate, ncu or the driver does. `seed` is of what is drawn.

        What takes seconds and needs neither GPU nor candidate is done before `proven` is asked,
        which may wait; where it says no, nothing is run and there is no record.
        """


class NcuProfiler:
    """The `Profiler` of a session: Nsight Compute over one call at the full shape.

    `keep` is where the report goes and how the record names that place; None keeps none. `ncu` is
    the program, by default the installed one. How much of the sandbox ncu works in is asked of a
    candidate of our own, once a machine, and the record says where it is less than a worker's; only
    candidates that have passed policy and correctness may be brought here.
    """

    def __init__(
        self,
        problem: Problem,
        target: str,
        device_index: int | None,
        *,
        ncu: Path | None = None,
    ) -> None:
        self._problem = problem
        self._target = target
        self._device_index = device_index
        self._ncu = ncu
        self._level: Level | None = None
        """The level at which ncu works; None until it is needed."""
        self._counted = threading.Lock()
        self._held = 0.0
        """GPU-seconds of all attempts, less those that a record or `unbilled` reported."""
        self._trying = threading.Lock()

    def __call__(
        self,
        candidate: Candidate,
        launches: Sequence[Launch],
        *,
        seed: bytes,
        waits: Callable[[], None] = lambda: None,
        proven: Proof = _PROVEN,
        keep: tuple[Path, str] | None = None,
    ) -> NcuRecord | None:
        """See `Profiler`. Counts with the GPU for itself: counters are of the whole device."""
        ncu = self._ncu or find_ncu()
        if ncu is None:
            return without_profile(NcuState.MISSING, "") if proven() else None
        names = [launch.kernel for launch in launches]
        try:
            run = _Run(ncu, names, self._doors(proven, waits), lambda: proven.refused)
            record = self._kept(run, candidate, seed, keep)
        except NotWanted:
            return None
        except GpuBusy as busy:
            return without_profile(NcuState.OCCUPIED, busy.what)
        self._add(-record.seconds)
        return record

    def try_ahead(self) -> None:
        """Ask our own kernel how far ncu can be confined here, unless that is known; at once back.

        It takes a start of torch for each level that is tried, once a machine.
        """
        ncu = self._ncu or find_ncu()
        if ncu is not None and remembered(NCU, version_of(ncu)) is None:
            self._trying.acquire()
            threading.Thread(target=self._try_ahead, args=(ncu,), daemon=True).start()

    def unbilled(self) -> float:
        """GPU-seconds since the last call that no record includes: our own kernel's, and those of
        attempts that were given up or made again."""
        with self._counted:
            # Less than none while an attempt is between its end and its record.
            told = max(0.0, self._held)
            self._held -= told
            return told

    def _add(self, seconds: float) -> None:
        with self._counted:
            self._held += seconds

    def _try_ahead(self, ncu: Path) -> None:
        try:
            root = ScratchRoot()
            try:
                run = _Run(ncu, (), self._doors(_PROVEN, lambda: None))
                self._tried(root, run, self._asked("", b""))
            finally:
                root.close()
        except (WorkbenchError, OSError):
            # A busy GPU or a full disk, say: whoever needs the level meets it again.
            return
        finally:
            self._trying.release()

    @contextmanager
    def _in_turn(self, run: "_Run") -> Iterator[None]:
        """Levels are tried by one at a time; who is not wanted any more does not wait."""
        while not self._trying.acquire(timeout=_LOOK_SECONDS):
            if run.dropped():
                raise NotWanted
        try:
            yield
        finally:
            self._trying.release()

    def _doors(self, proven: Proof, waits: Callable[[], None]) -> tuple[Door, Door]:
        """With others while it is loaded and compiles, alone while the counters count."""
        having = partial(self._having, proven, waits)
        return partial(having, shared=True), partial(having, shared=False)

    @contextmanager
    def _having(self, proven: Proof, waits: Callable[[], None], *, shared: bool) -> Iterator[None]:
        if not proven():
            raise NotWanted
        with ExitStack() as stack:
            if self._device_index is not None:
                held = gpu_lock(lock_name(self._device_index), shared=shared, waits=waits)
                stack.enter_context(held)
            yield

    def _kept(
        self, run: "_Run", candidate: Candidate, seed: bytes, keep: tuple[Path, str] | None
    ) -> NcuRecord:
        root = ScratchRoot()
        try:
            record = self._profiled(root, run, self._asked(candidate.source, seed))
            if keep is None:
                return structs.replace(record, report="", report_bytes=0)
            return keep_report(record, *keep)
        finally:
            root.close()

    def _asked(self, source: str, seed: bytes) -> CallRequest:
        problem = self._problem
        return CallRequest(
            candidate=source,
            problem=problem.source,
            values=problem.full.values,
            precision=problem.precision,
            seed=derive(seed, "counters"),
            target=self._target,
        )

    def _profiled(self, root: ScratchRoot, run: "_Run", asked: CallRequest) -> NcuRecord:
        """As confined as ncu allows on a kernel of our own; where it allows nothing, why.

        What was remembered is doubted once: where it fails, our own kernel is asked again.
        """
        with self._in_turn(run):
            known = self._level or remembered(NCU, version_of(run.ncu))
            found = known or self._tried(root, run, asked)
            just_tried = self._level is not None
        if not isinstance(found, Level):
            return found
        record = self._confined(root, run, asked, found)
        if just_tried or record.state not in _MAY_BE_THE_SANDBOX:
            return record
        with self._in_turn(run):
            again = self._level or self._tried(root, run, asked)
        if not isinstance(again, Level):
            return again
        return record if again is found else self._confined(root, run, asked, again)

    def _confined(
        self, root: ScratchRoot, run: "_Run", asked: CallRequest, level: Level
    ) -> NcuRecord:
        record = self._attempt(root, run, asked, level)
        return structs.replace(record, confinement=level.says(NCU))

    def _tried(self, root: ScratchRoot, run: "_Run", asked: CallRequest) -> Level | NcuRecord:
        """The strictest level at which ncu profiles our own kernel; how it failed if at none."""
        canary = structs.replace(
            asked, candidate=canary_text.CANDIDATE, problem=canary_text.PROBLEM, values={}
        )
        ours = run._replace(kernels=[canary_text.KERNEL])
        for level in Level:
            record = self._attempt(root, ours, canary, level, most=_CANARY_SECONDS)
            if record.state is NcuState.PROFILED:
                self._level = level
                remember(NCU, version_of(run.ncu), level)
                return level
            if record.state not in _MAY_BE_THE_SANDBOX:
                break
        says = f"on a kernel of our own too: {record.says}"
        return structs.replace(record, says=says, isolation=NO_CODE_RAN)

    def _attempt(
        self,
        root: ScratchRoot,
        run: "_Run",
        asked: CallRequest,
        level: Level,
        *,
        most: float = math.inf,
    ) -> NcuRecord:
        program = tool_program(
            root, asked, self._device_index, tool=run.ncu, level=level, waits=True
        )
        job = NcuJob(
            program=program.command,
            environment=program.environment,
            kernels=tuple(run.kernels),
            folder=program.folder,
            working=program.scratch,
            seconds=min(most, SECONDS),
            stops=tuple(
                Stop(reached=program.scratch / stop, go=program.folder / stop) for stop in STOPS
            ),
        )
        record = profile(job, ncu=run.ncu, doors=run.doors, dropped=run.dropped)
        self._add(record.seconds)
        if run.dropped():
            raise NotWanted
        return structs.replace(record, isolation=program.isolation())


class _Run(NamedTuple):
    """How one candidate is looked at."""

    ncu: Path
    kernels: Sequence[str]
    doors: Sequence[Door]
    dropped: Dropped = lambda: False
