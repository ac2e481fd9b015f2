"""Whether a candidate computes what the reference computes: the third stage of the gate.

The judge runs here. It draws the seeds, passes tensors between a reference worker and a candidate
worker as bytes (handles on a GPU) and decides; it imports neither torch nor the candidate. The
protocol is in `cases` (which calls), `structure` and `numbers` (which rules).
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Protocol

from msgspec import Struct, structs

from workbench.errors import WorkbenchError
from workbench.gate.correctness.asking import Ended, opening
from workbench.gate.correctness.cases import SEED_BYTES, Effort, derive
from workbench.gate.correctness.dialogue import Dialogue
from workbench.gate.correctness.full.stage import FullLook
from workbench.gate.correctness.numbers import FLAG
from workbench.gate.correctness.protocol import OpenReference
from workbench.gate.correctness.trial import MOST_CONFIGS, Trial, TrialSettings, Wrong
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import Blame, Evidence, Finding, Outcome, Stage, StageReport
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import Worker
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Problem, Shape

JOB_MODULES = (
    "workbench.gate.correctness.reference_job",
    "workbench.gate.correctness.candidate_job",
)
"""Worth preloading in a workshop's forkservers."""

_ORDERS = 2
"""Calls with the programs apart and in other orders, in the interpreter (ours)."""

_REFERENCE_LIMITS = Limits(memory_bytes=32 << 30, reply_bytes=8 << 30)
"""The problem's own code may draw many GB on the host before they go to a GPU."""

_ONLY_INTERPRETER_SEES = ("correctness.out-of-bounds", "correctness.race")

Listen = Callable[[int, int, str], None]
"""`listen(done, total, shape)` after every call."""


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
    problem: Problem, *, device_index: int | None, rung: int, facts: ProblemReport | None = None
) -> tuple[ShapeEffort, ...]:
    """The calls that each rung asks for (ours).

    In the interpreter the smallest shape gets all of them; a rung above 1 adds a few calls at the
    next shape if `facts` say that it is cheap. On a GPU all shapes but the full one get all calls,
    the full one a few, and rung 0 asks for the smallest alone.
    """
    names = [shape.name for shape in problem.shapes]
    first = ShapeEffort(shape=names[0], effort=Effort.ALL)
    if rung == 0 or len(names) == 1:
        return (first,)
    if device_index is None:
        more = (ShapeEffort(shape=names[1], effort=Effort.FEW),)
        return (first, *more) if rung > 1 and _cheap(facts, names[1]) else (first,)
    middle = [ShapeEffort(shape=name, effort=Effort.ALL) for name in names[1:-1]]
    return (first, *middle, ShapeEffort(shape=names[-1], effort=Effort.FEW))


def _cheap(facts: ProblemReport | None, name: str) -> bool:
    """Whether the interpreter needs seconds for a shape: 1 MiB and 100 MFLOP (ours)."""
    work = None if facts is None else facts.shape(name).work
    return work is not None and work.bytes <= 1 << 20 and work.flops <= 1e8


def run(
    candidate: HasSource,
    problem: Problem,
    settings: CorrectnessSettings,
    workshop: Workshop,
    listen: Listen = lambda done, total, shape: None,  # noqa: ARG005  # nobody listens
) -> StageReport:
    """Judge the candidate's outputs at every shape that `settings` names.

    Stops at the first call that is wrong. On a GPU the interpreter then checks bounds and races at
    the smallest shape, where it can run the kernels. Never raises for what a candidate or a problem
    does: a fault of the reference leaves the stage unproven. Raises WorkbenchError when no worker
    starts.
    """
    began = time.monotonic()
    seed = settings.seed or os.urandom(SEED_BYTES)
    interpreted = settings.device_index is None
    if not interpreted and not workshop.shares_device_memory:
        raise WorkbenchError("correctness on a GPU needs a workshop that shares device memory")
    flavor = Flavor.INTERPRET if interpreted else Flavor.CUDA
    limits = Limits(wall_seconds=settings.call_seconds, memory_bytes=settings.memory_bytes)
    judge = _Judge(candidate, problem, structs.replace(settings, seed=seed), listen)
    with _side_by_side(workshop, {Flavor.REFERENCE: _REFERENCE_LIMITS, flavor: limits}) as workers:
        reference, tried = workers
        judge.try_all(reference, tried)
        if not interpreted and not judge.findings:
            with workshop.worker(Flavor.INTERPRET, limits) as second:
                judge.look_for_bad_accesses(reference, second)
        return judge.report(time.monotonic() - began, tried.isolation)


def with_full(report: StageReport, looked: FullLook) -> StageReport:
    """A report with what a look at the full shape added to it."""
    if not looked.says and not looked.findings:
        return report
    if looked.findings:
        failed = any(finding.blame is Blame.CANDIDATE for finding in looked.findings)
        return structs.replace(
            report,
            outcome=Outcome.FAILED if failed else Outcome.UNPROVEN,
            says=looked.findings[0].says,
            findings=(*looked.findings, *report.findings),
        )
    note = Finding(
        code="correctness.full-shape",
        says=looked.says,
        blame=Blame.MACHINE,
        evidence=looked.evidence,
    )
    says = f"{report.says}; {looked.says}" if report.outcome is Outcome.PASSED else report.says
    return structs.replace(report, says=says, findings=(*report.findings, note))


