"""What the CPU path says of kernels for a GPU that need not be there: policy, compile, a model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workbench.engine.measuring import flavors
from workbench.gate.candidate import candidate_of
from workbench.gate.judge import JOB_MODULES, GateSettings, judge
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import GateReport
from workbench.isolation.workshop import Workshop
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import Target
from workbench.problems.records import Problem

Look = Callable[[str], GateReport]
"""What the CPU path says of a source: policy, compile, modeled time."""


@contextmanager
def looking(problem: Problem, gpu: Target) -> Iterator[Look]:
    """A look at kernels of a problem; each is asked about once."""
    settings = GateSettings(target=gpu.name, rung=0)
    said: dict[str, GateReport] = {}
    with Workshop(device_index=None, preload=JOB_MODULES) as workshop:
        workshop.warm(*flavors(None))
        facts = inspect_problem(problem, workshop)

        def look(source: str) -> GateReport:
            sha = normalized_sha256(source)
            if sha not in said:
                said[sha] = judge(candidate_of(source), problem, lambda: facts, settings, workshop)
            return said[sha]

        yield look
