"""Where `bench model` gets its variants' numbers: compiler and tracer anywhere, times on a GPU."""

import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import structs

from workbench.bench.model import Recording, Variant
from workbench.bench.model_protocol import JOB, Load, Ready, TimeIt, Times
from workbench.bench.variants import variants
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.correctness.asking import Ended, ask_reference, opening
from workbench.gate.correctness.cases import derive
from workbench.gate.correctness.dialogue import REFERENCE_JOB
from workbench.gate.correctness.numbers import check_numbers
from workbench.gate.correctness.protocol import Compared, decode, encode
from workbench.gate.judge import JOB_MODULES as GATE_MODULES
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ShapeReport
from workbench.gate.specs import NoSpec, init_specs, input_specs
from workbench.gate.timing.stage import holding
from workbench.isolation.outcome import JobFailed, WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import Worker
from workbench.isolation.workshop import Workshop
from workbench.kernels import toolchain
from workbench.kernels.requests import LaunchRequest, Recorded, Traced, TraceRequest
from workbench.kernels.target import target as known_target
from workbench.measure.baselines import versions
from workbench.measure.gpuwatch import gpu_behind
from workbench.problems.load import load_problem
from workbench.problems.records import Problem

_LIMITS = Limits(wall_seconds=60.0, memory_bytes=32 << 30, cpu_seconds=3600, file_bytes=4 << 30)
_LOADING = 5
"""Problems that are loaded side by side on one GPU: compiling is what takes the time."""

_LOST = "it took the worker with it"
_STICKS = "CUDA error"
"""What torch says once the device's context is lost: nothing runs in that process any more."""

Told = Callable[[str], None]
T = TypeVar("T")


def record_here(names: Sequence[str], place: Place, count: int, told: Told) -> Recording:
    """Variants of these problems for the place's target. Raises as `recorded`."""
    return recorded(names, place.target, count, told)


def time_here(recording: Recording, place: Place, told: Told) -> Recording:
    """The recording with times of the place's GPU, which is held alone meanwhile.

    Raises GpuBusy; WorkbenchError for a recording of another target or compiler, without a GPU, or
    when no worker starts.
    """
    if place.index is None or place.target != recording.target:
        raise _elsewhere(f"are for {recording.target} and this is {place.target}", place)
    if (here := compiler_here(place.target)) != recording.compiler:
        # What is timed is compiled here: registers and spills of another compiler are not its own.
        known = recording.compiler or "an unknown compiler"
        raise _elsewhere(f"were compiled by {known} and here is {here}", place)
    gpu = gpu_behind(place.index)
    held = {} if gpu is None else versions(gpu)
    words = ", ".join(f"{name} {version}" for name, version in held.items())
    day = datetime.now(UTC).date().isoformat()
    with (
        Workshop(device_index=place.index, preload=(*GATE_MODULES, JOB)) as workshop,
        holding(place.index, lambda: told("waiting: others have the GPU")),
    ):
        return timed(recording, workshop, f"{place.device}, {words}, {day}", told)


def _elsewhere(says: str, place: Place) -> WorkbenchError:
    return WorkbenchError(
        f"these variants {says}",
        where=place.device,
        todo="add --anew: variants are compiled for the GPU and by the compiler that are here",
    )


def compiler_here(target: str) -> str:
    """What compiles for a target here, as a recording names it. Imports triton."""
    found = toolchain.versions(known_target(target).arch)
    return ", ".join(f"{name} {found[name]}" for name in ("triton", "ptxas"))


def recorded(names: Sequence[str], target: str, count: int, told: Told) -> Recording:
    """Up to `count` variants of each problem, compiled and traced; needs no GPU.

    One that compiles to what another did is left out: their ranks would be noise alone.
    Raises WorkbenchError for a problem that cannot be used or has no seed.
    """
    found: list[Variant] = []
    with Workshop() as workshop:
        for problem in map(load_problem, names):
            if problem.seed is None:
                raise WorkbenchError(f"{problem.name} has no seed to vary", where=str(problem.path))
            full = inspect_problem(problem, workshop).full
            seed = problem.seed.read_text(encoding="utf-8")
            machine_code: set[tuple[object, ...]] = set()
            for name, source in variants(seed, count).items():
                one = _looked_at(problem.name, name, source, full, target, workshop)
                told(f"{problem.name}: {name}{': ' + one.fault if one.fault else ''}")
                code = tuple((launch.cubin_sha256, launch.grid) for launch in one.launches)
                if one.fault or code not in machine_code:
                    found.append(one)
                machine_code.add(code)
    return Recording(target=target, compiler=compiler_here(target), variants=tuple(found))


