"""Sets up the gate for each candidate of a session: its parent, its draws and its rung."""

import os
import threading
from collections.abc import Callable
from functools import cached_property, partial

from msgspec import Struct, structs

from workbench.engine import halves
from workbench.engine.climbing import Climb, Visited
from workbench.engine.completing import Completing
from workbench.engine.draws import seed_for, session_secret
from workbench.engine.fleet import Fleet, Station
from workbench.engine.held import comes_back
from workbench.engine.history import History
from workbench.engine.measuring import Question, profiler_of, timer_of
from workbench.engine.sittings import Ear, Procedure, SessionSitting
from workbench.gate import profile
from workbench.gate.candidate import Candidate, candidate_of
from workbench.gate.correctness.cases import SEED_BYTES, derive
from workbench.gate.counters import NcuProfiler, Profiler
from workbench.gate.judge import GateSettings, Sitting, Told
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import GateReport, Outcome, Stage
from workbench.gate.sanitizer.run import find_sanitizer
from workbench.measure.records import Speed, Time
from workbench.measure.trust import why_not_trusted
from workbench.problems.records import Problem
from workbench.search.ladder import LadderFile
from workbench.search.paying import Worth, worth
from workbench.search.rungs import Ladder
from workbench.search.shares import clear_gain, share_had
from workbench.session.records import Cost, RungVisit, Transition
from workbench.session.store import SessionStore
from workbench.skills.records import Plan


class Numbered:
    """The number under which a candidate is reported; it may change until its turn."""

    def __init__(self, number: int) -> None:
        self.number = number

    def call(self, number: int) -> None:
        """Make that number the current one."""
        self.number = number


class _Asked(Struct, frozen=True, kw_only=True):
    """A gate request: the candidate, what it is compared with, and the listener."""

    parent: Transition | None
    settings: GateSettings
    numbered: Numbered
    ear: Ear


