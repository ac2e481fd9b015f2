"""The baselines of a problem on a GPU: cached ones of the last day, else timed now."""

from collections.abc import Callable
from datetime import UTC, datetime

from workbench.errors import WorkbenchError
from workbench.gate.problem.records import ProblemReport
from workbench.gate.timing.baselines import JOB_MODULES, Bench, time_reference
from workbench.gate.timing.roof import Roof
from workbench.gate.timing.stage import holding
from workbench.isolation.workshop import Workshop
from workbench.measure.baselines import Baselines, keep_baselines, known_baselines, versions
from workbench.measure.gpus import Gpu
from workbench.measure.gpuwatch import gpu_behind
from workbench.problems.records import Problem

__all__ = ["JOB_MODULES", "baselines_of", "todays_baselines"]


def todays_baselines(problem: Problem, device_index: int | None) -> Baselines | None:
    """Baselines timed on that GPU within the last day; None on the CPU and where there are none."""
    gpu = None if device_index is None else gpu_behind(device_index)
    return None if gpu is None else known_baselines(problem, gpu)


def baselines_of(
    problem: Problem,
    facts: Callable[[], ProblemReport],
    device_index: int,
    workshop: Workshop,
    *,
    anew: bool = False,
    waits: Callable[[], None] = lambda: None,
) -> Baselines:
    """Eager and compiled times at the full shape; `best` is the faster of them.

    `workshop` computes on the same `device_index`. Takes up to two minutes, mostly for
    torch.compile; cached times of the last day are returned at once unless `anew`.
    `waits` is called where others hold the GPU. Raises GpuBusy; WorkbenchError where NVML does not
    show the GPU or no worker starts.
    """
    gpu = gpu_behind(device_index)
    if gpu is None:
        raise WorkbenchError(
            "baselines need a GPU that NVML shows",
            where=f"device {device_index}",
            todo="look at nvidia-smi, or use --device cpu without baselines",
        )
    found = None if anew else known_baselines(problem, gpu)
    if found is not None and found.compiled is not None:
        return found
    timed = _timed(problem, facts, device_index, workshop, gpu, waits)
    keep_baselines(problem, gpu, timed)
    return timed


def _timed(
    problem: Problem,
    facts: Callable[[], ProblemReport],
    device_index: int,
    workshop: Workshop,
    gpu: Gpu,
    waits: Callable[[], None],
) -> Baselines:
    # Before the GPU is held: an inspection shares it with others.
    known = facts()
    roof = Roof(
        problem, lambda: known, target=gpu.target, device_index=device_index, workshop=workshop
    )
    with holding(device_index, waits):
        began = datetime.now(UTC)
        bench = Bench(problem=problem, device=gpu.name, on_gpu=True)
        eager, compiled = time_reference(bench, workshop)
        limit = roof.limit()
    for one, who in ((eager, "eager"), (compiled, "torch.compile")):
        if one is not None and one.time is not None:
            roof.raised_by(one.time.microseconds, f"{who} {problem.name}")
            limit = roof.limit()
    ended = datetime.now(UTC)
    return Baselines(
        problem=problem.name,
        shape=problem.full.name,
        gpu=gpu.name,
        versions=versions(gpu),
        measured=ended.isoformat(timespec="seconds"),
        eager=eager,
        compiled=compiled,
        limit=limit,
        gpu_seconds=(ended - began).total_seconds(),
    )