def _looked_at(
    problem: str, name: str, source: str, full: ShapeReport, target: str, workshop: Workshop
) -> Variant:
    """One variant with its launches and traces, or why it has none."""
    bare = Variant(name=name, problem=problem, source=source)
    try:
        request = LaunchRequest(
            source=source, target=target, init=init_specs(full), inputs=input_specs(full)
        )
        compiled = _asked(workshop, Flavor.COMPILE, "record", request, Recorded)
        if compiled.fault is not None:
            return structs.replace(bare, fault=compiled.fault.what)
        tracing = TraceRequest(
            source=source,
            target=target,
            init=request.init,
            inputs=request.inputs,
            configs=compiled.configs,
            builds=compiled.builds,
        )
        traced = _asked(workshop, Flavor.INTERPRET, "trace", tracing, Traced)
    except (NoSpec, WorkerFault, msgspec.ValidationError) as fault:
        return structs.replace(bare, fault=str(fault)[:300])
    if traced.fault is not None:
        return structs.replace(bare, fault=traced.fault.what)
    return structs.replace(
        bare, launches=compiled.launches, traces=traced.traces, host=compiled.host
    )


def _asked(
    workshop: Workshop, flavor: Flavor, job: str, request: msgspec.Struct, kind: type[T]
) -> T:
    with workshop.worker(flavor, _LIMITS) as worker:
        reply = worker.call(f"workbench.kernels.jobs:{job}", msgspec.to_builtins(request))
        return msgspec.convert(reply.body, kind)


def timed(recording: Recording, workshop: Workshop, source: str, told: Told) -> Recording:
    """The recording with times, on the workshop's device; the GPU is to be held meanwhile.

    Everything is compiled first, several problems side by side; then one variant at a time has
    the device. `source` says what the times hold for. Raises WorkbenchError when no worker starts.
    """
    own = [one for one in recording.variants if one.problem and one.source and not one.fault]
    problems = sorted({one.problem for one in own})
    with ExitStack() as workers, ThreadPoolExecutor(_LOADING) as pool:
        desks = [_Desk(workshop, workers, load_problem(name)) for name in problems]
        groups = [[one for one in own if one.problem == name] for name in problems]
        loaded = list(pool.map(_Desk.load, desks, groups))
        times: list[Variant] = []
        for desk, group in zip(desks, loaded, strict=True):
            for one in desk.time(group):
                told(f"{one.problem}: {one.name}: {one.fault or f'{one.us:.1f} us'}")
                times.append(one)
    by_name = {(one.problem, one.name): one for one in times}
    merged = (by_name.get((one.problem, one.name), one) for one in recording.variants)
    return structs.replace(recording, variants=tuple(merged), source=source)


class _Desk:
    """The reference's worker of one problem, with the variants that were loaded there."""

    def __init__(self, workshop: Workshop, workers: ExitStack, problem: Problem) -> None:
        self._workshop = workshop
        self._workers = workers
        self._problem = problem
        self._worker: Worker

    def load(self, group: Sequence[Variant]) -> list[Variant]:
        """The variants, each with a fault where it does not run or is not right."""
        try:
            self._open()
            faults: dict[int, str] = {}
            for number, one in enumerate(group):
                faults[number], lost = self._load(number, one)
                if lost:
                    self._open()
                    for kept in range(number):
                        faults[kept] = faults[kept] or self._load(kept, group[kept])[0]
        except Ended as end:
            return [structs.replace(one, fault=end.finding.says) for one in group]
        return [structs.replace(one, fault=faults[number]) for number, one in enumerate(group)]

    def time(self, group: Sequence[Variant]) -> Iterator[Variant]:
        """The variants with their medians, those that have no fault."""
        for number, one in enumerate(group):
            if one.fault:
                yield one
                continue
            try:
                reply = self._worker.call(f"{JOB}:time_it", encode(TimeIt(number=number)))
            except WorkerFault as fault:
                yield structs.replace(one, fault=str(fault)[:300])
                continue
            us = statistics.median(decode(reply.body, Times).us)
            yield structs.replace(one, us=round(us, 2))

    def _load(self, number: int, one: Variant) -> tuple[str, bool]:
        """What is wrong with it, empty for nothing, and whether it took the worker with it."""
        try:
            message = Load(number=number, source=one.source)
            reply = self._worker.call(f"{JOB}:load", encode(message))
        except JobFailed as fault:
            says = str(fault)[:300]
            return (f"{_LOST}: {says}", True) if _STICKS in says else (says, False)
        except WorkerFault as fault:
            return f"{_LOST}: {fault}"[:300], True
        findings = check_numbers(decode(reply.body, Compared))
        return (findings[0].says if findings else ""), False

    def _open(self) -> None:
        """Start a worker that answers for the problem. Raises Ended; WorkbenchError for none."""
        problem, seed = self._problem, os.urandom(16)
        self._worker = self._workers.enter_context(self._workshop.worker(Flavor.REFERENCE, _LIMITS))
        opened = opening(problem, problem.full, derive(seed, "build"), lends=False)
        ask = partial(ask_reference, self._worker)
        ask(f"{REFERENCE_JOB}:open_reference", opened)
        ask(f"{JOB}:ready", Ready(seed=derive(seed, "inputs")))
