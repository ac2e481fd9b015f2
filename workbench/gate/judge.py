"""The gate: four stages in order, stopped at the first that fails, and one verdict."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from msgspec import Struct, structs

from workbench.gate import compile as compiling
from workbench.gate import health, profile
from workbench.gate.aside import Aside
from workbench.gate.candidate import Candidate
from workbench.gate.compile import Compiled
from workbench.gate.correctness import stage as correctness
from workbench.gate.correctness.cases import SEED_BYTES
from workbench.gate.correctness.full import stage as full_shape
from workbench.gate.correctness.full.stage import FullLook
from workbench.gate.correctness.stage import CorrectnessSettings, ShapeEffort, usual_shapes
from workbench.gate.counters import Profiler
from workbench.gate.counting import Counting, looked_into
from workbench.gate.parts import Parts
from workbench.gate.policy import check as policy
from workbench.gate.problem.records import ProblemReport
from workbench.gate.profile import Profiled, Timer, Traces
from workbench.gate.records import (
    Blame,
    Finding,
    GateReport,
    Outcome,
    Stage,
    StageReport,
    Verdict,
)
from workbench.gate.sanitizer.check import sanitized
from workbench.gate.settings import GateSettings, Listen, Told
from workbench.gate.timing import stage as timing
from workbench.gate.verdict import verdict_of
from workbench.isolation.workshop import Workshop
from workbench.kernels.work import work_digest
from workbench.measure.gpulock import GpuBusy, gpu_lock
from workbench.measure.gpuwatch import lock_name
from workbench.measure.ncu.records import NcuRecord
from workbench.measure.records import Time
from workbench.problems.records import Problem

__all__ = ["JOB_MODULES", "GateSettings", "Known", "Listen", "Sitting", "Told", "judge"]

_SANITIZED = 3
"""The rung from which compute-sanitizer is asked too."""
_ON_GPU = (Stage.CORRECTNESS, Stage.PROFILE)
_FOUND = (
    *("time", "against", "reference", "limit", "speed", "versus_seed", "versus_reference"),
    *("traces", "samples"),
)
"""What the profile stage found and the report keeps under the same name."""
JOB_MODULES = (
    *health.JOB_MODULES,
    *correctness.JOB_MODULES,
    *full_shape.JOB_MODULES,
    *compiling.JOB_MODULES,
    *profile.JOB_MODULES,
    *timing.JOB_MODULES,
)
"""Worth preloading in a workshop's forkservers."""


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
    """Everything the gate has to say about a candidate.

    `facts` gives what `inspect_problem` found; it is asked once the policy has passed. With
    `parent` (on a GPU) or `parent_time` (modeled) the profile stage asks for a gain over it.
    `timer` measures; without one the time is modeled. `profiler` reads the GPU's counters of a
    candidate that was timed and has passed everything. Never raises for what a candidate does;
    WorkbenchError when no worker can start.
    """
    sitting = Sitting(candidate, problem, facts, settings, workshop, listen)
    sitting.begin()
    return sitting.go_on(parent=parent, parent_time=parent_time, timer=timer, profiler=profiler)


class Known(Struct, frozen=True, kw_only=True):
    """What is known of a candidate before it is asked about."""

    policy: StageReport | None = None
    reports: tuple[StageReport, ...] = ()
    compiled: Compiled | None = None


