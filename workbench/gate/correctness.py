"""Whether a candidate computes what the reference computes: the third stage of the gate.

The judge runs here. It draws the seeds, passes tensors between a reference worker and a candidate
worker as bytes (handles on a GPU) and decides; it imports neither torch nor the candidate. The
protocol is in `cases` (which calls), `structure` and `numbers` (which rules).
"""

import os
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, structs

from workbench.gate.cases import SEED_BYTES, Effort, derive
from workbench.gate.dialogue import Dialogue, Ended
from workbench.gate.numbers import FLAG
from workbench.gate.protocol import OpenReference
from workbench.gate.records import Blame, Evidence, Finding, Outcome, Stage, StageReport
from workbench.gate.trial import Trial, TrialSettings, Wrong
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Problem, Shape

JOB_MODULES = ("workbench.gate.reference_job", "workbench.gate.candidate_job")
"""Worth preloading in a workshop's forkservers."""

Listen = Callable[[int, int, str], None]
"""`listen(done, total, says)` after every call."""


class HasSource(Protocol):
    """A candidate, as far as this stage looks at it."""

    @property
    def source(self) -> str:
        """Text of the candidate's file."""


class ShapeEffort(Struct, frozen=True, kw_only=True):
    """How many calls one shape gets."""

    shape: str
    effort: Effort


class CorrectnessSettings(Struct, frozen=True, kw_only=True):
    """What the stage is asked to do."""

    shapes: tuple[ShapeEffort, ...]
    seed: bytes = b""
    """Of everything that is drawn; empty: from the system, told in every finding for replay."""
    device_index: int | None = None
    """None: the candidate runs in Triton's interpreter."""
    target: str = "sm90"
    """The GPU that host code believes in, where there is none."""
    call_seconds: float = 60.0
    """Deadline of one call of the candidate (gate protocol, section 10)."""
    open_seconds: float = 60.0
    """Deadline for loading and building it."""
    repeats: int = 20
    """Calls on identical inputs on a GPU, to see races (gate protocol, section 8)."""
    memory_bytes: int = 4 << 30
    """Host memory of the candidate's worker."""


def usual_shapes(
    problem: Problem, *, device_index: int | None, rung: int
) -> tuple[ShapeEffort, ...]:
    """The calls that each rung asks for (ours).

    In the interpreter the smallest shape gets all of them; a rung above 1 adds a few calls at the
    next shape. On a GPU all shapes but the full one get all calls, the full one a few, and rung 0
    asks for the smallest alone.
    """
    names = [shape.name for shape in problem.shapes]
    first = ShapeEffort(shape=names[0], effort=Effort.ALL)
    if rung == 0 or len(names) == 1:
        return (first,)
    if device_index is None:
        more = (ShapeEffort(shape=names[1], effort=Effort.FEW),)
        return (first, *more) if rung > 1 and len(names) > 2 else (first,)
    middle = [ShapeEffort(shape=name, effort=Effort.ALL) for name in names[1:-1]]
    return (first, *middle, ShapeEffort(shape=names[-1], effort=Effort.FEW))


def run(
    candidate: HasSource,
    problem: Problem,
    settings: CorrectnessSettings,
    workshop: Workshop,
    listen: Listen = lambda done, total, says: None,  # noqa: ARG005  # nobody listens
) -> StageReport:
    """Judge the candidate's outputs at every shape that `settings` names.

    Stops at the first call that is wrong. Never raises for what a candidate or a problem does: a
    fault of the reference leaves the stage unproven. Raises WorkbenchError when no worker starts.
    """
    began = time.monotonic()
    interpreted = settings.device_index is None
    flavor = Flavor.INTERPRET if interpreted else Flavor.CUDA
    limits = Limits(wall_seconds=settings.call_seconds, memory_bytes=settings.memory_bytes)
    with workshop.worker(Flavor.REFERENCE) as reference, workshop.worker(flavor, limits) as tried:
        dialogue = Dialogue(
            reference, tried, lends=not interpreted, open_seconds=settings.open_seconds
        )
        judge = _Judge(dialogue, candidate, problem, listen)
        judge.run(settings)
        return judge.report(time.monotonic() - began, tried.isolation)


class _Judge:
    """One candidate's stage: what has been asked, and what was found."""

    def __init__(
        self, dialogue: Dialogue, candidate: HasSource, problem: Problem, listen: Listen
    ) -> None:
        self._dialogue = dialogue
        self._source = candidate.source
        self._problem = problem
        self._listen = listen
        self._trials: list[Trial] = []
        self._findings: list[Finding] = []

    def run(self, settings: CorrectnessSettings) -> None:
        """Ask about every shape, until something is wrong."""
        seed = settings.seed or os.urandom(SEED_BYTES)
        for one in settings.shapes:
            shape = self._problem.shape(one.shape)
            trial = Trial(
                self._dialogue,
                TrialSettings(
                    shape=one.shape,
                    effort=one.effort,
                    seed=seed,
                    interpreted=settings.device_index is None,
                    repeats=settings.repeats,
                    target=settings.target,
                ),
                lambda done, total, name=one.shape: self._listen(done, total, name),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )
            self._trials.append(trial)
            try:
                trial.run(self._opening(shape, seed), self._source)
            except Wrong as wrong:
                self._findings += wrong.findings
            except Ended as end:
                place: Evidence = {"shape": one.shape, "seed": seed.hex(), "call": trial.calls}
                evidence = {**end.finding.evidence, **place}
                self._findings.append(structs.replace(end.finding, evidence=evidence))
            if self._findings:
                return

    def _opening(self, shape: Shape, seed: bytes) -> OpenReference:
        return OpenReference(
            source=self._problem.source,
            values=shape.values,
            build_seed=derive(seed, shape.name, "build"),
            precision=self._problem.precision,
            tolerance=self._problem.tolerance,
            selections=self._problem.selections,
        )

    def report(self, seconds: float, isolation: str) -> StageReport:
        """The stage's answer."""
        worst = max((trial.worst for trial in self._trials), default=0.0)
        if self._findings:
            blames = {finding.blame for finding in self._findings}
            failed = Blame.CANDIDATE in blames
            outcome, says = Outcome.FAILED if failed else Outcome.UNPROVEN, self._findings[0].says
        else:
            outcome, says = Outcome.PASSED, self._passed(worst)
        notes = [note for trial in self._trials for note in trial.notes]
        if outcome is Outcome.PASSED and worst > FLAG:
            notes.append(
                Finding(
                    code="correctness.small-margin",
                    says=f"the worst error is {worst:.2f} of the bound",
                    evidence={"margin": worst},
                )
            )
        return StageReport(
            stage=Stage.CORRECTNESS,
            outcome=outcome,
            says=says,
            findings=(*self._findings, *notes),
            seconds=seconds,
            isolation=isolation,
        )

    def _passed(self, worst: float) -> str:
        calls = sum(trial.calls for trial in self._trials)
        shapes = len(self._trials)
        plural = "s" if shapes > 1 else ""
        return f"{calls} calls over {shapes} shape{plural}, worst error {worst:.2g} of the bound"
