"""How fast a candidate is on a GPU: paired with its parent, confirmed, beside eager PyTorch.

The judge's part of the profile stage where there is a GPU. Interleaved pairs in two runs decide
(`measure.pairs`); a gain counts only when a second run, in new workers and the other order, finds
it again, and the second run's numbers are the reported ones: nothing was chosen for them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from msgspec import Struct, structs

from workbench.gate.candidate import Candidate
from workbench.gate.correctness.cases import derive
from workbench.gate.correctness.protocol import OpenReference
from workbench.gate.problem.records import ProblemReport
from workbench.gate.profile import Listen, Profiled, not_faster
from workbench.gate.records import Blame, Evidence, Finding, Outcome
from workbench.gate.timing.paired_run import Noisy, PairedRun
from workbench.gate.timing.report import blamed, eager_words, time_words, timing_report
from workbench.gate.timing.roof import Roof
from workbench.gate.timing.sides import (
    CANDIDATE,
    PARENT,
    REFERENCE,
    SEED,
    Sides,
    SidesSpec,
    open_sides,
)
from workbench.gate.timing.turns import SideFault
from workbench.isolation.workshop import Workshop
from workbench.measure import ceilings, pairs
from workbench.measure.floor import SHARE
from workbench.measure.gpulock import GpuBusy, gpu_lock
from workbench.measure.gpuwatch import Watch, lock_name, watching
from workbench.measure.pairs import Answer, PairRule, PairSummary, next_look
from workbench.measure.records import PairSamples, Speed
from workbench.measure.rounds import affordable
from workbench.problems.records import Problem

JOB_MODULES = (
    "workbench.gate.timing.ring_job",
    "workbench.gate.correctness.candidate_job",
    ceilings.JOB_MODULE,
)
"""Worth preloading in a workshop's forkservers."""

LARGE_SPEEDUP = 10.0
"""Over eager PyTorch: deserves a person's look, and is never refused (gate protocol, 9.6)."""
_SEED_PAIRS = 30
"""Against the seed, where nothing is decided (ours)."""

OpenSides = Callable[[SidesSpec, Workshop], AbstractContextManager[Sides]]
HoldGpu = Callable[[Callable[[], None]], AbstractContextManager[Watch]]
"""`hold(waits)`: have the GPU for oneself; `waits` is called if others have it first."""


class TimerSettings(Struct, frozen=True, kw_only=True):
    """Where and how strictly is measured."""

    target: str
    """`sm90`."""
    device: str
    """Name of the GPU."""
    device_index: int | None
    """None rehearses the protocol on the CPU: its times mean nothing."""
    rule: PairRule = PairRule()


@contextmanager
def holding(device_index: int, waits: Callable[[], None]) -> Iterator[Watch]:
    """The GPU's lock and a watch on it. Raises GpuBusy, or WorkbenchError for a bad lock file."""
    name = lock_name(device_index)
    with gpu_lock(name, waits=waits), watching(name) as watch:
        yield watch


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
        self._hold = hold or partial(holding, settings.device_index or 0)
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

        def waits() -> None:
            listen(0, self.settings.rule.first, "waiting: another timing has the GPU")

        try:
            with self._hold(waits) as watch:
                sitting = _Sitting(self, candidate, seed, watch, listen)
                profiled = sitting.judged(parent)
        except GpuBusy as busy:
            finding = Finding(code="profile.gpu-busy", says=busy.what, blame=Blame.MACHINE)
            profiled = Profiled(report=timing_report(Outcome.UNPROVEN, finding.says, [finding]))
        seconds = time.monotonic() - began
        return structs.replace(profiled, report=structs.replace(profiled.report, seconds=seconds))


class _Stop(Exception):
    """The stage is over before its pairs have decided."""

    def __init__(self, outcome: Outcome, finding: Finding) -> None:
        super().__init__(finding.says)
        self.outcome = outcome
        self.finding = finding


class _Played(Struct, frozen=True, kw_only=True):
    """One run that came to its end."""

    run: PairedRun
    rival: str
    """Name of the side that the candidate was paired with; empty when it was alone."""
    seconds: float

    def summary(self, rule: PairRule, *, over: str) -> PairSummary:
        """The pairs of the candidate with another side."""
        samples = self.run.samples
        return pairs.summarize(samples[over], samples[CANDIDATE], rule)


