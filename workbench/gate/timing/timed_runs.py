"""Timing runs of one candidate on the GPU, and what they find out on the way."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.gate.candidate import Candidate
from workbench.gate.correctness.asking import opening
from workbench.gate.correctness.cases import derive
from workbench.gate.parts import Parts
from workbench.gate.profile import Listen
from workbench.gate.records import Blame, Evidence, Finding, Outcome
from workbench.gate.timing.paired_run import PairedRun
from workbench.gate.timing.report import contradicted, gpu_doubts
from workbench.gate.timing.roof import Roof
from workbench.gate.timing.settings import TimerSettings
from workbench.gate.timing.sides import Sides, SidesSpec
from workbench.gate.timing.timed_run import (
    FIRST_CALLS,
    OPENING,
    HoldGpu,
    OpenSides,
    TimedRun,
    gather,
    gpu_held,
    patient_until,
    prepared_sides,
)
from workbench.gate.timing.turns import CANDIDATE
from workbench.isolation.workshop import Workshop
from workbench.measure import pairs
from workbench.measure.floor import SHARE
from workbench.measure.gpuwatch import Watch
from workbench.measure.pairs import PairRule
from workbench.measure.records import Limit, PairSamples
from workbench.measure.rounds import affordable
from workbench.problems.records import Problem

PAIRS = "pairs"
"""The part of the stage's seconds in which pairs are gathered."""


class Stopped(Exception):
    """The stage's outcome is known before its pairs have decided."""

    def __init__(self, outcome: Outcome, finding: Finding) -> None:
        super().__init__(finding.says)
        self.outcome = outcome
        self.finding = finding


@dataclass(frozen=True, kw_only=True)
class Means:
    """What every run of a session is made with."""

    problem: Problem
    settings: TimerSettings
    workshop: Workshop
    roof: Roof
    hold: HoldGpu
    opened: OpenSides


class TimedRuns:
    """The runs that time one candidate; `seed` determines everything they draw."""

    def __init__(self, means: Means, seed: bytes, listen: Listen) -> None:
        self._means = means
        self._seed = seed
        self._listen = listen
        self._rule = means.settings.rule
        self.notes: list[Finding] = []
        """Findings that decide nothing, such as other work on the GPU."""
        self.samples: list[PairSamples] = []
        """What each run measured, unfinished runs included."""
        self.limit: Limit | None = None
        """The roofline, once a run has asked for it."""
        self._alone_seconds = 0.0
        self.parts = Parts()
        self.isolation = ""
        """What confined the candidate's worker."""

    @property
    def gpu_seconds(self) -> float:
        """How long the GPU was held: exclusively, and beside others while the sides were opened."""
        parts = self.parts.told()
        return self._alone_seconds + parts.get(OPENING, 0.0) + parts.get(FIRST_CALLS, 0.0)

    def run(
        self,
        name: str,
        rivals: Sequence[tuple[str, Candidate]],
        *,
        swapped: bool,
        eager: bool,
        rule: PairRule | None = None,
    ) -> TimedRun:
        """Start new workers, warm up, and gather pairs until they decide or the cap is reached.

        `rivals` take turns in that order, `eager` PyTorch after them; `swapped` turns the order of
        a pair round. Raises Stopped, SideFault, Noisy, GpuBusy.
        """
        seed = derive(self._seed, "profile", name).to_bytes(8, "big")
        spec = self._spec(rivals, seed, eager=eager)
        rival = rivals[0][0] if len(rivals) > 1 else ""
        means = self._means
        doors = (means.opened, means.workshop, means.hold, self._waits, self.parts)
        with prepared_sides(spec, *doors) as sides:
            self.isolation = sides.isolation
            with gpu_held(means.hold, self._waits, self.parts) as watch:
                began = time.monotonic()
                self._look_around(watch)
                run = self._paired(
                    sides, watch, rival, seed=derive(seed, "rounds"), swapped=swapped
                )
                try:
                    allowed = self._measure(run, rival, sides, rule or self._rule)
                    self._look_around(watch)
                    if run.under_cap:
                        self.note("profile.power-cap", run.under_cap)
                    seconds = time.monotonic() - began
                    with self.parts.of("the limit"):
                        self.limit = means.roof.limit()
                finally:
                    took = time.monotonic() - began
                    self._alone_seconds += took
                    self.samples.append(run.kept(name, took))
        return TimedRun(run=run, rule=allowed, rival=rival, seconds=seconds)

    def _spec(
        self, rivals: Sequence[tuple[str, Candidate]], seed: bytes, *, eager: bool
    ) -> SidesSpec:
        problem, settings = self._means.problem, self._means.settings
        lends = settings.device_index is not None
        return SidesSpec(
            problem=opening(problem, problem.full, derive(seed, "build"), lends=lends),
            candidates=tuple((side, one.source) for side, one in rivals),
            with_reference=eager,
            target=settings.target,
            seed=seed,
        )

    def _measure(self, run: PairedRun, rival: str, sides: Sides, rule: PairRule) -> PairRule:
        """Warm up and gather pairs; returns the rule with the cap that could be afforded."""
        with self.parts.of("warming up"):
            run.warm_up()
        # All is compiled and tuned: what starts a process from here on hides work in it.
        for says in sides.settle():
            self.note("profile.process-ended", says)
        allowed = affordable(rule, run.round_seconds)
        with self.parts.of(PAIRS):
            self._gather(run, rival, sides, allowed)
        return allowed

    def _paired(
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

    def _gather(self, run: PairedRun, rival: str, sides: Sides, rule: PairRule) -> None:
        """Gather pairs. Raises Stopped where clocks disagree or a time is below the roofline."""
        last = patient_until(rule, paired=bool(rival))
        names = (CANDIDATE, rival) if rival else (CANDIDATE,)

        def look(run: PairedRun) -> bool:
            sides.still()
            found = run.disagreements(names)
            for name, one in found.items():
                if one.hides or run.pairs >= last:
                    raise Stopped(*contradicted(name, one))
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
        """Raise Stopped for a time below what the work can take on this GPU."""
        least = self._means.roof.floor(sides.prepared)
        us = pairs.measured_time(run.samples[CANDIDATE], self._rule, "").microseconds
        if self._means.settings.device_index is None or us >= SHARE * least.us:
            return
        says = (
            f"{us:.1f} us is less than the work can take ({least.us:.1f} us for {least.says}): "
            "it is not done, or not within the call"
        )
        evidence: Evidence = {"microseconds": us, "floor": least.us}
        raise Stopped(
            Outcome.FAILED, Finding(code="profile.below-roofline", says=says, evidence=evidence)
        )

    def _look_around(self, watch: Watch) -> None:
        """Note which other processes compute on the GPU, and whether its clocks can be read."""
        for note in gpu_doubts(watch):
            self.add(note)

    def note(self, code: str, says: str) -> None:
        """Add a note that blames the machine."""
        self.add(Finding(code=code, says=says, blame=Blame.MACHINE))

    def add(self, note: Finding) -> None:
        """Add a note, once."""
        if note not in self.notes:
            self.notes.append(note)