@contextmanager
def _side_by_side(workshop: Workshop, wanted: dict[Flavor, Limits]) -> Iterator[list[Worker]]:
    """Workers of these flavors, started at the same time: a GPU takes half a second to start."""
    with ExitStack() as kept:
        with ThreadPoolExecutor(len(wanted)) as pool:
            asked = [pool.submit(workshop.worker, *one) for one in wanted.items()]
            faults = [future.exception() for future in asked]
        workers = [kept.enter_context(f.result()) for f in asked if f.exception() is None]
        for fault in faults:
            if fault is not None:
                raise fault
        yield workers


class _Judge:
    """One candidate's stage: what has been asked, and what was found."""

    def __init__(
        self,
        candidate: HasSource,
        problem: Problem,
        settings: CorrectnessSettings,
        listen: Listen,
    ) -> None:
        self._source = candidate.source
        self._problem = problem
        self._settings = settings
        self._listen = listen
        self._trials: list[Trial] = []
        self._notes: list[Finding] = []
        self.findings: list[Finding] = []

    def try_all(self, reference: Worker, tried: Worker) -> None:
        """Ask about every shape, until something is wrong."""
        settings = self._settings
        interpreted = settings.device_index is None
        dialogue = Dialogue(
            reference, tried, lends=not interpreted, open_seconds=settings.open_seconds
        )
        for one in settings.shapes:
            repeats = settings.repeats if one.effort is Effort.ALL else 0
            self._try(
                dialogue,
                TrialSettings(
                    shape=one.shape,
                    effort=one.effort,
                    seed=settings.seed,
                    interpreted=interpreted,
                    repeats=_ORDERS if interpreted else repeats,
                    target=settings.target,
                ),
            )
            if interpreted and self._trials[1:] and self._too_slow_there():
                return
            if self.findings:
                return

    def _too_slow_there(self) -> bool:
        """Whether a shape beyond the first one only took the interpreter too long: then it says
        nothing of the kernel, which was right at the smallest.
        """
        if [finding.code for finding in self.findings] != ["correctness.timed-out"]:
            return False
        (late,), self.findings = self.findings, []
        says = f"shape {late.evidence.get('shape')} was not checked: the interpreter is too slow"
        self._notes.append(
            structs.replace(
                late, code="correctness.shape-unchecked", says=says, blame=Blame.MACHINE
            )
        )
        self._trials.pop()
        return True

    def look_for_bad_accesses(self, reference: Worker, tried: Worker) -> None:
        """Run a few calls in the interpreter, which sees every address and every race.

        What else goes wrong there is the interpreter's: the GPU has already answered.
        """
        dialogue = Dialogue(reference, tried, lends=False, open_seconds=self._settings.open_seconds)
        self._try(
            dialogue,
            TrialSettings(
                shape=self._settings.shapes[0].shape,
                effort=Effort.FEW,
                seed=self._settings.seed,
                interpreted=True,
                repeats=1,
                ghost=False,
                target=self._settings.target,
            ),
        )
        found, self.findings = self.findings, []
        self.findings = [f for f in found if f.code in _ONLY_INTERPRETER_SEES]
        if found and not self.findings:
            says = f"bounds and races were not checked in the interpreter: {found[0].says}"
            self._notes.append(
                Finding(code="correctness.bounds-unchecked", says=says, blame=Blame.MACHINE)
            )

    def _try(self, dialogue: Dialogue, settings: TrialSettings) -> None:
        trial = Trial(
            dialogue,
            settings,
            lambda done, total: self._listen(done, total, settings.shape),
        )
        self._trials.append(trial)
        try:
            shape = self._problem.shape(settings.shape)
            trial.run(self._opening(shape, lends=dialogue.lends), self._source)
        except Wrong as wrong:
            self.findings += wrong.findings
        except Ended as end:
            seed = settings.seed.hex()
            place: Evidence = {"shape": settings.shape, "seed": seed, "call": trial.calls}
            evidence = {**end.finding.evidence, **place}
            self.findings.append(structs.replace(end.finding, evidence=evidence))

    def _opening(self, shape: Shape, *, lends: bool) -> OpenReference:
        seed = derive(self._settings.seed, shape.name, "build")
        return opening(self._problem, shape, seed, lends=lends)

    def report(self, seconds: float, isolation: str) -> StageReport:
        """The stage's answer."""
        worst = max((trial.worst for trial in self._trials), default=0.0)
        if self.findings:
            blames = {finding.blame for finding in self.findings}
            failed = Blame.CANDIDATE in blames
            outcome, says = Outcome.FAILED if failed else Outcome.UNPROVEN, self.findings[0].says
        else:
            outcome, says = Outcome.PASSED, self._passed(worst)
        notes = [*self._notes, *self._skipped_configs()]
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
            findings=(*self.findings, *notes),
            seconds=seconds,
            isolation=isolation,
        )

    def _skipped_configs(self) -> list[Finding]:
        skipped = max((trial.skipped_configs for trial in self._trials), default=0)
        if not skipped:
            return []
        says = f"{skipped} configurations of an autotuned kernel were not run"
        evidence: Evidence = {"skipped": skipped, "run": MOST_CONFIGS}
        code = "correctness.configs-skipped"
        return [Finding(code=code, says=says, blame=Blame.MACHINE, evidence=evidence)]

    def _passed(self, worst: float) -> str:
        calls = sum(trial.calls for trial in self._trials)
        names = ", ".join(dict.fromkeys(trial.shape for trial in self._trials))
        return f"{calls} calls at {names}, worst error {worst:.2g} of the bound"