class _Sitting:
    """One candidate on the GPU."""

    def __init__(
        self, timer: GpuTimer, candidate: Candidate, seed: bytes, watch: Watch, listen: Listen
    ) -> None:
        self._timer = timer
        self._rule = timer.settings.rule
        self._candidate = candidate
        self._seed = seed
        self._watch = watch
        self._listen = listen
        self._began = time.monotonic()
        self._notes: list[Finding] = []
        self._samples: list[PairSamples] = []
        self._isolation = ""

    def judged(self, parent: Candidate | None) -> Profiled:
        """Everything that is to be said, whatever happens."""
        self._look_around()
        try:
            profiled = self._alone() if parent is None else self._against(parent)
        except _Stop as stop:
            profiled = self._stopped(stop.outcome, stop.finding)
        except SideFault as fault:
            profiled = self._stopped(*blamed(fault))
        except Noisy as noise:
            finding = Finding(code="profile.noisy", says=str(noise), blame=Blame.MACHINE)
            profiled = self._stopped(Outcome.UNPROVEN, finding)
        self._look_around()
        report = structs.replace(
            profiled.report,
            findings=(*profiled.report.findings, *self._notes),
            **({"isolation": self._isolation} if self._isolation else {}),
        )
        return structs.replace(
            profiled,
            report=report,
            samples=tuple(self._samples),
            gpu_seconds=time.monotonic() - self._began,
        )

    # -- the two questions ------------------------------------------------------------------

    def _alone(self) -> Profiled:
        """A seed: its time, beside eager PyTorch's."""
        played = self._play("alone", ((CANDIDATE, self._candidate),), swapped=False, eager=True)
        profiled = self._timed(played)
        says = time_words(profiled.time, profiled.limit) + eager_words(profiled.versus_reference)
        return structs.replace(profiled, report=timing_report(Outcome.PASSED, says))

    def _against(self, parent: Candidate) -> Profiled:
        """A step: is it faster than what it was made from, twice?"""
        rivals = ((PARENT, parent), (CANDIDATE, self._candidate))
        first = played = self._play("first", rivals, swapped=False, eager=False)
        before = first.summary(self._rule, over=PARENT)
        if pairs.answer(before, self._rule) is Answer.FASTER:
            played = self._play("second", rivals, swapped=True, eager=True)
        profiled = self._timed(played)
        speed = profiled.speed
        if speed is None:
            raise RuntimeError("a run with a parent has pairs")
        finding = not_faster(speed, self._rule.threshold)
        if finding is not None:
            if played is not first:
                said = pairs.speed(before, self._rule, first.seconds).says()
                finding = structs.replace(finding, says=f"{finding.says} (at first {said})")
            report = timing_report(Outcome.FAILED, finding.says, [finding])
            return structs.replace(profiled, report=report)
        says = f"{time_words(profiled.time, profiled.limit)}, {speed.says()} over its parent"
        return structs.replace(
            profiled,
            report=timing_report(Outcome.PASSED, says + eager_words(profiled.versus_reference)),
            versus_seed=self._versus_seed(parent, speed),
        )

    def _versus_seed(self, parent: Candidate, speed: Speed) -> Speed | None:
        """How much faster than the session's seed; nothing hangs on it."""
        seed = self._timer.seed_kernel
        if seed is None:
            return None
        if seed.sha256 == parent.sha256:
            return speed
        rule = structs.replace(self._rule, first=_SEED_PAIRS, cap=_SEED_PAIRS)
        rivals = ((SEED, seed), (CANDIDATE, self._candidate))
        try:
            played = self._play("seed", rivals, swapped=False, eager=False, rule=rule)
        except (_Stop, SideFault, Noisy) as fault:
            says = f"it was not timed against the seed: {fault}"
            self._note("profile.seed-not-timed", says)
            return None
        return pairs.speed(played.summary(rule, over=SEED), rule, played.seconds)

    # -- a run ------------------------------------------------------------------------------

    def _play(
        self,
        name: str,
        rivals: Sequence[tuple[str, Candidate]],
        *,
        swapped: bool,
        eager: bool,
        rule: PairRule | None = None,
    ) -> _Played:
        """New workers, warm-up, and pairs until they decide or there are enough."""
        began = time.monotonic()
        seed = derive(self._seed, "profile", name).to_bytes(8, "big")
        spec = SidesSpec(
            problem=self._opening(seed),
            candidates=tuple((side, one.source) for side, one in rivals),
            with_reference=eager,
            target=self._timer.settings.target,
            seed=seed,
        )
        rival = rivals[0][0] if len(rivals) > 1 else ""
        against = rival or ("eager PyTorch" if eager else "nothing")
        with self._timer.opened(spec, self._timer.workshop) as sides:
            self._isolation = sides.isolation
            run = PairedRun(
                sides.sides,
                sides.fresh,
                seed=derive(seed, "rounds"),
                swapped=swapped,
                watch=self._watch,
                told=lambda done, wanted: self._listen(
                    done, wanted, f"{done} of {wanted} pairs against {against}"
                ),
            )
            played = _Played(run=run, rival=rival, seconds=0.0)
            try:
                self._listen(0, self._rule.first, f"warming up against {against}")
                run.warm_up()
                self._pair_up(played, sides, affordable(rule or self._rule, run.round_seconds))
            finally:
                self._keep(name, run)
        return structs.replace(played, seconds=time.monotonic() - began)

    def _pair_up(self, played: _Played, sides: Sides, rule: PairRule) -> None:
        """Pairs, look by look. Raises _Stop for clocks and times that cannot be."""
        run, look = played.run, next_look(0, rule)
        while look is not None:
            run.extend(look)
            self._check_clocks(run, [CANDIDATE, played.rival] if played.rival else [CANDIDATE])
            self._check_floor(run, sides)
            if not played.rival:
                return
            if pairs.answer(played.summary(rule, over=played.rival), rule) is not Answer.UNDECIDED:
                return
            look = next_look(look, rule)

    def _check_clocks(self, run: PairedRun, names: Sequence[str]) -> None:
        for name in names:
            if why := run.disagreement(name):
                says = f"the {name}'s clocks disagree: {why}"
                finding = Finding(code="profile.clocks-disagree", says=says, blame=Blame.MACHINE)
                raise _Stop(Outcome.UNPROVEN, finding)

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
        return OpenReference(
            source=problem.source,
            values=problem.full.values,
            build_seed=derive(seed, "build"),
            precision=problem.precision,
            tolerance=problem.tolerance,
            selections=problem.selections,
            lends=self._timer.settings.device_index is not None,
        )

    # -- what is said -----------------------------------------------------------------------

    def _timed(self, played: _Played) -> Profiled:
        """The numbers of a run; its report is still to be written."""
        samples, rule = played.run.samples, self._rule
        measured = partial(pairs.measured_time, rule=rule, device=self._timer.settings.device)
        reference = versus = speed = None
        if REFERENCE in samples:
            reference = measured(samples[REFERENCE])
            eager = played.summary(rule, over=REFERENCE)
            versus = pairs.speed(eager, rule, played.seconds)
            self._flag(versus)
        if played.rival:
            speed = pairs.speed(played.summary(rule, over=played.rival), rule, played.seconds)
        limit = self._timer.roof.limit()
        if doubt := self._timer.roof.doubt:
            self._note("profile.no-ceilings", f"its limit is the datasheet's: {doubt}")
        return Profiled(
            report=timing_report(Outcome.UNPROVEN, ""),
            time=measured(samples[CANDIDATE]),
            against=measured(samples[played.rival]) if played.rival else None,
            speed=speed,
            versus_reference=versus,
            reference=reference,
            limit=limit,
        )

    def _flag(self, versus: Speed) -> None:
        if versus.ratio > LARGE_SPEEDUP:
            says = f"{versus.ratio:.1f}x over eager PyTorch deserves a look"
            self._note("profile.large-speedup", says, blame=Blame.CANDIDATE)

    def _look_around(self) -> None:
        """Note who else computes on the GPU, and whether its clocks can be read."""
        for stranger in self._watch.strangers():
            self._note("profile.gpu-shared", f"{stranger} computes on this GPU too")
        if self._watch.state().sm_clock_mhz is None:
            self._note("profile.clocks-unread", "NVML does not tell the GPU's clocks")

    def _note(self, code: str, says: str, blame: Blame = Blame.MACHINE) -> None:
        note = Finding(code=code, says=says, blame=blame)
        if note not in self._notes:
            self._notes.append(note)

    def _keep(self, name: str, run: PairedRun) -> None:
        self._samples.append(
            PairSamples(
                run=name,
                us={side: tuple(round(x, 3) for x in us) for side, us in run.samples.items()},
                dropped=run.dropped,
                checked=sum(run.checked.values()),
            )
        )

    def _stopped(self, outcome: Outcome, finding: Finding) -> Profiled:
        evidence = {**finding.evidence, "seed": self._seed.hex()}
        finding = structs.replace(finding, evidence=evidence)
        return Profiled(report=timing_report(outcome, finding.says, [finding]))
