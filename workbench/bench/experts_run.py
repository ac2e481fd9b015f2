"""Times the shipped experts beside the vendors' libraries on this machine's GPU."""

import datetime as dt
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from workbench.bench.experts import RULE, Head, Line, Measured, Missing
from workbench.bench.vendors import RIVALS, Rival
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.candidate import candidate_of
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.profile import Profiled
from workbench.gate.timing.sides import CANDIDATE, PARENT
from workbench.gate.timing.stage import JOB_MODULES, GpuTimer, TimerSettings
from workbench.isolation.workshop import Workshop
from workbench.measure.baselines import versions
from workbench.measure.gpuwatch import gpu_behind
from workbench.problems.load import load_problem
from workbench.problems.records import Problem

Told = Callable[[str], None]


def measure_experts(names: Sequence[str], place: Place, told: Told) -> Iterator[Line]:
    """One comparison after another, each with its own workers.

    Raises WorkbenchError without a GPU and for a problem that ships no expert.
    """
    if place.index is None:
        raise WorkbenchError(
            "experts are measured, and there is no GPU to measure on",
            where=f"device {place.device}",
            todo="run it where a GPU is, or add --from FILE with what was kept there",
        )
    yield _head(place, place.index)
    with Workshop(
        device_index=place.index, share_device_memory=True, preload=JOB_MODULES
    ) as workshop:
        for name in names:
            problem = load_problem(name)
            timer = _timer(problem, place, workshop)
            for rival in RIVALS.get(name, ()):
                told(f"{name} beside {rival.name}")
                yield beside(problem, rival, timer)


def _head(place: Place, index: int) -> Head:
    gpu = gpu_behind(index)
    held = versions(gpu) if gpu is not None else {}
    held |= {name: importlib.metadata.version(name) for name in ("torch", "triton")}
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return Head(date=today, gpu=place.device, versions=held)


def _timer(problem: Problem, place: Place, workshop: Workshop) -> GpuTimer:
    facts = inspect_problem(problem, workshop)
    settings = TimerSettings(
        target=place.target, device=place.device, device_index=place.index, rule=RULE
    )
    return GpuTimer(problem, lambda: facts, settings, workshop)


def beside(problem: Problem, rival: Rival, timer: GpuTimer) -> Measured | Missing:
    """A problem's expert in pairs with one rival. Raises WorkbenchError without an expert."""
    if problem.expert is None:
        raise WorkbenchError(f"no expert is shipped with {problem.name}")
    missing = partial(Missing, workload=problem.name, rival=rival.name)
    if rival.needs and importlib.util.find_spec(rival.needs) is None:
        return missing(says=f"{rival.needs} is not installed")
    expert = candidate_of(problem.expert.read_text(encoding="utf-8"))
    found = timer(expert, candidate_of(rival.source), seed=os.urandom(16), listen=_unheard)
    # The last run: after a gain it is the confirming one, in new workers and the other order.
    last = _last_pairs(found)
    if last is None:
        return missing(says=found.report.says)
    return Measured(
        workload=problem.name,
        rival=rival.name,
        vendor=rival.vendor,
        rival_us=last[PARENT],
        expert_us=last[CANDIDATE],
        gpu_seconds=found.gpu_seconds,
    )


def _unheard(done: int, total: int, says: str) -> None:
    """A listener that ignores progress."""


def _last_pairs(found: Profiled) -> dict[str, tuple[float, ...]] | None:
    if found.speed is None or not found.samples:
        return None
    sides = found.samples[-1].us
    both = PARENT in sides and CANDIDATE in sides
    return dict(sides) if both and sides[CANDIDATE] else None
