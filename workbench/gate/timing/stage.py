"""How fast a candidate is on a GPU: paired with its parent, confirmed, beside eager PyTorch.

The judge's part of the profile stage where there is a GPU. Interleaved pairs in two runs decide
(`measure.pairs`); a gain counts only when a second run, in new workers and the other order, finds
it again, and the second run's numbers are the reported ones: nothing was chosen for them.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import structs

from workbench.gate.candidate import Candidate
from workbench.gate.correctness.asking import opening
from workbench.gate.correctness.cases import derive
from workbench.gate.correctness.protocol import OpenReference
from workbench.gate.parts import Parts
from workbench.gate.problem.records import ProblemReport
from workbench.gate.profile import Listen, Profiled
from workbench.gate.records import Blame, Evidence, Finding, Outcome
from workbench.gate.timing.paired_run import Noisy, PairedRun
from workbench.gate.timing.play import (
    HoldGpu,
    OpenSides,
    Played,
    gather,
    had,
    holding,
    patient_until,
    prepared,
)
from workbench.gate.timing.report import (
    around,
    blamed,
    contradicted,
    eager_words,
    ended,
    found_once,
    large,
    no_gain,
    time_words,
    timing_report,
    unfit,
)
from workbench.gate.timing.roof import Roof
from workbench.gate.timing.settings import TimerSettings
from workbench.gate.timing.sides import Sides, SidesSpec, open_sides
from workbench.gate.timing.turns import CANDIDATE, PARENT, REFERENCE, SEED, SideFault
from workbench.isolation.workshop import Workshop
from workbench.measure import ceilings, pairs
from workbench.measure.floor import SHARE
from workbench.measure.gpulock import GpuBusy
from workbench.measure.gpuwatch import Watch
from workbench.measure.pairs import Answer, PairRule
from workbench.measure.records import Limit, PairSamples, Speed
from workbench.measure.rounds import affordable
from workbench.problems.records import Problem

__all__ = ["JOB_MODULES", "GpuTimer", "TimerSettings", "holding"]

JOB_MODULES = (
    "workbench.gate.timing.empty_job:ahead",
    "workbench.gate.timing.stand_in_job",
    ceilings.JOB_MODULE,
)
"""Modules to preload, with what they import, in a workshop's forkservers."""

PAIRS = "pairs"
"""Name of their part of the stage's seconds."""
_ALONE_PAIRS, SEED_PAIRS = 60, 30
"""Pairs against eager, and against the seed, where nothing is decided (ours)."""


