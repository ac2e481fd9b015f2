"""The correctness stage of one candidate: what was checked, and what was found."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, structs

from workbench.gate.correctness.asking import Ended, opening
from workbench.gate.correctness.cases import Effort, TrialSettings, derive
from workbench.gate.correctness.dialogue import Dialogue
from workbench.gate.correctness.numbers import FLAG
from workbench.gate.correctness.protocol import OpenReference
from workbench.gate.correctness.trial import MOST_CONFIGS, Trial
from workbench.gate.correctness.verdicts import Wrong
from workbench.gate.gpu_workers import CALL_SECONDS, CANDIDATE_BYTES
from workbench.gate.records import Blame, Evidence, Finding, Outcome, Stage, StageReport
from workbench.isolation.worker import Worker
from workbench.kernels.records import Build
from workbench.problems.records import Problem, Shape

_ORDERS = 2
"""Calls without visible stores of other programs and in other orders, in the interpreter (ours)."""

_LEAST_PATIENCE, _TIMES = 5.0, 100.0
"""Seconds, and times an average call at the smallest shape, for a larger shape (ours)."""

_TRUTHS = {True: "always true", False: "never true"}
ONLY_INTERPRETER_SEES = (
    "correctness.out-of-bounds",
    "correctness.race",
    "correctness.lanes-race",
    "correctness.launches-race",
    "correctness.loads-ahead",
    "correctness.false-hint",
    "correctness.wrong-where-rare",
    "correctness.counts-calls",
)

Listen = Callable[[int, int, str], None]
"""`listen(done, total, shape)` after every call."""


def nobody(done: int, total: int, shape: str) -> None:
    """A listener that ignores everything."""


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
    """Seed of everything that is drawn; empty: from the system, reported in every finding for
    replay."""
    device_index: int | None = None
    """None: the candidate runs in Triton's interpreter."""
    target: str = "sm90"
    """The GPU that host code is shown, where there is none."""
    builds: tuple[Build, ...] = ()
    """What the compiler made of kernels that host code compiles ahead, at these shapes."""
    call_seconds: float = CALL_SECONDS
    """Deadline of one call of the candidate."""
    open_seconds: float = 60.0
    """Deadline for loading and building it."""
    repeats: int = 20
    """Calls on identical inputs on a GPU, to expose races (gate protocol, section 8)."""
    memory_bytes: int = CANDIDATE_BYTES
    """Host memory of the candidate's worker."""


class Findings:
    """The stage of one candidate: what was checked, and what was found."""

    def __init__(
        self,
        candidate: HasSource,
        problem: Problem,
        settings: CorrectnessSettings,
        listen: Listen = nobody,
    ) -> None:
        self._source = candidate.source
        self._problem = problem
        self._settings = settings
        self._listen = listen
        self.trials: list[Trial] = []
        self.notes: list[Finding] = []
        self.findings: list[Finding] = []
        self.no_reference = False
        """Nothing was checked, because the reference did not reply."""

    def try_all(self, reference: Worker, tried: Worker) -> None:
        """Try every shape until something is wrong."""
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
                    builds=settings.builds,
                    layouts=self._problem.layouts,
                    patience=self._patience() if interpreted else None,
                ),
            )
            if interpreted and self.trials[1:] and self._too_slow_there():
                return
            if self.findings:
                return

    def _patience(self) -> float | None:
        """Seconds for a shape beyond the first one in the interpreter.

        The time there depends on the candidate: one that compares all pairs takes minutes where the
        reference takes a moment. So it is estimated from the calls at the smallest shape, whose
        pace also includes the load of the machine.
        """
        if not self.trials:
            return None
        return min(self._settings.call_seconds, max(_LEAST_PATIENCE, _TIMES * self.trials[0].pace))

    def _too_slow_there(self) -> bool:
        """Whether a shape beyond the first was only too slow to interpret.

        Then it says nothing about the kernel, which was right at the smallest.
        """
        late_codes = (["correctness.timed-out"], ["correctness.no-answer"])
        if [finding.code for finding in self.findings] not in late_codes:
            return False
        (late,), self.findings = self.findings, []
        says = f"shape {late.evidence.get('shape')} was not checked: the interpreter is too slow"
        self.notes.append(
            structs.replace(
                late, code="correctness.shape-unchecked", says=says, blame=Blame.MACHINE
            )
        )
        self.trials.pop()
        return True

    def look_for_bad_accesses(self, reference: Worker, tried: Worker) -> None:
        """Run a few calls in the interpreter, which checks every address and race.

        Any other error there is the interpreter's: the GPU has already answered.
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
                builds=self._settings.builds,
            ),
        )
        found, self.findings = self.findings, []
        self.findings = [f for f in found if f.code in ONLY_INTERPRETER_SEES]
        if found and not self.findings:
            self.no_reference = found[0].blame is Blame.PROBLEM
            says = f"bounds and races were not checked in the interpreter: {found[0].says}"
            self.notes.append(
                Finding(code="correctness.bounds-unchecked", says=says, blame=Blame.MACHINE)
            )

    def take_over(self, other: "Findings") -> None:
        """Add another's findings."""
        self.findings += other.findings
        self.notes += other.notes
        self.trials += other.trials

    def _try(self, dialogue: Dialogue, settings: TrialSettings) -> None:
        trial = Trial(
            dialogue,
            settings,
            lambda done, total: self._listen(done, total, settings.shape),
        )
        self.trials.append(trial)
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
        """The report of the stage."""
        worst = max((trial.worst for trial in self.trials), default=0.0)
        if self.findings:
            blames = {finding.blame for finding in self.findings}
            failed = Blame.CANDIDATE in blames
            outcome, says = Outcome.FAILED if failed else Outcome.UNPROVEN, self.findings[0].says
        else:
            outcome, says = Outcome.PASSED, self._passed(worst)
        notes = [*self.notes, *self._skipped_configs(), *self._ways_not_taken()]
        notes += [note for trial in self.trials for note in trial.notes]
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
            margin=worst if any(trial.compared for trial in self.trials) else None,
            isolation=isolation,
        )

    def _skipped_configs(self) -> list[Finding]:
        skipped = max((trial.skipped_configs for trial in self.trials), default=0)
        if not skipped:
            return []
        says = f"{skipped} configurations of an autotuned kernel were not run"
        evidence: Evidence = {"skipped": skipped, "run": MOST_CONFIGS}
        code = "correctness.configs-skipped"
        return [Finding(code=code, says=says, blame=Blame.MACHINE, evidence=evidence)]

    def _ways_not_taken(self) -> list[Finding]:
        """Branches on loaded values that had one outcome in all calls."""
        ways = next((t.ways for t in self.trials if t.settings.effort is Effort.ALL), ())
        if not ways:
            return []
        named = ", ".join(f"line {way.line} {_TRUTHS[way.truth]}" for way in ways[:4])
        says = f"conditions on loaded values that had one outcome in every call: {named}"
        evidence: Evidence = {"conditions": len(ways), "branches": sum(w.branch for w in ways)}
        code = "correctness.way-not-taken"
        line = ways[0].line
        return [Finding(code=code, says=says, line=line, blame=Blame.MACHINE, evidence=evidence)]

    def _passed(self, worst: float) -> str:
        calls = sum(trial.calls for trial in self.trials)
        names = ", ".join(dict.fromkeys(trial.shape for trial in self.trials))
        return f"{calls} calls at {names}, worst error {worst:.2g} of the bound"
