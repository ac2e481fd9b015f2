"""One verdict without a session: what the `gate` command does."""

from functools import cache
from pathlib import Path

from workbench.engine.devices import Place
from workbench.engine.measuring import flavors, timer_of
from workbench.gate.candidate import read_candidate
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
from workbench.gate.records import GateReport, Outcome, Verdict
from workbench.isolation.workshop import Workshop
from workbench.problems.load import load_problem


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
        passed = said.outcome is Outcome.PASSED
        if place.index is None and not loaded.sidecar and passed:
            loaded = with_small_shape(loaded, workshop)

        @cache
        def facts() -> ProblemReport:
            workshop.warm(*flavors(place.index))
            return inspect_problem(loaded, workshop)

        timer = timer_of(loaded, facts, settings, workshop)

        base = None
        if other is not None:
            base = judge(other, loaded, facts, settings, workshop, timer=timer)
            if base.verdict is not Verdict.ACCEPTED:
                return base
        sitting = Sitting(one, loaded, facts, settings, workshop, listen, Known(policy=said))
        sitting.begin()
        return sitting.go_on(
            parent=None if base is None else other,
            parent_time=None if base is None else base.time,
            timer=timer,
        )
