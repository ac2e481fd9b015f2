"""Times the reference, eager and compiled, on a GPU that is held exclusively.

In a worker of its own, because torch.compile may take it down: the eager time is then kept.
"""

import os
import time

from msgspec import Struct

from workbench.gate.correctness.asking import Ended, ask_reference, opening
from workbench.gate.correctness.cases import derive
from workbench.gate.correctness.dialogue import REFERENCE_JOB
from workbench.gate.correctness.numbers import check_numbers
from workbench.gate.correctness.protocol import Perturb, Reference, decode, encode
from workbench.gate.timing.baselines_protocol import Compiled, CompileNative, Read, TimeRuns
from workbench.isolation.outcome import WorkerFault, WorkerTimedOut
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import Worker
from workbench.isolation.workshop import Workshop
from workbench.measure.baselines import COMPILE_SECONDS, MODE, Baseline, Outcome
from workbench.measure.pairs import PairRule, measured_time
from workbench.problems.records import Problem

_JOB = "workbench.gate.timing.baselines_job"
JOB_MODULES = (_JOB,)
"""Modules to preload in a workshop's forkservers."""

_RUNS = 30
_LIMITS = Limits(
    wall_seconds=COMPILE_SECONDS,
    memory_bytes=32 << 30,
    cpu_seconds=3600,
    # Inductor keeps the code of every autotuning choice in memory, and compiles them on threads.
    file_bytes=4 << 30,
    tasks=1024,
)


class Bench(Struct, frozen=True, kw_only=True):
    """What is timed, and where."""

    problem: Problem
    device: str
    """Name of the GPU."""
    on_gpu: bool
    mode: str = MODE
    compile_seconds: float = COMPILE_SECONDS


def time_reference(bench: Bench, workshop: Workshop) -> tuple[Baseline, Baseline | None]:
    """Time the reference in eager mode, and by torch.compile where eager mode works.

    The caller holds the GPU exclusively. Failures are part of the returned baselines; raises
    WorkbenchError only when no worker starts.
    """
    with workshop.worker(Flavor.REFERENCE, _LIMITS) as worker:
        try:
            _open(worker, bench)
            message = TimeRuns(runs=_RUNS, seed=derive(os.urandom(16), "baseline"))
            reply = ask_reference(worker, f"{_JOB}:time_eager", message)
            eager = _measured(bench, decode(reply.body, Read), says="as PyTorch runs it")
        except Ended as end:
            eager = Baseline(outcome=Outcome.FAILED, says=end.finding.says)
        if eager.time is None:
            return eager, None
        return eager, _compiled(worker, bench)


def _open(worker: Worker, bench: Bench) -> None:
    problem = bench.problem
    seed = os.urandom(16)
    opened = opening(problem, problem.full, derive(seed, "build"), lends=bench.on_gpu)
    reply = ask_reference(worker, f"{REFERENCE_JOB}:open_reference", opened)
    if decode(reply.body, Reference).state:
        perturb = Perturb(seed=derive(seed, "weights"))
        ask_reference(worker, f"{REFERENCE_JOB}:perturb", perturb)


def _compiled(worker: Worker, bench: Bench) -> Baseline:
    began = time.monotonic()
    try:
        reply = worker.call(
            f"{_JOB}:compile_native",
            encode(CompileNative(mode=bench.mode)),
            deadline=bench.compile_seconds,
        )
        made = decode(reply.body, Compiled)
        if findings := check_numbers(made.compared):
            return Baseline(
                outcome=Outcome.WRONG, says=findings[0].says, compile_seconds=made.seconds
            )
        reply = worker.call(f"{_JOB}:time_compiled", encode(TimeRuns(runs=_RUNS)))
    except WorkerTimedOut as late:
        says = f"{bench.mode} did not end within {late.seconds:g} s"
        spent = time.monotonic() - began
        return Baseline(outcome=Outcome.LATE, says=says, compile_seconds=spent)
    except WorkerFault as fault:
        return Baseline(outcome=Outcome.FAILED, says=_short(fault))
    says = f"torch.compile, {bench.mode}"
    return _measured(bench, decode(reply.body, Read), says=says, compile_seconds=made.seconds)


def _measured(bench: Bench, read: Read, *, says: str, compile_seconds: float = 0.0) -> Baseline:
    return Baseline(
        outcome=Outcome.MEASURED,
        time=measured_time(read.us, PairRule(), bench.device),
        says=says,
        compile_seconds=compile_seconds,
    )


def _short(fault: WorkerFault) -> str:
    lines = str(fault.what).strip().splitlines() or [type(fault).__name__]
    return lines[0][:300]
