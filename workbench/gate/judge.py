"""The gate: asks four stages in order, stops at the first that fails, and gives one verdict."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from msgspec import Struct, structs

from workbench.gate import compile as compiling
from workbench.gate import health, profile
from workbench.gate.aside import Aside, looking_aside
from workbench.gate.background import Background
from workbench.gate.candidate import Candidate
from workbench.gate.compile import Compiled
from workbench.gate.correctness import stage as correctness
from workbench.gate.correctness.cases import SEED_BYTES
from workbench.gate.correctness.full import stage as full_shape
from workbench.gate.correctness.full.looks import FullLook, Setting
from workbench.gate.correctness.stage import CorrectnessSettings, ShapeEffort, usual_shapes
from workbench.gate.counters import Profiler
from workbench.gate.counting import Counting, looked_into
from workbench.gate.parts import Parts
from workbench.gate.policy import check as policy
from workbench.gate.problem.records import ProblemReport, ShapeReport
from workbench.gate.profile import Profiled, Timer
from workbench.gate.records import (
    GateReport,
    Outcome,
    Stage,
    StageReport,
    Verdict,
)
from workbench.gate.sanitizer.check import sanitized
from workbench.gate.settings import GateSettings, Listen, Told
from workbench.gate.sharing import SharedGpu
from workbench.gate.timing import stage as timing
from workbench.gate.verdict import verdict_of
from workbench.isolation.workshop import Workshop
from workbench.kernels.work import work_digest
from workbench.measure.ncu.records import NcuRecord
from workbench.measure.records import Time
from workbench.problems.records import Problem

__all__ = ["JOB_MODULES", "GateSettings", "Known", "Listen", "Sitting", "Told", "judge"]

_LOOKED_ASIDE = 2
"""The lowest rung at which the interpreter runs programs of the full shape beside a GPU."""
_SANITIZED = 3
"""The lowest rung that includes compute-sanitizer."""
_FOUND = (
    *("time", "against", "reference", "limit", "speed", "versus_seed", "versus_reference"),
    *("traces", "samples"),
)
"""Fields of the profile stage's result that the report has under the same name."""
JOB_MODULES = (
    *health.JOB_MODULES,
    *correctness.JOB_MODULES,
    *full_shape.JOB_MODULES,
    *compiling.JOB_MODULES,
    *profile.JOB_MODULES,
    *timing.JOB_MODULES,
)
"""Modules to preload in a workshop's forkservers, so that workers start faster."""


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
    profiler: Profiler | None = None,
    listen: Listen = lambda told: None,  # noqa: ARG005 -- nobody listens
) -> GateReport:
    """Put a candidate through the whole gate.

    `facts` returns the result of `inspect_problem`; it is called once the policy has passed. With
    `parent` (on a GPU) or `parent_time` (modeled), the profile stage requires a gain over it.
    `timer` measures; without one the time is modeled. `profiler` reads the GPU's counters for a
    candidate that was timed and has passed everything. `listen` receives stages and progress.
    Never raises for what a candidate does; raises WorkbenchError when no worker can start.
    """
    sitting = Sitting(candidate, problem, facts, settings, workshop, listen)
    sitting.begin()
    return sitting.go_on(parent=parent, parent_time=parent_time, timer=timer, profiler=profiler)


class Known(Struct, frozen=True, kw_only=True):
    """What an earlier sitting found out about a candidate."""

    policy: StageReport | None = None
    """The answer of the policy, which is then not asked again."""
    reports: tuple[StageReport, ...] = ()
    """Reports of stages that have been asked."""
    compiled: Compiled | None = None


