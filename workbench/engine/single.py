"""One verdict without a session: what the `gate` command does."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from workbench.engine.devices import Place
from workbench.engine.measuring import flavors, timer_of
from workbench.gate.candidate import Candidate, read_candidate
from workbench.gate.judge import (
    JOB_MODULES,
    GateSettings,
    Known,
    Listen,
    Sitting,
    judge,
)
from workbench.gate.policy import check as policy
from workbench.gate.problem.affordable import with_small_shape
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import GateReport, Outcome, StageReport, Verdict
from workbench.gate.timing.stage import GpuTimer
from workbench.isolation.workshop import Workshop
from workbench.problems.load import load_problem
from workbench.problems.records import Problem


@dataclass(frozen=True)
class _Ground:
    """What files are judged on: a problem at the sizes that this machine can judge."""

    problem: Problem
    facts: Callable[[], ProblemReport]
    """Looked for when they are first asked for."""
    settings: GateSettings
    workshop: Workshop
    timer: GpuTimer | None


def gate_once(
    candidate: Path,
    problem: str,
    *,
    against: Path | None,
    rung: int,
    seed: bytes,
    place: Place,
    listen: Listen,
) -> GateReport:
    """Judge one file. Raises WorkbenchError for a file, problem or device that cannot be used."""
    loaded = load_problem(problem)
    settings = GateSettings(
        target=place.target,
        device=place.device,
        device_index=place.index,
        rung=rung,
        seed=seed,
    )
    one = read_candidate(candidate)
    other = None if against is None else read_candidate(against)
    with Workshop(
        device_index=place.index,
        preload=JOB_MODULES,
        share_device_memory=place.index is not None,
    ) as workshop:
        # What the policy refuses is told without starting a worker.
        said = policy.check_bytes(one.content, policy.input_kinds(loaded.source))
        if said.outcome is Outcome.PASSED and place.index is None and not loaded.sidecar:
            loaded = with_small_shape(loaded, workshop)
        return _judged(one, other, _ground(loaded, settings, workshop), said, listen)


def _ground(problem: Problem, settings: GateSettings, workshop: Workshop) -> _Ground:
    @cache
    def facts() -> ProblemReport:
        workshop.warm(*flavors(settings.device_index))
        return inspect_problem(problem, workshop)

    timer = timer_of(problem, facts, settings, workshop)
    return _Ground(problem, facts, settings, workshop, timer)


def _judged(
    one: Candidate, other: Candidate | None, on: _Ground, said: StageReport, listen: Listen
) -> GateReport:
    """The report on one file, or on the one that it is compared with, if that fails."""
    base = None
    if other is not None:
        base = judge(other, on.problem, on.facts, on.settings, on.workshop, timer=on.timer)
        if base.verdict is not Verdict.ACCEPTED:
            return base
    sitting = Sitting(
        one, on.problem, on.facts, on.settings, on.workshop, listen, Known(policy=said)
    )
    sitting.begin()
    return sitting.go_on(
        parent=None if base is None else other,
        parent_time=None if base is None else base.time,
        timer=on.timer,
    )