class GpuTimer:
    """The `Timer` of a session. `facts` gives what `inspect_problem` found.

    `seed_kernel` is the session's first kernel, which an accepted candidate is also timed against.
    `hold` and `opened` are doors for tests: how the GPU is had, and who takes turns on it.
    """

    def __init__(  # what is timed, where, and the two doors
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
        self.opened = opened
        self.hold = hold or partial(holding, settings.device_index or 0)
        self.roof = Roof(
            problem,
            facts,
            target=settings.target,
            device_index=settings.device_index,
            workshop=workshop,
        )

    def __call__(
        self, candidate: Candidate, parent: Candidate | None, *, seed: bytes, listen: Listen
    ) -> Profiled:
        """Time a candidate; with a parent, ask for a gain. Never raises for what a candidate does.

        Raises WorkbenchError when no worker starts or the GPU's lock file cannot be used.
        """
        began = time.monotonic()
        profiled = _Sitting(self, candidate, seed, listen).judged(parent)
        seconds = time.monotonic() - began
        return structs.replace(profiled, report=structs.replace(profiled.report, seconds=seconds))


class _Stop(Exception):
    """The stage is over before its pairs have decided."""

    def __init__(self, outcome: Outcome, finding: Finding) -> None:
        super().__init__(finding.says)
        self.outcome = outcome
        self.finding = finding


class _Sitting:
    """One candidate on the GPU."""

    def __init__(self, timer: GpuTimer, candidate: Candidate, seed: bytes, listen: Listen) -> None:
        self._timer = timer
        self._rule = timer.settings.rule
        self._candidate = candidate
        self._seed = seed
        self._listen = listen
        self._notes: list[Finding] = []
        self._samples: list[PairSamples] = []
        self._limit: Limit | None = None
        self._alone_seconds = 0.0
        self._parts = Parts()
        self._isolation = ""

    def judged(self, parent: Candidate | None) -> Profiled:
        """Everything that is to be said, whatever happens."""
        against = self._against if self._timer.settings.decides else self._beside
        try:
            profiled = self._alone() if parent is None else against(parent)
        except _Stop as stop:
            profiled = self._stopped(stop.outcome, stop.finding)
        except SideFault as fault:
            profiled = self._stopped(*blamed(fault))
        except (Noisy, GpuBusy) as met:
            profiled = self._stopped(Outcome.UNPROVEN, unfit(met))
        report = structs.replace(
            profiled.report,
            findings=(*profiled.report.findings, *self._notes),
            parts=self._parts.told(),
            **({"isolation": self._isolation} if self._isolation else {}),
        )
        return structs.replace(
            profiled,
            report=report,
            samples=tuple(self._samples),
            gpu_seconds=self._alone_seconds,
        )

    # -- the two questions ------------------------------------------------------------------

    def _alone(self) -> Profiled:
        """A seed: its time, beside eager PyTorch's."""
        count = min(_ALONE_PAIRS, self._rule.cap)
        rule = structs.replace(self._rule, first=count, cap=count)
        rivals = ((CANDIDATE, self._candidate),)
        played = self._play("alone", rivals, swapped=False, eager=True, rule=rule)
        profiled = self._timed(played)
        says = time_words(profiled.time, profiled.limit) + eager_words(profiled.versus_reference)
        return structs.replace(profiled, report=timing_report(Outcome.PASSED, says))

    def _beside(self, parent: Candidate) -> Profiled:
        """How fast it is beside another, where nothing hangs on that."""
        rule = structs.replace(self._rule, first=SEED_PAIRS, cap=SEED_PAIRS)
        rivals = ((PARENT, parent), (CANDIDATE, self._candidate))
        played = self._play("beside", rivals, swapped=False, eager=True, rule=rule)
        profiled = self._timed(played)
        told = "" if profiled.speed is None else f", {profiled.speed.in_full()} over its parent"
        says = f"{time_words(profiled.time, profiled.limit)}{told}, one run, nothing hangs on it"
        says += eager_words(profiled.versus_reference)
        return structs.replace(profiled, report=timing_report(Outcome.PASSED, says))

    def _against(self, parent: Candidate) -> Profiled:
        """A step: is it faster than what it was made from, twice?"""
        rivals = ((PARENT, parent), (CANDIDATE, self._candidate))
        found = self._timer.settings.found
        if found is None:
            first = self._play("first", rivals, swapped=False, eager=False)
            answer = pairs.answer(first.summary(over=PARENT), first.rule)
            if answer is not Answer.FASTER or not self._timer.settings.confirms:
                return self._once(first, answer)
            found = pairs.speed(first.summary(over=PARENT), first.rule, first.seconds)
        second = self._play("second", rivals, swapped=True, eager=True)
        # What a decision costs is what was spent until it was there.
        second = structs.replace(second, seconds=found.gpu_seconds + second.seconds)
        profiled, speed = self._stepped(second)
        answer = pairs.answer(second.summary(over=PARENT), second.rule)
        if (finding := no_gain(speed, answer, second.rule)) is not None:
            says = f"{finding.says} (at first {found.in_full()})"
            return ended(profiled, Outcome.FAILED, structs.replace(finding, says=says))
        says = f"{time_words(profiled.time, profiled.limit)}, {speed.in_full()} over its parent"
        return structs.replace(
            profiled,
            report=timing_report(Outcome.PASSED, says + eager_words(profiled.versus_reference)),
            versus_seed=self._versus_seed(parent, speed),
        )

    def _once(self, first: Played, answer: Answer) -> Profiled:
        """What one run says: no gain, or one that is still to be found again."""
        profiled, speed = self._stepped(first)
        if (finding := no_gain(speed, answer, first.rule)) is not None:
            return ended(profiled, Outcome.FAILED, finding)
        return ended(profiled, Outcome.UNPROVEN, found_once(speed))

    def _stepped(self, played: Played) -> tuple[Profiled, Speed]:
        profiled = self._timed(played)
        if profiled.speed is None:
            raise RuntimeError("a run with a parent has pairs")
        return profiled, profiled.speed

    def _versus_seed(self, parent: Candidate, speed: Speed) -> Speed | None:
        """How much faster than the session's seed; nothing hangs on it."""
        seed = self._timer.seed_kernel
        if seed is None:
            return None
        if seed.sha256 == parent.sha256:
            return speed
        rule = structs.replace(self._rule, first=SEED_PAIRS, cap=SEED_PAIRS)
        rivals = ((SEED, seed), (CANDIDATE, self._candidate))
        try:
            played = self._play("seed", rivals, swapped=False, eager=False, rule=rule)
        except (_Stop, SideFault, Noisy, GpuBusy) as fault:
            says = f"it was not timed against the seed: {fault}"
            self._note("profile.seed-not-timed", says)
            return None
        return pairs.speed(played.summary(over=SEED), played.rule, played.seconds)

    # -- a run ------------------------------------------------------------------------------

    def _play(
        self,
        name: str,
        rivals: Sequence[tuple[str, Candidate]],
        *,
        swapped: bool,
        eager: bool,
        rule: PairRule | None = None,
    ) -> Played:
        """New workers, warm-up, and pairs until they decide or there are enough."""
        seed = derive(self._seed, "profile", name).to_bytes(8, "big")
        spec = SidesSpec(
            problem=self._opening(seed),
            candidates=tuple((side, one.source) for side, one in rivals),
            with_reference=eager,
            target=self._timer.settings.target,
            seed=seed,
        )
        rival = rivals[0][0] if len(rivals) > 1 else ""
        timer, wanted = self._timer, rule or self._rule
        doors = (timer.opened, timer.workshop, timer.hold, self._waits, self._parts)
        with prepared(spec, *doors) as sides:
            self._isolation = sides.isolation
            with had(timer.hold, self._waits, self._parts) as watch:
                began = time.monotonic()
                self._look_around(watch)
                run = self._run(sides, watch, rival, seed=derive(seed, "rounds"), swapped=swapped)
                try:
                    with self._parts.of("warming up"):
                        run.warm_up()
                    allowed = affordable(wanted, run.round_seconds)
                    with self._parts.of(PAIRS):
                        self._pair_up(run, rival, sides, allowed)
                    self._look_around(watch)
                    if run.under_cap:
                        self._note("profile.power-cap", run.under_cap)
                    seconds = time.monotonic() - began
                    with self._parts.of("the limit"):
                        self._limit = timer.roof.limit()
                finally:
                    self._alone_seconds += time.monotonic() - began
                    self._samples.append(run.kept(name, time.monotonic() - began))
        return Played(run=run, rule=allowed, rival=rival, seconds=seconds)

    def _run(
        self, sides: Sides, watch: Watch, rival: str, *, seed: int, swapped: bool
    ) -> PairedRun:
        against = rival or ("eager PyTorch" if len(sides.sides) > 1 else "nothing")
        self._listen(0, self._rule.first, f"warming up against {against}")
        return PairedRun(
            sides.sides,
            sides.fresh,
            seed=seed,
            swapped=swapped,
            watch=watch,
            stand_in=sides.stand_in,
            told=lambda done, wanted: self._listen(
                done, wanted, f"{done} of {wanted} pairs against {against}"
            ),
        )

    def _waits(self) -> None:
        self._listen(0, self._rule.first, "waiting: another timing has the GPU")

    def _pair_up(self, run: PairedRun, rival: str, sides: Sides, rule: PairRule) -> None:
        """Pairs, look by look. Raises _Stop for clocks and times that cannot be."""
        last = patient_until(rule, paired=bool(rival))
        names = (CANDIDATE, rival) if rival else (CANDIDATE,)

        def look(run: PairedRun) -> bool:
            found = run.disagreements(names)
            for name, one in found.items():
                if one.hides or run.pairs >= last:
                    raise _Stop(*contradicted(name, one))
            self._check_floor(run, sides)
            return not found

        if rival:
            gather(run, rule, incumbent=rival, candidate=CANDIDATE, look=look)
            return
        run.extend(rule.first)
        if not look(run):
            run.extend(last)
            look(run)

    def _check_floor(self, run: PairedRun, sides: Sides) -> None:
        least = self._timer.roof.floor(sides.prepared)
        us = pairs.measured_time(run.samples[CANDIDATE], self._rule, "").microseconds
        if self._timer.settings.device_index is None or us >= SHARE * least.us:
            return
        says = (
            f"{us:.1f} us is less than the work can take ({least.us:.1f} us for {least.says}): "
            "it is not done, or not within the call"
        )
        evidence: Evidence = {"microseconds": us, "floor": least.us}
        raise _Stop(
            Outcome.FAILED, Finding(code="profile.below-roofline", says=says, evidence=evidence)
        )

    def _opening(self, seed: bytes) -> OpenReference:
        problem = self._timer.problem
        lends = self._timer.settings.device_index is not None
        return opening(problem, problem.full, derive(seed, "build"), lends=lends)

    # -- what is said -----------------------------------------------------------------------

    def _timed(self, played: Played) -> Profiled:
        """The numbers of a run; its report is still to be written."""
        samples, rule = played.run.samples, played.rule
        measured = partial(pairs.measured_time, rule=rule, device=self._timer.settings.device)
        reference = versus = speed = None
        if REFERENCE in samples:
            reference = measured(samples[REFERENCE])
            versus = pairs.speed(played.summary(over=REFERENCE), rule, played.seconds)
            if (flag := large(versus)) is not None:
                self._add(flag)
        if played.rival:
            speed = pairs.speed(played.summary(over=played.rival), rule, played.seconds)
        time_ = measured(samples[CANDIDATE])
        if says := self._timer.roof.raised_by(time_.microseconds, self._timer.problem.name):
            self._limit = self._timer.roof.limit()
            self._note("profile.ceiling-raised", says)
        if doubt := self._timer.roof.doubt:
            self._note("profile.no-ceilings", f"its limit is the datasheet's: {doubt}")
        return Profiled(
            report=timing_report(Outcome.UNPROVEN, ""),
            time=time_,
            against=measured(samples[played.rival]) if played.rival else None,
            speed=speed,
            versus_reference=versus,
            reference=reference,
            limit=self._limit,
        )

    def _look_around(self, watch: Watch) -> None:
        """Note who else computes on the GPU, and whether its clocks can be read."""
        for note in around(watch):
            self._add(note)

    def _note(self, code: str, says: str) -> None:
        self._add(Finding(code=code, says=says, blame=Blame.MACHINE))

    def _add(self, note: Finding) -> None:
        if note not in self._notes:
            self._notes.append(note)

    def _stopped(self, outcome: Outcome, finding: Finding) -> Profiled:
        evidence = {**finding.evidence, "seed": self._seed.hex()}
        finding = structs.replace(finding, evidence=evidence)
        return Profiled(report=timing_report(outcome, finding.says, [finding]))