class Sitting:
    """One candidate before the gate: `begin` needs no GPU, `go_on` ends with the verdict.

    Between the two any time may pass, and each may run in another thread. What `listen` raises
    ends the sitting: so a candidate is given up that nobody waits for any more.
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
        """`known` is what need not be asked again."""
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
        self._gpu_seconds = 0.0

    def begin(self) -> None:
        """Ask about policy and compile. Raises WorkbenchError as `judge` does."""
        self._ask(Stage.POLICY, self._policy)
        self._ask(Stage.COMPILE, self._compile)

    def again(self, settings: GateSettings, workshop: Workshop, listen: Listen) -> "Sitting":
        """The same candidate, as far as it was begun, to be asked on at another rung or on another
        GPU; nothing that is said there is known here. `settings` have the target of this one's."""
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
        """Ask the rest, as `judge` says, and give the verdict."""
        with Counting(self._candidate, self._seed, self._came, profiler) as counting:
            if self._settings.rung > 0:
                if parent is None:
                    # However long a seed takes it is looked into: only its answers are open.
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
        """Ask one stage, unless what was said before makes its answer worthless.

        After a failure nothing is asked. After an unproven stage correctness still is, since it
        may refuse; a time is asked only of a candidate with nothing against it.
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
        report = self._on_healthy_gpu(stage, question)
        self._reports.append(report)
        made = self.compiled if stage is Stage.COMPILE else None
        self._listen(Told(stage, report, code=made.recorded.code if made else ()))

    def _on_healthy_gpu(self, stage: Stage, question: Callable[[], StageReport]) -> StageReport:
        """The stage's answer, unless the GPU it runs on is sick, before or by it."""
        device = self._settings.device_index
        if device is None or stage not in _ON_GPU:
            return question()
        if (sick := health.taken_out(device)) is not None:
            return health.refusal(stage, sick)
        began = time.monotonic()
        report = question()
        if not health.troubled(report):
            return report

        def checked() -> StageReport:
            return health.examined(report, device, self._workshop, since=began)

        return self._beside_others(stage, device, checked)

    def _policy(self) -> StageReport:
        kinds = policy.input_kinds(self._problem.source)
        return self._policy_said or policy.check_bytes(self._candidate.content, kinds)

    def _compile(self) -> StageReport:
        """Compile for the target at the full shape."""
        self.compiled = compiling.run(
            self._candidate, self._facts().full, self._settings.target, self._workshop
        )
        return self.compiled.report

    def _correctness(self) -> StageReport:
        """Compare with the reference at the shapes of the rung."""
        device = self._settings.device_index
        wanted = CorrectnessSettings(
            shapes=self._shapes(),
            seed=self._seed,
            device_index=device,
            target=self._settings.target,
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

        if device is not None:
            return self._beside_others(Stage.CORRECTNESS, device, compared)
        report = compared()
        return report if report.outcome is Outcome.FAILED else self._at_full(report)

    def _shapes(self) -> tuple[ShapeEffort, ...]:
        """Where outputs are compared with the reference's, smallest first."""
        settings = self._settings
        return usual_shapes(
            self._problem,
            device_index=settings.device_index,
            rung=settings.rung,
            facts=self._facts(),
        )

    def _at_full(self, report: StageReport) -> StageReport:
        """The report with what a sample of programs shows at the full shape."""
        parts = Parts()
        recorded = (self.compiled or Compiled(report=report)).recorded
        setting = full_shape.Setting(
            target=self._settings.target, launches=recorded.launches, seed=self._seed
        )
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

    def _beside_others(
        self, stage: Stage, device: int, work: Callable[[], StageReport]
    ) -> StageReport:
        """Use the GPU together with others who check, but not while anybody times."""

        def waits() -> None:
            self._listen(Told(stage, total=1, says="waiting: a timing has the GPU"))

        try:
            with gpu_lock(lock_name(device), shared=True, waits=waits):
                began = time.monotonic()
                report = work()
        except GpuBusy as busy:
            finding = Finding(code=f"{stage}.gpu-busy", says=busy.what, blame=Blame.MACHINE)
            return StageReport(
                stage=stage,
                outcome=Outcome.UNPROVEN,
                says=finding.says,
                findings=(finding,),
            )
        self._gpu_seconds += time.monotonic() - began
        return report

    def _profile(
        self,
        parent: Candidate | None,
        parent_time: Time | None,
        timer: Timer | None,
        counting: Counting,
    ) -> StageReport:
        """Measure, or model."""
        if timer is not None:
            self._profiled = self._measured(timer, parent, counting)
        else:
            facts = self._facts()
            # A GPU compares at full size: what the interpreter never saw there was still shown.
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
            )
            self._profiled = profile.doubted(
                self._profiled, self._problem.family, self._settings.target
            )
        return self._profiled.report

    def _measured(self, timer: Timer, parent: Candidate | None, counting: Counting) -> Profiled:
        """The timer's answer; a kernel that will be worked on is looked into, for its facts.

        What that takes beside the GPU is begun while the pairs are gathered, and dropped where they
        refuse the candidate.
        """
        compiled = self.compiled
        with ExitStack() as stack:
            tracing = None if compiled is None else stack.enter_context(self._tracing(compiled))
            # A profiler may not allow a sandbox: only what was proven right comes there.
            if Stage.CORRECTNESS in {report.stage for report in self._reports}:
                self._get_ready(counting)
            profiled = timer(self._candidate, parent, seed=self._seed, listen=self._came)
            self._gpu_seconds += profiled.gpu_seconds
            if profiled.report.outcome is not Outcome.PASSED or tracing is None:
                return profiled
            profiled, self._ncu = looked_into(profiled, tracing, counting)
            self._gpu_seconds += self._ncu.seconds if self._ncu else 0.0
            return profiled

    def _tracing(self, compiled: Compiled) -> Aside[Traces]:
        """Its launches at the full shape, interpreted."""
        full, target = self._facts().full, self._settings.target
        return profile.tracing(self._candidate, compiled, full, target, self._workshop)

    def report(self) -> GateReport:
        """The verdict on what was asked so far, with everything that led to it."""
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
            gpu_seconds=self._gpu_seconds,
            ncu=self._ncu,
            **told,
        )
