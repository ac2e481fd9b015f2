"""How fast a candidate is on a GPU: paired with its parent, confirmed, beside eager PyTorch.

The judge's part of the profile stage where there is a GPU. Interleaved pairs decide
(`measure.pairs`). A gain counts only when a second run finds it again, in new workers and with the
order of a pair reversed. The reported numbers are the second run's, which are free of selection
bias: the first run's were selected for being fast.
"""

import time
from collections.abc import Callable
from functools import partial

from msgspec import structs

from workbench.gate.candidate import Candidate
from workbench.gate.problem.records import ProblemReport
from workbench.gate.profile import Listen, Profiled
from workbench.gate.records import Finding, Outcome
from workbench.gate.timing.paired_run import Noisy
from workbench.gate.timing.report import (
    eager_words,
    found_once,
    gpu_unfit,
    large_speedup,
    no_gain,
    side_failed,
    time_words,
    timing_report,
    with_finding,
)
from workbench.gate.timing.roof import Roof
from workbench.gate.timing.settings import TimerSettings
from workbench.gate.timing.sides import open_sides
from workbench.gate.timing.timed_run import HoldGpu, OpenSides, TimedRun, holding
from workbench.gate.timing.timed_runs import PAIRS, Means, Stopped, TimedRuns
from workbench.gate.timing.turns import CANDIDATE, PARENT, REFERENCE, SEED, SideFault
from workbench.isolation.workshop import Workshop
from workbench.measure import ceilings, pairs
from workbench.measure.gpulock import GpuBusy
from workbench.measure.pairs import Answer
from workbench.measure.records import Speed
from workbench.problems.records import Problem

__all__ = ["JOB_MODULES", "PAIRS", "GpuTimer", "TimerSettings", "holding"]

JOB_MODULES = (
    "workbench.gate.timing.empty_job:ahead",
    "workbench.gate.timing.stand_in_job",
    ceilings.JOB_MODULE,
)
"""Modules to preload, with what they import, in a workshop's forkservers."""

_ALONE_PAIRS, SEED_PAIRS = 60, 30
"""Pairs against eager, and against the seed, where nothing is decided (ours)."""


class GpuTimer:
    """The `Timer` of a session. `facts` gives what `inspect_problem` found.

    `seed_kernel` is the session's first kernel, which an accepted candidate is also timed against.
    Tests without a GPU replace `hold`, which locks it, and `opened`, which starts the workers.
    """

    def __init__(  # what is timed, where, and what a test replaces
        self,
        problem: Problem,
        facts: Callable[[], ProblemReport],
        settings: TimerSettings,
        workshop: Workshop,
        *,
        seed_kernel: Candidate | None = None,
        hold: HoldGpu | None = None,
        opened: OpenSides = open_sides,
    ) -> None:
        self.problem = problem
        self.facts = facts
        self.settings = settings
        self.workshop = workshop
        self.seed_kernel = seed_kernel
        self.hold = hold or partial(holding, settings.device_index or 0)
        self.means = Means(
            problem=problem,
            settings=settings,
            workshop=workshop,
            roof=Roof(
                problem,
                facts,
                target=settings.target,
                device_index=settings.device_index,
                workshop=workshop,
            ),
            hold=self.hold,
            opened=opened,
        )

    def __call__(
        self, candidate: Candidate, parent: Candidate | None, *, seed: bytes, listen: Listen
    ) -> Profiled:
        """Time a candidate; with a parent, ask for a gain. Never raises for what a candidate does.

        Raises WorkbenchError when no worker starts or the GPU's lock file cannot be used.
        """
        began = time.monotonic()
        profiled = _Question(self, candidate, seed, listen).judged(parent)
        seconds = time.monotonic() - began
        return structs.replace(profiled, report=structs.replace(profiled.report, seconds=seconds))


