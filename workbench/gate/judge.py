"""The gate: four stages in order, stopped at the first that fails, and one verdict."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from workbench.gate import compile as compiling
from workbench.gate import correctness, policy, profile
from workbench.gate.candidate import Candidate
from workbench.gate.cases import SEED_BYTES
from workbench.gate.compile import Compiled
from workbench.gate.correctness import CorrectnessSettings, usual_shapes
from workbench.gate.problem_records import ProblemReport
from workbench.gate.profile import Profiled, Timer
from workbench.gate.records import (
    GateReport,
    Outcome,
    Stage,
    StageReport,
    Verdict,
)
from workbench.isolation.workshop import Workshop
from workbench.measure.records import Time
from workbench.problems.records import Problem

JOB_MODULES = (
    *correctness.JOB_MODULES,
    *compiling.JOB_MODULES,
    *profile.JOB_MODULES,
)
"""Worth preloading in a workshop's forkservers."""


class GateSettings(Struct, frozen=True, kw_only=True):
    """How hard the gate looks."""

    target: str
    """`sm90`."""
    device: str = "cpu"
    """Name of the GPU, or `cpu`."""
    device_index: int | None = None
    rung: int = 2
    """0: policy, compile, profile; 1: correctness at the smallest shape too; 2: at more shapes."""
    seed: bytes = b""
    """Of everything that is drawn; empty: from the system."""
    threshold: float = 1.01
    """A gain counts beyond this (gate protocol, section 9)."""


class Told(Struct, frozen=True):
    """What the gate says while it works: a stage began, came further, or ended."""

    stage: Stage
    report: StageReport | None = None
    done: int = 0
    total: int = 0
    says: str = ""


Listen = Callable[[Told], None]


def judge(  # noqa: PLR0913 -- what is judged, by what, and who listens
    candidate: Candidate,
    problem: Problem,
    facts: Callable[[], ProblemReport],
    settings: GateSettings,
    workshop: Workshop,
    *,
    parent: Candidate | None = None,
    parent_time: Time | None = None,
    timer: Timer | None = None,
    listen: Listen = lambda told: None,  # noqa: ARG005 -- nobody listens
) -> GateReport:
    """Everything the gate has to say about a candidate.

    `facts` gives what `inspect_problem` found; it is asked once the policy has passed. With
    `parent` (on a GPU) or `parent_time` (modeled) the profile stage asks for a gain over it.
    `timer` measures; without one the time is modeled. Never raises for what a candidate does;
    WorkbenchError when no worker can start.
    """
    sitting = _Sitting(candidate, problem, facts, settings, workshop, listen)
    sitting.ask(Stage.POLICY, lambda: policy.check_bytes(candidate.content, sitting.inputs))
    sitting.ask(Stage.COMPILE, sitting.compile)
    if settings.rung > 0:
        sitting.ask(Stage.CORRECTNESS, sitting.correctness)
    sitting.ask(Stage.PROFILE, partial(sitting.profile, parent, parent_time, timer))
    return sitting.report()


class _Sitting:
    """One candidate before the gate."""

    def __init__(
        self,
        candidate: Candidate,
        problem: Problem,
        facts: Callable[[], ProblemReport],
        settings: GateSettings,
        workshop: Workshop,
        listen: Listen,
    ) -> None:
        self._candidate = candidate
        self._problem = problem
        self._facts = facts
        self._settings = settings
        self._workshop = workshop
        self._listen = listen
        self._seed = settings.seed or os.urandom(SEED_BYTES)
        self._reports: list[StageReport] = []
        self._over = False
        self._compiled: Compiled | None = None
        self._profiled: Profiled | None = None
        self.inputs = policy.input_kinds(problem.source)

    def ask(self, stage: Stage, question: Callable[[], StageReport]) -> None:
        """Ask one stage, unless an earlier one has failed."""
        if self._over:
            self._reports.append(
                StageReport(stage=stage, outcome=Outcome.SKIPPED, says="an earlier stage failed")
            )
            return
        self._listen(Told(stage))
        report = question()
        self._reports.append(report)
        self._listen(Told(stage, report))
        self._over = report.outcome is not Outcome.PASSED

    def compile(self) -> StageReport:
        """Compile for the target at the full shape."""
        self._compiled = compiling.run(
            self._candidate, self._facts().full, self._settings.target, self._workshop
        )
        return self._compiled.report

    def correctness(self) -> StageReport:
        """Compare with the reference at the shapes of the rung."""
        device = self._settings.device_index
        wanted = CorrectnessSettings(
            shapes=usual_shapes(self._problem, device_index=device, rung=self._settings.rung),
            seed=self._seed,
            device_index=device,
        )

        def came_further(done: int, total: int, shape: str) -> None:
            says = f"{done} of {total} calls at {shape}"
            self._listen(Told(Stage.CORRECTNESS, done=done, total=total, says=says))

        return correctness.run(self._candidate, self._problem, wanted, self._workshop, came_further)

    def profile(
        self, parent: Candidate | None, parent_time: Time | None, timer: Timer | None
    ) -> StageReport:
        """Measure, or model."""
        if timer is not None:
            self._profiled = timer(self._candidate, parent)
        else:
            self._profiled = profile.run_modeled(
                self._candidate,
                self._compiled or Compiled(report=self._reports[-1]),
                self._facts().full,
                self._settings.target,
                self._workshop,
                parent=parent_time,
                threshold=self._settings.threshold,
            )
        return self._profiled.report

    def report(self) -> GateReport:
        """The verdict with everything that led to it."""
        asked = [r for r in self._reports if r.outcome is not Outcome.SKIPPED]
        last = asked[-1]
        verdict = {
            Outcome.PASSED: Verdict.ACCEPTED,
            Outcome.FAILED: Verdict.REJECTED,
            Outcome.UNPROVEN: Verdict.UNPROVEN,
        }[last.outcome]
        decisive = last.findings[0] if last.findings else None
        compiled, profiled = self._compiled, self._profiled
        extra: dict[str, Any] = {}
        if profiled is not None:
            extra = {
                "time": profiled.time,
                "against": profiled.against,
                "reference": profiled.reference,
                "speed": profiled.speed,
                "versus_seed": profiled.versus_seed,
                "versus_reference": profiled.versus_reference,
                "traces": profiled.traces,
                "gpu_seconds": profiled.gpu_seconds,
            }
        return GateReport(
            verdict=verdict,
            stage=last.stage,
            code=decisive.code if decisive and verdict is not Verdict.ACCEPTED else "",
            says=last.says,
            stages=tuple(self._reports),
            rung=self._settings.rung,
            kernel_sha256=self._candidate.sha256,
            target=self._settings.target,
            device=self._settings.device,
            toolchain=compiled.recorded.toolchain if compiled else {},
            replay_seed=self._seed.hex(),
            launches=compiled.launches if compiled else (),
            **extra,
        )
