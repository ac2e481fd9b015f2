"""Where a session's candidates come before the gate: against whom, on which draws, how high."""

from collections.abc import Callable
from functools import cached_property, partial

from msgspec import structs

from workbench.engine.climbing import Climb
from workbench.engine.completing import Completing
from workbench.engine.history import History
from workbench.engine.measuring import profiler_of, timer_of
from workbench.engine.sittings import Ear, Procedure, SessionSitting, seed_for, session_secret
from workbench.gate import profile
from workbench.gate.candidate import Candidate, candidate_of
from workbench.gate.counters import NcuProfiler, Profiler
from workbench.gate.judge import GateSettings, Sitting, Told
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import GateReport
from workbench.isolation.workshop import Workshop
from workbench.measure.records import Time
from workbench.measure.trust import why_not_trusted
from workbench.problems.records import Problem
from workbench.search.rungs import Ladder
from workbench.session.records import Transition
from workbench.session.store import SessionStore
from workbench.skills.records import Plan


class Gatehouse:
    """Of one session. Safe to use from several threads; its sittings are each one thread's."""

    def __init__(
        self,
        store: SessionStore,
        problem: Problem,
        facts: Callable[[], ProblemReport],
        workshop: Workshop,
        *,
        completing: Completing,
        gate_settings: GateSettings,
        tell: Callable[[int, Told], None],
    ) -> None:
        """`tell` hears the number of a transition and what its gate tells."""
        self._store = store
        self._problem = problem
        self._facts = facts
        self._workshop = workshop
        self._completing = completing
        self._gate_settings = gate_settings
        self._tell = tell
        self._trusted = not why_not_trusted(problem.family, gate_settings.target)

    def sit(self, source: str, history: History, number: int, plan: Plan | None) -> SessionSitting:
        """A candidate before the gate, climbing the ladder; a seed has no plan and no parent.

        One that an edit made is judged on draws from the session's secret, any other on fresh ones.
        """
        ours = plan is not None and bool(plan.edit) and not plan.method
        seed = seed_for(session_secret(self._store.state), number, source) if ours else b""
        settings = structs.replace(self._gate_settings, seed=seed)
        candidate = candidate_of(source)
        parent = None if plan is None else history.incumbent
        ear = Ear(partial(self._tell, number))
        procedure = Procedure(
            plan=plan,
            history=history,
            parent=parent,
            needs_gpu=self._gate_settings.device_index is not None,
            go_on=partial(self._go_on, parent=parent, number=number, settings=settings),
            modeled=partial(self._modeled, candidate, settings),
            completed=partial(self._completed, parent),
        )
        climb = Climb(self._ladder, trusted=self._trusted)
        return SessionSitting(self._sitting(candidate, settings, ear), ear, procedure, climb)

    def gate(self, source: str, parent: Transition | None, number: int) -> GateReport:
        """The gate's whole report on a candidate, judged on fresh draws and by no ladder."""
        settings = self._gate_settings
        sitting = self._sitting(candidate_of(source), settings, partial(self._tell, number))
        sitting.begin()
        report = self._go_on(sitting, parent=parent, number=number, settings=settings)
        return self._completed(parent, report)

    def _sitting(
        self, candidate: Candidate, settings: GateSettings, listen: Callable[[Told], None]
    ) -> Sitting:
        return Sitting(candidate, self._problem, self._facts, settings, self._workshop, listen)

    def _go_on(
        self, sitting: Sitting, *, parent: Transition | None, number: int, settings: GateSettings
    ) -> GateReport:
        """The gate after compile, with a timer and the GPU's counters where there is a GPU."""
        root = None if parent is None else self._root(parent)
        timer = timer_of(
            self._problem,
            self._facts,
            settings,
            self._workshop,
            seed_kernel=None if root is None else self._kernel(root),
        )
        return sitting.go_on(
            parent=None if parent is None else self._kernel(parent),
            parent_time=None if parent is None else parent.gate.time,
            timer=timer,
            profiler=self._profiler_for(number),
        )

    def _modeled(
        self, candidate: Candidate, settings: GateSettings, sitting: Sitting
    ) -> Time | None:
        """On a GPU, where the model may rank such kernels: what it calls far slower is given up.

        Without a GPU the gate itself models every candidate, and decides by that.
        """
        if settings.device_index is None or not self._trusted or sitting.compiled is None:
            return None
        facts = self._facts()
        return profile.run_modeled(
            candidate,
            sitting.compiled,
            (facts.shapes[0], facts.full),
            settings.target,
            self._workshop,
            parent=None,
            threshold=settings.threshold,
            seed=settings.seed,
        ).time

    def _completed(self, parent: Transition | None, report: GateReport) -> GateReport:
        seed_time = None if parent is None else self._root(parent).gate.time
        return self._completing.completed(report, seed_time)

    def _root(self, transition: Transition) -> Transition:
        """The seed that a transition descends from."""
        while transition.parent is not None:
            transition = self._store.transition(transition.parent)
        return transition

    def _kernel(self, transition: Transition) -> Candidate:
        return candidate_of(self._store.source(transition.number))

    def _profiler_for(self, number: int) -> Profiler | None:
        """Reads the counters of a version; its report is kept beside git, for the GUI."""
        if self._profiler is None:
            return None
        name = f"profiles/{number:04d}.ncu-rep"
        return partial(self._profiler, keep=(self._store.state / name, f".git/workbench/{name}"))

    @cached_property
    def _profiler(self) -> NcuProfiler | None:
        return profiler_of(self._problem, self._gate_settings)

    @cached_property
    def _ladder(self) -> Ladder:
        return Ladder.load()
