"""Measures the baselines of all problems on this GPU: eager and torch.compile."""

from collections.abc import Callable, Iterator, Sequence

from workbench.engine.baselines import JOB_MODULES, baselines_of
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.judge import JOB_MODULES as GATE_MODULES
from workbench.gate.problem.inspect import inspect_problem
from workbench.isolation.workshop import Workshop
from workbench.measure.baselines import Baselines
from workbench.problems.load import load_problem, shipped_problems


def measure_baselines(
    names: Sequence[str],
    place: Place,
    *,
    anew: bool = False,
    waits: Callable[[], None] = lambda: None,
) -> Iterator[Baselines]:
    """Yield the baselines of the named problems, by default of all that are shipped.

    `anew` also times what was timed within a day; `waits` is called while others hold the GPU.
    Raises WorkbenchError without a GPU, and for a problem that cannot be used.
    """
    index = place.index
    if index is None:
        raise WorkbenchError(
            "baselines are measured, and there is no GPU to measure on",
            where=f"device {place.device}",
            todo="run it where a GPU is; sessions without one model what eager would take",
        )
    problems = [load_problem(name) for name in names or sorted(shipped_problems())]
    with Workshop(
        device_index=index, preload=(*GATE_MODULES, *JOB_MODULES), share_device_memory=True
    ) as workshop:
        for problem in problems:
            yield baselines_of(
                problem,
                lambda problem=problem: inspect_problem(problem, workshop),  # type: ignore[misc]  # triton is untyped
                index,
                workshop,
                anew=anew,
                waits=waits,
            )
