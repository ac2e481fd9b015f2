"""Evaluates kernels on the CPU path, for a GPU that need not exist here: policy, compile, model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from msgspec import structs

from workbench.engine.measuring import flavors
from workbench.gate.candidate import candidate_of
from workbench.gate.judge import JOB_MODULES, GateSettings, Sitting, Told
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import GateReport
from workbench.isolation.workshop import Workshop
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import Target
from workbench.problems.records import Problem


class Look(Protocol):
    """The result of the CPU path for a source."""

    def __call__(self, source: str, *, timed: bool = False) -> GateReport:
        """Policy and compile; with `timed` also a modeled time.

        For that the full shape is traced in the interpreter, which costs many times more.
        """


@contextmanager
def looking(problem: Problem, gpu: Target, trace_seconds: float | None = None) -> Iterator[Look]:
    """An evaluator for kernels of a problem; each kernel is evaluated once. It is safe to ask from
    several threads. A time that takes longer than `trace_seconds` to model is None."""
    settings = GateSettings(target=gpu.name, rung=0)
    if trace_seconds is not None:
        settings = structs.replace(settings, trace_seconds=trace_seconds)
    said: dict[tuple[str, bool], GateReport] = {}
    with Workshop(device_index=None, preload=JOB_MODULES) as workshop:
        workshop.warm(*flavors(None))
        facts = inspect_problem(problem, workshop)

        def look(source: str, *, timed: bool = False) -> GateReport:
            key = normalized_sha256(source), timed
            if key not in said:
                sitting = Sitting(
                    candidate_of(source), problem, lambda: facts, settings, workshop, _unheard
                )
                sitting.begin()
                said[key] = sitting.go_on() if timed else sitting.report()
            return said[key]

        yield look


def _unheard(told: Told) -> None:
    """Nobody waits for a stage."""
