"""One verdict without a session: what the `gate` command does."""

from functools import cache
from pathlib import Path

from workbench.engine.devices import Place
from workbench.gate.candidate import Candidate, read_candidate
from workbench.gate.judge import (
    JOB_MODULES,
    GateSettings,
    Listen,
    judge,
)
from workbench.gate.problem import inspect_problem
from workbench.gate.problem_records import ProblemReport
from workbench.gate.records import GateReport, Verdict
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
from workbench.measure.records import Time
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
    with Workshop(device_index=place.index, preload=JOB_MODULES) as workshop:

        @cache
        def facts() -> ProblemReport:
            workshop.warm(Flavor.REFERENCE, Flavor.COMPILE, Flavor.INTERPRET)
            return inspect_problem(loaded, workshop)

        def sit(what: Candidate, parent_time: Time | None, hear: Listen) -> GateReport:
            return judge(
                what, loaded, facts, settings, workshop, parent_time=parent_time, listen=hear
            )

        base = None
        if other is not None:
            before = sit(other, None, lambda told: None)  # noqa: ARG005 -- only its verdict counts
            if before.verdict is not Verdict.ACCEPTED:
                return before
            base = before.time
        return sit(one, base, listen)