class _Question:
    """How fast one candidate is: alone, beside another kernel, or against its parent."""

    def __init__(self, timer: GpuTimer, candidate: Candidate, seed: bytes, listen: Listen) -> None:
        self._timer = timer
        self._rule = timer.settings.rule
        self._candidate = candidate
        self._seed = seed
        self._runs = TimedRuns(timer.means, seed, listen)

    def judged(self, parent: Candidate | None) -> Profiled:
        """The stage's answer, also where a run could not be finished."""
        against = self._against if self._timer.settings.decides else self._beside
        try:
            profiled = self._alone() if parent is None else against(parent)
        except Stopped as stop:
            profiled = self._stopped(stop.outcome, stop.finding)
        except SideFault as fault:
            profiled = self._stopped(*side_failed(fault))
        except (Noisy, GpuBusy) as met:
            profiled = self._stopped(Outcome.UNPROVEN, gpu_unfit(met))
        report = structs.replace(
            profiled.report,
            findings=(*profiled.report.findings, *self._runs.notes),
            parts=self._runs.parts.told(),
            **({"isolation": self._runs.isolation} if self._runs.isolation else {}),
        )
        return structs.replace(
            profiled,
            report=report,
            samples=tuple(self._runs.samples),
            gpu_seconds=self._runs.gpu_seconds,
        )

    # -- the two questions ------------------------------------------------------------------

    def _alone(self) -> Profiled:
        """Time a seed, beside eager PyTorch."""
        count = min(_ALONE_PAIRS, self._rule.cap)
        rule = structs.replace(self._rule, first=count, cap=count)
        rivals = ((CANDIDATE, self._candidate),)
        played = self._runs.run("alone", rivals, swapped=False, eager=True, rule=rule)
        profiled = self._timed(played)
        says = time_words(profiled.time, profiled.limit) + eager_words(profiled.versus_reference)
        return structs.replace(profiled, report=timing_report(Outcome.PASSED, says))

    def _beside(self, parent: Candidate) -> Profiled:
        """How fast it is beside another kernel, where no decision depends on it."""
        rule = structs.replace(self._rule, first=SEED_PAIRS, cap=SEED_PAIRS)
        rivals = ((PARENT, parent), (CANDIDATE, self._candidate))
        played = self._runs.run("beside", rivals, swapped=False, eager=True, rule=rule)
        profiled = self._timed(played)
        told = "" if profiled.speed is None else f", {profiled.speed.in_full()} over its parent"
        says = (
            f"{time_words(profiled.time, profiled.limit)}{told}, one run, no decision depends on it"
        )
        says += eager_words(profiled.versus_reference)
        return structs.replace(profiled, report=timing_report(Outcome.PASSED, says))

    def _against(self, parent: Candidate) -> Profiled:
        """Ask of a step whether it is faster than its parent, twice."""
        rivals = ((PARENT, parent), (CANDIDATE, self._candidate))
        found = self._timer.settings.found
        if found is None:
            first = self._runs.run("first", rivals, swapped=False, eager=False)
            answer = pairs.answer(first.summary(over=PARENT), first.rule)
            if answer is not Answer.FASTER or not self._timer.settings.confirms:
                return self._once(first, answer)
            found = pairs.speed(first.summary(over=PARENT), first.rule, first.seconds)
        second = self._runs.run("second", rivals, swapped=True, eager=True)
        # A decision costs the GPU-seconds of both runs.
        second = structs.replace(second, seconds=found.gpu_seconds + second.seconds)
        profiled, speed = self._stepped(second)
        answer = pairs.answer(second.summary(over=PARENT), second.rule)
        if (finding := no_gain(speed, answer, second.rule)) is not None:
            says = f"{finding.says} (at first {found.in_full()})"
            return with_finding(profiled, Outcome.FAILED, structs.replace(finding, says=says))
        says = f"{time_words(profiled.time, profiled.limit)}, {speed.in_full()} over its parent"
        return structs.replace(
            profiled,
            report=timing_report(Outcome.PASSED, says + eager_words(profiled.versus_reference)),
            versus_seed=self._versus_seed(parent, speed),
        )

    def _once(self, first: TimedRun, answer: Answer) -> Profiled:
        """The answer of a single run: no gain, or a gain that is not confirmed."""
        profiled, speed = self._stepped(first)
        if (finding := no_gain(speed, answer, first.rule)) is not None:
            return with_finding(profiled, Outcome.FAILED, finding)
        return with_finding(profiled, Outcome.UNPROVEN, found_once(speed))

    def _stepped(self, played: TimedRun) -> tuple[Profiled, Speed]:
        profiled = self._timed(played)
        if profiled.speed is None:
            raise RuntimeError("a run with a parent has pairs")
        return profiled, profiled.speed

    def _versus_seed(self, parent: Candidate, speed: Speed) -> Speed | None:
        """The speedup over the session's seed; reported, never decided on."""
        seed = self._timer.seed_kernel
        if seed is None:
            return None
        if seed.sha256 == parent.sha256:
            return speed
        rule = structs.replace(self._rule, first=SEED_PAIRS, cap=SEED_PAIRS)
        rivals = ((SEED, seed), (CANDIDATE, self._candidate))
        try:
            played = self._runs.run("seed", rivals, swapped=False, eager=False, rule=rule)
        except (Stopped, SideFault, Noisy, GpuBusy) as fault:
            says = f"it was not timed against the seed: {fault}"
            self._runs.note("profile.seed-not-timed", says)
            return None
        return pairs.speed(played.summary(over=SEED), played.rule, played.seconds)

    # -- a run ------------------------------------------------------------------------------

    # -- what is said -----------------------------------------------------------------------

    def _timed(self, played: TimedRun) -> Profiled:
        """The numbers of a run, without a report."""
        samples, rule = played.run.samples, played.rule
        measured = partial(pairs.measured_time, rule=rule, device=self._timer.settings.device)
        reference = versus = speed = None
        if REFERENCE in samples:
            reference = measured(samples[REFERENCE])
            versus = pairs.speed(played.summary(over=REFERENCE), rule, played.seconds)
            if (flag := large_speedup(versus)) is not None:
                self._runs.add(flag)
        if played.rival:
            speed = pairs.speed(played.summary(over=played.rival), rule, played.seconds)
        time_ = measured(samples[CANDIDATE])
        if says := self._timer.means.roof.raised_by(time_.microseconds, self._timer.problem.name):
            self._runs.limit = self._timer.means.roof.limit()
            self._runs.note("profile.ceiling-raised", says)
        if doubt := self._timer.means.roof.doubt:
            self._runs.note("profile.no-ceilings", f"its limit is the datasheet's: {doubt}")
        return Profiled(
            report=timing_report(Outcome.UNPROVEN, ""),
            time=time_,
            against=measured(samples[played.rival]) if played.rival else None,
            speed=speed,
            versus_reference=versus,
            reference=reference,
            limit=self._runs.limit,
        )

    def _stopped(self, outcome: Outcome, finding: Finding) -> Profiled:
        evidence = {**finding.evidence, "seed": self._seed.hex()}
        finding = structs.replace(finding, evidence=evidence)
        return Profiled(report=timing_report(outcome, finding.says, [finding]))
