"""One verdict without a session: what the `gate` command does."""

from functools import cache
from pathlib import Path

from workbench.engine.devices import Place
from workbench.engine.measuring import flavors, timer_of
from workbench.gate.candidate import Candidate, read_candidate
from workbench.gate.judge import (
    JOB_MODULES,
    GateSettings,
    Listen,
    judge,
)
from workbench.gate.policy import check as policy
from workbench.gate.problem.affordable import with_small_shape
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import GateReport, Outcome, Verdict
from workbench.isolation.workshop import Workshop
from workbench.problems.load import load_problem
from workbench.problems.records import Problem


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
        if place.index is None and not loaded.sidecar and _may_run(one, loaded):
            loaded = with_small_shape(loaded, workshop)

        @cache
        def facts() -> ProblemReport:
            workshop.warm(*flavors(place.index))
            return inspect_problem(loaded, workshop)

        timer = timer_of(loaded, facts, settings, workshop)

        def sit(what: Candidate, base: GateReport | None, hear: Listen) -> GateReport:
            return judge(
                what,
                loaded,
                facts,
                settings,
                workshop,
                parent=None if base is None else other,
                parent_time=None if base is None else base.time,
                timer=timer,
                listen=hear,
            )

        base = None
        if other is not None:
            before = sit(other, None, lambda told: None)  # noqa: ARG005 -- only its verdict counts
            if before.verdict is not Verdict.ACCEPTED:
                return before
            base = before
        return sit(one, base, listen)


def _may_run(candidate: Candidate, problem: Problem) -> bool:
    """Whether the policy passes: what it refuses is told without starting a worker."""
    report = policy.check_bytes(candidate.content, policy.input_kinds(problem.source))
    return report.outcome is Outcome.PASSED
