"""Judges candidates of cards in two parts: what can run in parallel, and the pairs that cannot."""

import os
import threading
from functools import partial
from types import TracebackType
from typing import Self

from msgspec import Struct, structs

from workbench.bench.card_choice import Base, Wanted
from workbench.bench.card_room import needed, room_on
from workbench.bench.card_states import State
from workbench.bench.card_trials import Trial
from workbench.engine.devices import Place
from workbench.engine.measuring import flavors, timer_of
from workbench.errors import WorkbenchError
from workbench.gate import compile as compiling
from workbench.gate import profile
from workbench.gate.candidate import Candidate, candidate_of
from workbench.gate.correctness.cases import SEED_BYTES
from workbench.gate.judge import JOB_MODULES, GateSettings, Sitting
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ProblemReport
from workbench.gate.profile import Listen, Profiled
from workbench.gate.records import Blame, Finding, GateReport, Outcome, Stage, StageReport, Verdict
from workbench.isolation.workshop import Workshop
from workbench.kernels.target import target as known_target
from workbench.measure.model import CannotModel, modeled_time
from workbench.measure.records import Time
from workbench.problems.records import Problem

_WAITS = "profile.waits"


class Judged(Struct, frozen=True, kw_only=True):
    """A candidate with everything that was found without timing it."""

    wanted: Wanted
    trial: Trial
    waits: bool
    """Whether only its pairs are missing."""
    seed: bytes = b""


class Judge:
    """One workshop for many candidates of many problems. A thread-safe context manager."""

    def __init__(self, place: Place) -> None:
        self._place = place
        # One seed for a base and all that is made from it: their modeled times are compared.
        self._seed = os.urandom(SEED_BYTES)
        self._settings = GateSettings(
            target=place.target, device=place.device, device_index=place.index, seed=self._seed
        )
        self._workshop = Workshop(
            device_index=place.index,
            preload=JOB_MODULES,
            share_device_memory=place.index is not None,
        )
        self._room = room_on(place.index)
        self._lock = threading.Lock()
        self._inspecting: dict[str, threading.Lock] = {}
        self._facts: dict[str, ProblemReport] = {}

    def __enter__(self) -> Self:
        self._workshop.__enter__()
        self._workshop.warm(*flavors(self._place.index))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._workshop.__exit__(kind, fault, trace)

    def facts(self, problem: Problem) -> ProblemReport:
        """The problem's report, made once."""
        with self._lock:
            own = self._inspecting.setdefault(problem.name, threading.Lock())
        with own:
            if problem.name not in self._facts:
                self._facts[problem.name] = inspect_problem(problem, self._workshop)
            return self._facts[problem.name]

    def base(self, problem: Problem, state: State) -> Base | None:
        """A state recorded and traced at the full shape; None where it does not compile."""
        full = self.facts(problem).full
        candidate, target = candidate_of(state.source), self._place.target
        compiled = compiling.run(candidate, full, target, self._workshop)
        if compiled.report.outcome is not Outcome.PASSED:
            return None
        traces = profile.launches_of(
            profile.traced_at(candidate, compiled, full, target, self._workshop, seed=self._seed)
        )
        time: Time | None = None
        try:
            host = compiled.recorded.host
            where = known_target(target)
            time = modeled_time(compiled.launches, traces, where, full.work, host)
        except CannotModel:
            pass
        return Base(
            problem=problem,
            state=state,
            launches=compiled.launches,
            traces=traces,
            time=time,
            floor=full.work,
        )

    def proven(self, wanted: Wanted) -> Judged:
        """Everything but the pairs; without a GPU the modeled time too.

        A fault of the machine is reported as unproven, so that it does not end other trials.
        """
        try:
            return self._proven(wanted)
        except WorkbenchError as fault:
            return Judged(wanted=wanted, trial=_unjudged(wanted.trial, fault), waits=False)

    def _proven(self, wanted: Wanted) -> Judged:
        sitting = Sitting(
            candidate_of(wanted.trial.source),
            wanted.problem,
            partial(self.facts, wanted.problem),
            self._settings,
            self._workshop,
            listen=lambda _: None,
        )
        sitting.begin()
        with self._room.taken(needed(self.facts(wanted.problem).full)):
            report = sitting.go_on(
                parent=candidate_of(wanted.trial.parent),
                parent_time=wanted.parent_time,
                timer=None if self._place.index is None else _later,
            )
        waits = report.code == _WAITS
        return Judged(
            wanted=wanted,
            trial=self._told(wanted.trial, report),
            waits=waits,
            seed=bytes.fromhex(report.replay_seed),
        )

    def timed(self, judged: Judged) -> Trial:
        """The pairs of a correct candidate with its parent, with the GPU held exclusively."""
        try:
            return self._timed(judged)
        except WorkbenchError as fault:
            return _unjudged(judged.trial, fault)

    def _timed(self, judged: Judged) -> Trial:
        trial, problem = judged.trial, judged.wanted.problem
        facts = partial(self.facts, problem)
        timer = timer_of(problem, facts, self._settings, self._workshop)
        if timer is None:
            return trial
        candidate, parent = candidate_of(trial.source), candidate_of(trial.parent)
        with self._room.taken(needed(facts().full)):
            found = timer(candidate, parent, seed=judged.seed, listen=lambda *_: None)
        report = found.report
        first = report.findings[0] if report.findings else None
        verdict = {Outcome.PASSED: Verdict.ACCEPTED, Outcome.FAILED: Verdict.REJECTED}
        return structs.replace(
            trial,
            verdict=verdict.get(report.outcome, Verdict.UNPROVEN),
            code="" if first is None or report.outcome is Outcome.PASSED else first.code,
            says=report.says,
            before=found.against,
            after=found.time,
            speed=found.speed,
        )

    def _told(self, trial: Trial, report: GateReport) -> Trial:
        return structs.replace(
            trial,
            target=self._place.target,
            device=self._place.device,
            verdict=report.verdict,
            code=report.code,
            says=report.says,
            before=report.against,
            after=report.time,
            speed=report.speed,
            sha256=report.kernel_sha256,
        )


def _unjudged(trial: Trial, fault: WorkbenchError) -> Trial:
    return structs.replace(trial, verdict=Verdict.UNPROVEN, code="machine", says=fault.what)


def _later(
    candidate: Candidate,  # noqa: ARG001 -- the timer's form
    parent: Candidate | None,  # noqa: ARG001 -- a timer's signature
    *,
    seed: bytes,  # noqa: ARG001 -- a timer's signature
    listen: Listen,  # noqa: ARG001 -- a timer's signature
) -> Profiled:
    """A timer that postpones the pairs until the GPU is free."""
    says = "right; its pairs come when the GPU is free"
    finding = Finding(code=_WAITS, says=says, blame=Blame.MACHINE)
    return Profiled(
        report=StageReport(
            stage=Stage.PROFILE, outcome=Outcome.UNPROVEN, says=says, findings=(finding,)
        )
    )