class Gatehouse:
    """The gate of one session. Safe to use from several threads; each sitting belongs to one
    thread.
    """

    def __init__(
        self,
        store: SessionStore,
        problem: Problem,
        facts: Callable[[], ProblemReport],
        fleet: Fleet,
        *,
        completing: Completing,
        gate_settings: GateSettings,
        tell: Callable[[int, Told], None],
    ) -> None:
        """`tell` receives the number of a transition and what its gate reports."""
        self._store = store
        self._problem = problem
        self._facts = facts
        self._fleet = fleet
        self._completing = completing
        self._gate_settings = gate_settings
        self._tell = tell
        self._trusted = not why_not_trusted(problem.family, gate_settings.target)
        self._profilers: dict[int, NcuProfiler | None] = {}
        self._billing = threading.Lock()
        self._inspection_paid = False
        if (at_home := self._profiler_on(gate_settings)) is not None:
            # Once per machine this takes half a minute; it ends before the first kernel is timed.
            at_home.try_ahead()

    def sit(self, source: str, history: History, number: int, plan: Plan | None) -> SessionSitting:
        """A candidate before the gate, climbing the ladder; a seed has no plan and no parent.

        One that an edit made is judged on draws from the session's secret, any other on fresh ones.
        """
        ours = plan is not None and bool(plan.edit) and not plan.method
        seed = seed_for(session_secret(self._store.state), number, source) if ours else b""
        asked = self._asked(None if plan is None else history.incumbent, number, seed)
        candidate, fleet = candidate_of(source), self._fleet
        looks = fleet.measures and plan is not None
        procedure = Procedure(
            plan=plan,
            history=history,
            parent=asked.parent,
            needs_gpu=fleet.measures,
            go_on=partial(self._go_on, asked),
            modeled=partial(self._modeled, candidate, asked.settings),
            completed=partial(self._completed, asked.parent),
            early=fleet.ahead,
            smoke=partial(self._smoke, asked) if looks else None,
            worth=self._worth if looks else None,
            shared_out=self._shared_out if looks else lambda _history: "",
            clear=lambda speed: clear_gain(speed.low, self._ladder.file),
        )
        climb = Climb(self._ladder, trusted=self._trusted)
        sitting = self._sitting(candidate, asked)
        return SessionSitting(sitting, asked.ear, procedure, climb, asked.numbered.call)

    def held(self, history: History) -> tuple[Transition, str] | None:
        """The candidate that was put aside with the best case for it now, and that case."""
        ladder = self._ladder if self._fleet.measures else self._ladder.without_gpu()
        return comes_back(history, ladder, trusted=self._trusted)

    def gate(self, source: str, parent: Transition | None, number: int) -> GateReport:
        """The gate's complete report on a candidate, with fresh draws and without the ladder.

        It is compared however slow it is: whoever asks wants to know whether it is right.
        """
        asked = self._asked(parent, number, self._gate_settings.seed)
        asked.ear.attend()
        sitting = self._sitting(candidate_of(source), asked)
        sitting.begin()
        report = self._go_on(asked, sitting, compared_first=True)
        return self._completed(parent, report)

    def last_look(self, version: Transition) -> GateReport | None:
        """The checks of the top rung except for its timing: compute-sanitizer, at all shapes.

        None without a GPU or the tool, and where the ladder leaves that rung out.
        """
        if price_of_look(self._ladder.file, measures=self._fleet.measures) is None:
            return None
        top = self._ladder.rung("profile").spec
        asked = self._asked(version, version.number, self._gate_settings.seed)
        asked.ear.attend()

        def look(station: Station) -> GateReport:
            settings = structs.replace(
                asked.settings, device_index=station.index, rung=int(top.gate)
            )
            facts, kernel = self._facts, self._kernel(version)
            sitting = Sitting(
                kernel, self._problem, facts, settings, station.workshop, asked.ear.muted
            )
            sitting.begin()
            return sitting.go_on(timer=profile.untimed(Outcome.SKIPPED, "its speed is known"))

        return self._fleet.work(asked.ear, look)

    def _asked(self, parent: Transition | None, number: int, seed: bytes) -> _Asked:
        numbered = Numbered(number)
        return _Asked(
            parent=parent,
            settings=structs.replace(self._gate_settings, seed=seed),
            numbered=numbered,
            ear=Ear(lambda told: self._tell(numbered.number, told), self._fleet.wake),
        )

    def _sitting(self, candidate: Candidate, asked: _Asked) -> Sitting:
        return Sitting(
            candidate, self._problem, self._facts, asked.settings, self._fleet.home, asked.ear
        )

    def _go_on(
        self, asked: _Asked, sitting: Sitting, *, compared_first: bool = False
    ) -> GateReport:
        """The gate after compile; on a GPU with a timer and hardware counters."""
        if self._fleet.measures:
            job = partial(self._measured, asked, sitting, compared_first=compared_first)
            return self._fleet.work(asked.ear, job)
        time = None if asked.parent is None else asked.parent.gate.time
        return sitting.go_on(parent_time=time)

    def _measured(
        self, asked: _Asked, sitting: Sitting, station: Station, *, compared_first: bool
    ) -> GateReport:
        """The whole gate on one GPU; unless `compared_first`, a step with a parent is timed first,
        and compared only if it is faster."""
        settings = structs.replace(asked.settings, device_index=station.index)
        compared_first = compared_first or not self._ladder.rung("bench").spec.pairs_first
        if asked.parent is None or compared_first:
            return self._gated(asked, sitting, settings, station)
        return halves.gated(
            partial(self._first_run, sitting, settings, station, asked.parent),
            partial(self._gated, asked, sitting, settings, station),
            settings.rung,
            asked.ear,
        )

    def _gated(
        self,
        asked: _Asked,
        sitting: Sitting,
        settings: GateSettings,
        station: Station,
        found: Speed | None = None,
    ) -> GateReport:
        parent = asked.parent
        timer = timer_of(
            self._problem,
            self._facts,
            settings,
            station.workshop,
            seed_kernel=None if parent is None else self._kernel(self._root(parent)),
            ask=Question(found=found),
        )
        return sitting.again(settings, station.workshop, asked.ear).go_on(
            parent=None if parent is None else self._kernel(parent),
            parent_time=None if parent is None else parent.gate.time,
            timer=timer,
            profiler=self._profiler_for(asked.numbered.number, settings),
        )

    def _first_run(
        self,
        sitting: Sitting,
        settings: GateSettings,
        station: Station,
        parent: Transition,
        tell: halves.Tell,
    ) -> GateReport:
        """The first of two timing runs, before anything is compared."""
        uncompared = structs.replace(settings, rung=0)
        timer = timer_of(
            self._problem, self._facts, uncompared, station.workshop, ask=Question(confirms=False)
        )
        once = sitting.again(uncompared, station.workshop, tell)
        return once.go_on(parent=self._kernel(parent), timer=timer)

    def _smoke(self, asked: _Asked, sitting: Sitting) -> GateReport:
        """A few pairs, before or after the smallest shape is compared; it accepts nothing."""
        if asked.parent is None:
            raise RuntimeError("smoke asks about a gain over a parent")
        return self._fleet.work(asked.ear, partial(self._few, asked, sitting, asked.parent))

    def _few(
        self, asked: _Asked, sitting: Sitting, parent: Transition, station: Station
    ) -> GateReport:
        rung = self._ladder.rung("smoke")
        seed = derive(asked.settings.seed or os.urandom(SEED_BYTES), rung.name)
        settings = structs.replace(
            asked.settings,
            device_index=station.index,
            rung=0 if rung.spec.pairs_first else rung.spec.gate,
            seed=seed.to_bytes(SEED_BYTES, "big"),
        )
        timer = timer_of(
            self._problem,
            self._facts,
            settings,
            station.workshop,
            ask=Question(pairs=int(rung.spec.pairs.value)),
        )
        # Its result is reported as a rung: its stages are not part of the gate's verdict.
        few = sitting.again(settings, station.workshop, asked.ear.muted)
        return few.go_on(parent=self._kernel(parent), timer=timer)

    def _worth(self, history: History) -> Worth:
        """Whether the smoke rung pays, by the costs of this session's candidates so far."""
        every = (visit for t in history.transitions for visit in t.rungs)
        visits = [Visited(visit) for visit in every if visit.asked]
        return worth(visits, self._ladder.file)

    def _shared_out(self, history: History) -> str:
        """Which rung has had its share of the run's limit: last looks are of the top one."""
        visits = [visit for t in history.transitions if t.parent is not None for visit in t.rungs]
        for one in history.looks:
            spent = one.cost.gpu_seconds
            told = RungVisit(rung="profile", action="promote", reason=one.says, gpu_seconds=spent)
            visits.append(told)
        return share_had(visits, self._ladder.file, self._limit)

    @cached_property
    def _limit(self) -> float | None:
        """Of the run, in GPU-seconds."""
        return self._store.settings().budget.gpu_seconds

    def _modeled(
        self, candidate: Candidate, settings: GateSettings, sitting: Sitting
    ) -> Time | None:
        """Prune a candidate that the model calls far slower, where the model may rank such kernels.

        Without a GPU the gate itself models every candidate and decides by that.
        """
        if settings.device_index is None or not self._trusted or sitting.compiled is None:
            return None
        facts = self._facts()
        return profile.run_modeled(
            candidate,
            sitting.compiled,
            (facts.shapes[0], facts.full),
            settings.target,
            self._fleet.home,
            parent=None,
            threshold=settings.threshold,
            seed=settings.seed,
        ).time

    def _completed(self, parent: Transition | None, report: GateReport) -> GateReport:
        seed_time = None if parent is None else self._root(parent).gate.time
        done = self._completing.completed(report, seed_time)
        if not self._fleet.measures or report.stage is Stage.POLICY:
            return done  # nobody has asked for the problem yet
        return structs.replace(done, gpu_seconds=done.gpu_seconds + self._unbilled())

    def _unbilled(self) -> float:
        """GPU-seconds that belong to no candidate; the first one that is judged pays for them.

        They come from inspecting the problem, once, and from trying how far the profiler can be
        confined.
        """
        with self._billing:
            inspected = 0.0 if self._inspection_paid else self._facts().gpu_seconds
            self._inspection_paid = True
        # A copy: a candidate on another GPU may add its own meanwhile.
        profilers = [one for one in list(self._profilers.values()) if one is not None]
        return inspected + sum(one.unbilled() for one in profilers)

    def _root(self, transition: Transition) -> Transition:
        """The seed that a transition descends from."""
        while transition.parent is not None:
            transition = self._store.transition(transition.parent)
        return transition

    def _kernel(self, transition: Transition) -> Candidate:
        return candidate_of(self._store.source(transition.number))

    def _profiler_for(self, number: int, settings: GateSettings) -> Profiler | None:
        """A profiler for a version, whose report is kept beside git, for ncu's GUI."""
        profiler = self._profiler_on(settings)
        name = f"profiles/{number:04d}.ncu-rep"
        keep = (self._store.state / name, f".git/workbench/{name}")
        return None if profiler is None else partial(profiler, keep=keep)

    def _profiler_on(self, settings: GateSettings) -> NcuProfiler | None:
        index = settings.device_index
        if index is None:
            return None
        if index not in self._profilers:
            self._profilers[index] = profiler_of(self._problem, settings)
        return self._profilers[index]

    @cached_property
    def _ladder(self) -> Ladder:
        return Ladder.load()


def price_of_look(file: LadderFile, *, measures: bool) -> Cost | None:
    """What a last look is likely to take, by the ladder; None without a GPU or the tool, and where
    the ladder leaves the top rung out."""
    if not measures or file.rung["profile"].use == "never" or find_sanitizer() is None:
        return None
    return Cost(gpu_seconds=file.search.last_look.value, wall_seconds=file.search.last_look.value)
