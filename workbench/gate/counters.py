"""What the GPU's own counters say of a candidate that the gate accepted: one run of ncu.

Its numbers explain a time and never are one: nothing in here can pass or fail a candidate.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from workbench.gate import counters_canary as canary_text
from workbench.gate.candidate import Candidate
from workbench.gate.correctness.cases import derive
from workbench.gate.records import NO_CODE_RAN
from workbench.isolation.flavors import environment_of, setup_of
from workbench.isolation.records import Flavor, Layer
from workbench.isolation.sandbox import Confinement, in_force
from workbench.isolation.scratch import ScratchRoot, furnish
from workbench.kernels.records import Launch
from workbench.measure.gpulock import GpuBusy, gpu_lock
from workbench.measure.gpuwatch import lock_name
from workbench.measure.ncu.command import find_ncu
from workbench.measure.ncu.records import NcuRecord, NcuState
from workbench.measure.ncu.run import SECONDS, NcuJob, keep_report, profile
from workbench.measure.ncu.states import without_profile
from workbench.problems.records import Constant, Precision, Problem

JOB = "workbench.gate.counters_job"
_LAYERS = "layers.json"


class CountersRequest(Struct, frozen=True, kw_only=True):
    """What `counters_job` is to call, and how it is to confine itself before."""

    candidate: str
    """Text of the candidate."""
    problem: str
    """Text of the problem, removed from the disk before the candidate is imported."""
    values: dict[str, Constant]
    precision: Precision
    seed: int
    """Of weights and inputs."""
    target: str
    device: str = "cpu"
    """`cuda:0`; `cpu` interprets, to rehearse without a GPU."""
    confinement: Confinement | None = None
    """None where the profiler does not work in a confined process."""


class Profiler(Protocol):
    """Reads a GPU's counters while an accepted candidate runs."""

    def __call__(
        self,
        candidate: Candidate,
        launches: Sequence[Launch],
        *,
        seed: bytes,
        waits: Callable[[], None],
    ) -> NcuRecord:
        """Never raises for what a candidate, ncu or the driver does. `seed` is of what is drawn."""


class NcuProfiler:
    """The `Profiler` of a session: Nsight Compute over one call at the full shape.

    `keep` is where the report goes and how the record names that place; None keeps none. `ncu` is
    the program, by default the installed one. Where ncu does not work on confined processes, as a
    candidate of our own shows, they run unconfined and the record says so; only candidates that
    have passed policy and correctness may be brought here.
    """

    def __init__(
        self,
        problem: Problem,
        target: str,
        device_index: int | None,
        *,
        ncu: Path | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._problem = problem
        self._target = target
        self._device_index = device_index
        self._ncu = ncu
        self._seconds = seconds
        self._confines = True
        self._confines_canary: bool | None = None
        """Whether ncu works on a confined process of our own; None until it has to be known."""

    def __call__(
        self,
        candidate: Candidate,
        launches: Sequence[Launch],
        *,
        seed: bytes,
        waits: Callable[[], None] = lambda: None,
        keep: tuple[Path, str] | None = None,
    ) -> NcuRecord:
        """See `Profiler`. Holds the GPU's lock: counters are those of the whole device."""
        if self._ncu is None and find_ncu() is None:
            return without_profile(NcuState.MISSING, "")
        if self._device_index is None:
            return self._kept(candidate, launches, seed, keep)
        try:
            with gpu_lock(lock_name(self._device_index), waits=waits):
                return self._kept(candidate, launches, seed, keep)
        except GpuBusy as busy:
            return without_profile(NcuState.OCCUPIED, busy.what)

    def _kept(
        self,
        candidate: Candidate,
        launches: Sequence[Launch],
        seed: bytes,
        keep: tuple[Path, str] | None,
    ) -> NcuRecord:
        problem = self._problem
        asked = CountersRequest(
            candidate=candidate.source,
            problem=problem.source,
            values=problem.full.values,
            precision=problem.precision,
            seed=derive(seed, "counters"),
            target=self._target,
        )
        root = ScratchRoot()
        try:
            record = self._profiled(root, asked, tuple(launch.kernel for launch in launches))
            if keep is None:
                return structs.replace(record, report="", report_bytes=0)
            return keep_report(record, *keep)
        finally:
            root.close()

    def _profiled(
        self, root: ScratchRoot, asked: CountersRequest, kernels: tuple[str, ...]
    ) -> NcuRecord:
        """Confined, unless ncu is found not to work on a confined process of our own either."""
        record = self._attempt(root, asked, kernels, confined=self._confines)
        if not self._confines or record.state not in {NcuState.CRASHED, NcuState.NO_KERNEL}:
            return record
        if self._confines_canary is None:
            canary = structs.replace(
                asked, candidate=canary_text.CANDIDATE, problem=canary_text.PROBLEM, values={}
            )
            found = self._attempt(root, canary, (canary_text.KERNEL,), confined=True)
            self._confines_canary = found.state is NcuState.PROFILED
        if self._confines_canary:
            return record
        self._confines = False
        return self._attempt(root, asked, kernels, confined=False)

    def _attempt(
        self,
        root: ScratchRoot,
        asked: CountersRequest,
        kernels: tuple[str, ...],
        *,
        confined: bool,
    ) -> NcuRecord:
        calling = laid_out(root, asked, self._device_index, confined=confined)
        job = NcuJob(
            program=calling.program,
            environment=calling.environment,
            kernels=kernels,
            folder=calling.folder,
            working=calling.scratch,
            seconds=self._seconds,
        )
        record = profile(job, ncu=self._ncu)
        return structs.replace(record, isolation=calling.isolation())


class Calling(Struct, frozen=True, kw_only=True):
    """A program that calls a candidate, to be started under a tool of NVIDIA's."""

    program: tuple[str, ...]
    environment: dict[str, str]
    """All of it."""
    folder: Path
    """Private to the judge: the program cannot write there once it is confined."""
    scratch: Path
    """The program's own, and its working directory."""

    def isolation(self) -> str:
        """What the process put in force before it imported the candidate; `NO_CODE_RAN` if it
        never came so far.
        """
        try:
            told = (self.folder / _LAYERS).read_bytes()
            return in_force(msgspec.json.decode(told, type=tuple[Layer, ...]))
        except (OSError, msgspec.DecodeError):
            return NO_CODE_RAN


def laid_out(
    root: ScratchRoot, asked: CountersRequest, device_index: int | None, *, confined: bool
) -> Calling:
    """Lay out `counters_job` for a request, whose device and confinement are put in here.

    Nothing is started yet.
    """
    folder, scratch = root.folder("tool"), root.folder("called")
    on_gpu = device_index is not None
    setup = setup_of(
        Flavor.CUDA if on_gpu else Flavor.INTERPRET,
        on_gpu=on_gpu,
        preload=(),
        hidden=(),
        share_device_memory=False,
        namespaces=False,
    )
    plan = setup.confinement if confined else None
    message = structs.replace(asked, device=setup.device, confinement=plan)
    request = scratch / "request.json"
    request.write_bytes(msgspec.json.encode(message))
    return Calling(
        program=(sys.executable, "-m", JOB, str(request), str(folder / _LAYERS)),
        environment={**environment_of(setup, device_index), **furnish(scratch), "LC_ALL": "C"},
        folder=folder,
        scratch=scratch,
    )