class Sitting:
    """The gate's work on one candidate: `begin` needs no GPU, `go_on` ends with the verdict.

    Any time may pass between the two, and each may run in another thread. An exception from
    `listen` ends the sitting, which is how a candidate is abandoned.
    """

    def __init__(
        self,
        candidate: Candidate,
        problem: Problem,
        facts: Callable[[], ProblemReport],
        settings: GateSettings,
        workshop: Workshop,
        listen: Listen,
        known: Known = Known(),  # noqa: B008 -- a frozen record
    ) -> None:
        """`known` holds the answers that are not asked for again."""
        self._policy_said = known.policy
        self._candidate = candidate
        self._problem = problem
        self._facts = facts
        self._settings = settings
        self._workshop = workshop
        self._listen = listen
        self._seed = settings.seed or os.urandom(SEED_BYTES)
        self._reports: list[StageReport] = list(known.reports)
        self.compiled: Compiled | None = known.compiled
        self._profiled: Profiled | None = None
        self._looked = FullLook()
        self._ncu: NcuRecord | None = None
        self._gpu = SharedGpu(settings.device_index, workshop, listen)
        self._alone_seconds = 0.0

    def begin(self) -> None:
        """Ask the policy and compile stages. Raises WorkbenchError as `judge` does."""
        self._ask(Stage.POLICY, self._policy)
        self._ask(Stage.COMPILE, self._compile)

    def again(self, settings: GateSettings, workshop: Workshop, listen: Listen) -> "Sitting":
        """A new sitting that goes on from here at another rung or on another GPU.

        It does not change this one. `settings` must have the same target.
        """
        return Sitting(
            self._candidate,
            self._problem,
            self._facts,
            settings,
            workshop,
            listen,
            Known(reports=tuple(self._reports), compiled=self.compiled),
        )

    def go_on(
        self,
        *,
        parent: Candidate | None = None,
        parent_time: Time | None = None,
        timer: Timer | None = None,
        profiler: Profiler | None = None,
    ) -> GateReport:
        """Ask the remaining stages and give the verdict; for the arguments see `judge`."""
        with Counting(self._candidate, self._seed, self._came, profiler) as counting:
            if self._settings.rung > 0:
                if parent is None:
                    # A seed's counters are read however slow it is, unless its answers are wrong.
                    self._get_ready(counting)
                self._ask(Stage.CORRECTNESS, self._correctness)
            asked = partial(self._profile, parent, parent_time, timer, counting)
            self._ask(Stage.PROFILE, asked)
        return self.report()

    def _get_ready(self, counting: Counting) -> None:
        if self.compiled and all(one.outcome is Outcome.PASSED for one in self._reports):
            counting.prepare(self.compiled.launches)

    def _came(self, done: int, total: int, says: str) -> None:
        self._listen(Told(Stage.PROFILE, done=done, total=total, says=says))

    def _ask(self, stage: Stage, question: Callable[[], StageReport]) -> None:
        """Ask one stage, unless earlier answers make it pointless.

        After a failure nothing is asked. After an unproven stage, correctness still is, since it
        may refuse; a time is only asked for if everything has passed.
        """
        outcomes = {report.outcome for report in self._reports}
        reason = ""
        if Outcome.FAILED in outcomes:
            reason = "an earlier stage failed"
        elif Outcome.UNPROVEN in outcomes and stage is Stage.PROFILE:
            reason = "an earlier stage is unproven"
        if reason:
            skipped = StageReport(stage=stage, outcome=Outcome.SKIPPED, says=reason)
            self._reports.append(skipped)
            return
        self._listen(Told(stage))
        report = self._gpu.guard(stage, question)
        self._reports.append(report)
        made = self.compiled if stage is Stage.COMPILE else None
        self._listen(Told(stage, report, code=made.recorded.code if made else ()))

    def _policy(self) -> StageReport:
        kinds = policy.input_kinds(self._problem.source)
        return self._policy_said or policy.check_bytes(self._candidate.content, kinds)

    def _compile(self) -> StageReport:
        """Compile for the target at the full shape."""
        self.compiled = compiling.run(
            self._candidate, self._facts().full, self._settings.target, self._workshop
        )
        if self.compiled.recorded.builds:
            self.compiled = compiling.with_builds(
                self.compiled,
                self._candidate,
                self._interpreted(),
                self._settings.target,
                self._workshop,
            )
        return self.compiled.report

    def _interpreted(self) -> list[ShapeReport]:
        """The shapes below the full one at which the interpreter runs."""
        facts, on_cpu = self._facts(), self._settings.device_index is None
        names = [one.shape for one in self._shapes()][: None if on_cpu else 1]
        return [facts.shape(name) for name in names if name != facts.full.shape]

    def _correctness(self) -> StageReport:
        """Compare with the reference at the shapes of the rung."""
        device = self._settings.device_index
        wanted = CorrectnessSettings(
            shapes=self._shapes(),
            seed=self._seed,
            device_index=device,
            target=self._settings.target,
            builds=self.compiled.recorded.builds if self.compiled else (),
        )

        def came_further(done: int, total: int, shape: str) -> None:
            says = f"{done} of {total} calls at {shape}"
            self._listen(Told(Stage.CORRECTNESS, done=done, total=total, says=says))

        def compared() -> StageReport:
            report = correctness.run(
                self._candidate, self._problem, wanted, self._workshop, came_further
            )
            if self._settings.rung < _SANITIZED or report.outcome is not Outcome.PASSED:
                return report
            self._listen(Told(Stage.CORRECTNESS, says="under compute-sanitizer"))
            return sanitized(
                report,
                self._candidate,
                self._problem,
                self.compiled.launches if self.compiled else (),
                seed=self._seed,
                target=self._settings.target,
                device_index=device,
            )

        report = self._gpu.share(Stage.CORRECTNESS, compared)
        if device is not None or report.outcome is Outcome.FAILED:
            return report
        return self._at_full(report)

    def _shapes(self) -> tuple[ShapeEffort, ...]:
        """The shapes at which outputs are compared with the reference, smallest first."""
        settings = self._settings
        return usual_shapes(
            self._problem,
            device_index=settings.device_index,
            rung=settings.rung,
            facts=self._facts(),
        )

    def _at_full(self, report: StageReport) -> StageReport:
        """The report extended by what a sample of programs shows at the full shape."""
        parts = Parts()
        recorded = (self.compiled or Compiled(report=report)).recorded
        setting = Setting.of(recorded, self._settings.target, self._seed)
        with parts.of("the full shape"):
            self._looked = full_shape.look(
                self._candidate, self._problem, self._facts(), setting, self._workshop
            )
        took = parts.told()
        return structs.replace(
            correctness.with_full(report, self._looked),
            seconds=report.seconds + sum(took.values()),
            parts={**report.parts, **took},
        )

    def _profile(
        self,
        parent: Candidate | None,
        parent_time: Time | None,
        timer: Timer | None,
        counting: Counting,
    ) -> StageReport:
        """Measure the candidate's time, or model it without a timer."""
        if timer is not None:
            self._profiled = self._measured(timer, parent, counting)
        else:
            facts = self._facts()
            if self._aside_compares and self.compiled:
                with self._aside(self.compiled) as aside:
                    self._doubt(aside.result())
                    self._looked = FullLook(traced=aside.result().traced)
            # On a GPU the full shape itself was compared, without one only the smallest.
            shown = 0 if self._settings.device_index is None else -1
            self._profiled = profile.run_modeled(
                self._candidate,
                self.compiled or Compiled(report=self._reports[-1]),
                (facts.shape(self._shapes()[shown].shape), facts.full),
                self._settings.target,
                self._workshop,
                parent=parent_time,
                threshold=self._settings.threshold,
                traced=self._looked.traced,
                seed=self._seed,
                seconds=self._settings.trace_seconds,
            )
            self._profiled = profile.doubted(
                self._profiled,
                self._problem.family,
                self._settings.target,
                self._settings.threshold,
            )
        return self._profiled.report

    def _measured(self, timer: Timer, parent: Candidate | None, counting: Counting) -> Profiled:
        """The timer's answer; an accepted kernel is also traced and profiled, for its facts.

        The interpreter looks at it meanwhile, which is dropped if the pairs refuse the candidate.
        """
        compiled = self.compiled
        with ExitStack() as stack:
            aside = None if compiled is None else stack.enter_context(self._aside(compiled))
            # A profiler may rule out a sandbox, so it only gets candidates that were proven right.
            if Stage.CORRECTNESS in {report.stage for report in self._reports}:
                self._get_ready(counting)
            profiled = timer(self._candidate, parent, seed=self._seed, listen=self._came)
            self._alone_seconds += profiled.gpu_seconds
            if profiled.report.outcome is not Outcome.PASSED or aside is None:
                return profiled
            profiled, self._ncu = looked_into(profiled, aside, counting)
            self._alone_seconds += self._ncu.seconds if self._ncu else 0.0
            self._doubt(aside.result())
            return profiled

    def _doubt(self, aside: Aside) -> None:
        """Add what was found aside to the comparison's report."""
        self._reports = [
            aside.on(report) if report.stage is Stage.CORRECTNESS else report
            for report in self._reports
        ]

    @property
    def _aside_compares(self) -> bool:
        """Whether the interpreter compares the full shape, too, beside a GPU."""
        return self._settings.device_index is not None and self._settings.rung >= _LOOKED_ASIDE

    def _aside(self, compiled: Compiled) -> Background[Aside]:
        """The full shape in the interpreter, looked at while the GPU times."""
        return looking_aside(
            self._candidate,
            self._problem,
            self._facts(),
            compiled,
            Setting.of(compiled.recorded, self._settings.target, self._seed),
            self._workshop,
            compared=self._aside_compares,
        )

    def report(self) -> GateReport:
        """The verdict on the stages asked so far, with everything that led to it."""
        verdict, last = verdict_of(self._reports)
        decisive = last.findings[0] if last.findings else None
        compiled, profiled = self.compiled, self._profiled
        told = {} if profiled is None else {name: getattr(profiled, name) for name in _FOUND}
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
            work=work_digest(compiled.launches, compiled.recorded.host) if compiled else "",
            launches=compiled.launches if compiled else (),
            gpu_seconds=self._gpu.seconds + self._alone_seconds,
            ncu=self._ncu,
            **told,
        )
