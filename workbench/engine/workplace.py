"""Everything that runs candidates for one session: problem, workshop, gate, proposer, seeds."""

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path

from msgspec import structs

from workbench.agents.memory import remember
from workbench.agents.records import NoCandidate
from workbench.agents.situation import Situation, situation_of
from workbench.engine import events as ev
from workbench.engine.baselines import JOB_MODULES as BASELINE_MODULES
from workbench.engine.baselines import baselines_of, todays_baselines
from workbench.engine.history import History, modeled_speed
from workbench.engine.measuring import flavors, profiler_of, timer_of
from workbench.engine.seeds import find_seed
from workbench.engine.talks import Talks
from workbench.errors import WorkbenchError
from workbench.gate import compile as compiling
from workbench.gate.candidate import Candidate, candidate_of
from workbench.gate.compile import Compiled
from workbench.gate.counters import NcuProfiler, Profiler
from workbench.gate.judge import JOB_MODULES, GateSettings, Told, judge
from workbench.gate.policy import check as policy
from workbench.gate.problem.affordable import scaled_down, sizes, with_small_shape
from workbench.gate.problem.inspect import ProblemReport, inspect_problem
from workbench.gate.records import GateReport, Outcome
from workbench.isolation.workshop import Workshop
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import target
from workbench.measure.baselines import Baselines
from workbench.measure.eager import modeled_eager
from workbench.measure.records import Kind, Time
from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import Precision, Problem
from workbench.search.proposer import NoProposal, Proposal, ProposerState, Tried, propose
from workbench.session.code import keep
from workbench.session.records import Answer, SessionSettings, Transition
from workbench.session.store import SessionStore
from workbench.skills.library import Library, load_library

Emit = Callable[[ev.AnyEvent], None]
"""Called from a worker thread; the caller brings it to its own loop."""


class SessionWorkplace:
    """Real gate, real proposer. Methods block, one call at a time; nothing starts before its use.

    Every method may raise WorkbenchError: the problem cannot be used, a worker cannot start.
    """

    def __init__(
        self,
        store: SessionStore,
        settings: SessionSettings,
        own_seed: tuple[str, str] | None,
        emit: Emit,
        *,
        library: Library | None = None,
        scratch: Path | None = None,
        may_resize: bool = True,
    ) -> None:
        """`library` are the cards to choose from, all that are at hand when None; `scratch` is
        where the problem is laid out, a folder of the session when None. Only the engine that
        runs a session `may_resize` its problem: who looks on writes nothing."""
        self._store = store
        self._given_library = library
        self._scratch = scratch or store.state
        self._settings = settings
        self._own_seed = own_seed
        self._writes = may_resize
        self._may_resize = may_resize and own_seed is None
        self._emit = emit
        self._hashes: dict[int, str] = {}
        self._baselines: Baselines | None = None
        self._asked_baselines = False
        self._workshop = Workshop(
            device_index=settings.device_index,
            preload=(*JOB_MODULES, *BASELINE_MODULES),
            share_device_memory=settings.device_index is not None,
        )

    def close(self) -> None:
        """End every worker."""
        if "talks" in self.__dict__ and self.talks is not None:
            self.talks.close()
        self._workshop.close()

    # -- what the loop asks -----------------------------------------------------------------

    def seed(self) -> tuple[str, str]:
        """Source and origin of the first candidate; a model writes it where there is no other."""
        try:
            return find_seed(self._problem, self._own_seed, self._settings.target, self._workshop)
        except WorkbenchError as fault:
            if self.talks is None:
                raise
            self._emit(ev.Note(level="warning", says=f"{fault.what}; the model writes one"))
            return self.talks.first(self._problem, self._library, target(self._settings.target))

    def propose(self, history: History) -> Proposal | NoProposal | NoCandidate:
        """The next step from the incumbent: by cards, by a model, or by cards while they last."""
        if self.talks is None or self._settings.proposer == "both":
            by_cards = self.by_cards(history)
            if self.talks is None or isinstance(by_cards, Proposal):
                return by_cards
        hints = self.talks.ledger.hints(history.next_number)
        return self.talks.next(self.situation(history, hints), self._store.source)

    def situation(self, history: History, hints: tuple[str, ...] = ()) -> Situation:
        """What a model is told of the incumbent. Raises WorkbenchError when there is none."""
        incumbent = history.incumbent
        if incumbent is None:
            raise WorkbenchError("there is no accepted kernel to start from")
        state = self._state(incumbent, history)
        hashes = {tried.number: tried.sha256 for tried in state.history}
        return situation_of(
            self._problem,
            state,
            remember(history.transitions, hashes),
            hints=hints,
            versus_seed=incumbent.gate.versus_seed,
            reference=incumbent.gate.reference,
        )

    def by_cards(self, history: History) -> Proposal | NoProposal:
        """The step that the cards alone would take."""
        incumbent = history.incumbent
        if incumbent is None:
            return NoProposal(reason="there is no accepted kernel to start from")
        return propose(self._state(incumbent, history))

    def _state(self, incumbent: Transition, history: History) -> ProposerState:
        work = self._facts.full.work
        return ProposerState(
            source=self._store.source(incumbent.number),
            number=incumbent.number,
            library=self._library,
            target=target(self._settings.target),
            launches=incumbent.gate.launches,
            traces=incumbent.gate.traces,
            ncu=incumbent.gate.ncu,
            time=incumbent.gate.time,
            family=self._problem.family,
            precision=self._problem.precision.value,
            flops=work.flops if work else None,
            bytes=work.bytes if work else None,
            history=tuple(self._tried(t) for t in history.transitions),
        )

    def _tried(self, transition: Transition) -> Tried:
        """A transition as the proposer remembers it; sources are read from git once."""
        sha256 = self._hashes.get(transition.number)
        if sha256 is None:
            sha256 = normalized_sha256(self._store.source(transition.number))
            self._hashes[transition.number] = sha256
        plan, speed = transition.plan, transition.gate.speed
        accepted = transition.decision.answer is Answer.ACCEPTED
        # A refused try by hand or by a model says nothing of what the card's edit would do.
        counts = plan is not None and (bool(plan.edit) or accepted)
        return Tried(
            number=transition.number,
            parent=transition.parent,
            sha256=sha256,
            accepted=accepted,
            card=plan.card if plan and counts else "",
            kernel=plan.kernel if plan else "",
            parameters=plan.parameters if plan else {},
            was=plan.was if plan else {},
            speed=speed.ratio if speed else None,
        )

    def compiled(self, source: str) -> Compiled:
        """What a source is compiled into here, if the policy lets it run at all."""
        candidate = candidate_of(source)
        refused = policy.check_bytes(candidate.content, policy.input_kinds(self._problem.source))
        if refused.outcome is not Outcome.PASSED:
            return Compiled(report=refused)
        full = self._facts.full
        return compiling.run(candidate, full, self._settings.target, self._workshop)

    def gate(self, source: str, parent: Transition | None, number: int) -> GateReport:
        """The gate's report, with speeds against seed and reference of the same kind."""
        root = None if parent is None else self._root(parent)
        report = judge(
            candidate_of(source),
            self._problem,
            lambda: self._facts,
            self._gate_settings,
            self._workshop,
            parent=None if parent is None else self._kernel(parent),
            parent_time=None if parent is None else parent.gate.time,
            timer=timer_of(
                self._problem,
                lambda: self._facts,
                self._gate_settings,
                self._workshop,
                seed_kernel=None if root is None else self._kernel(root),
            ),
            profiler=self._profiler_for(number),
            listen=lambda told: self._tell(number, told),
        )
        if report.time is None or report.time.kind is not Kind.MODELED:
            return self._with_baselines(report, timed=report.time is not None)
        before = None if root is None else root.gate.time
        versus_seed = None if before is None else modeled_speed(before, report.time)
        return structs.replace(self._beside_eager(report), versus_seed=versus_seed)

    def _beside_eager(self, report: GateReport) -> GateReport:
        """A modeled report with the modeled time of eager PyTorch; any other as it is."""
        if report.time is None or report.time.kind is not Kind.MODELED:
            return report
        reference = self._reference_time
        versus = None if reference is None else modeled_speed(reference, report.time)
        return structs.replace(report, reference=reference, versus_reference=versus)

    def gate_beside(self, source: str, state: str, before: GateReport, floor: float) -> GateReport:
        """The gate's report on a kernel that may be no slower than `floor` of another.

        `before` is the other's own report. Its seed is used again: modeled times of two samples of
        programs differ by more than a floor allows, those of one sample do not.
        """
        seed = bytes.fromhex(before.replay_seed)
        settings = structs.replace(self._gate_settings, threshold=floor, seed=seed)
        report = judge(
            candidate_of(source),
            self._problem,
            lambda: self._facts,
            settings,
            self._workshop,
            parent=candidate_of(state),
            parent_time=before.time,
            timer=timer_of(self._problem, lambda: self._facts, settings, self._workshop),
            listen=self._keep_code,
        )
        return self._beside_eager(report)

    def _profiler_for(self, number: int) -> Profiler | None:
        """Reads the counters of a version; its report is kept beside git, for the GUI."""
        if self._profiler is None:
            return None
        name = f"profiles/{number:04d}.ncu-rep"
        return partial(self._profiler, keep=(self._store.state / name, f".git/workbench/{name}"))

    def _with_baselines(self, report: GateReport, *, timed: bool) -> GateReport:
        """The report of a measured kernel with what there is to beat, as far as that is known."""
        spent = 0.0
        if timed and self._baselines is None and self._settings.device_index is not None:
            self._baselines, spent = self._timed_baselines(self._settings.device_index)
        return structs.replace(
            report, baselines=self._baselines, gpu_seconds=report.gpu_seconds + spent
        )

    def _timed_baselines(self, device_index: int) -> tuple[Baselines | None, float]:
        """Today's, or new ones where the session asked for them once; and the GPU-seconds spent."""
        known = todays_baselines(self._problem, device_index)
        if self._asked_baselines or self._settings.baselines == "eager":
            return known, 0.0
        self._asked_baselines = True
        if known is not None and known.compiled is not None:
            return known, 0.0
        self._emit(ev.Note(level="info", says="timing the reference under torch.compile"))
        try:
            timed = baselines_of(self._problem, lambda: self._facts, device_index, self._workshop)
        except WorkbenchError as fault:
            self._emit(ev.Note(level="warning", says=f"there are no baselines: {fault}"))
            return known, 0.0
        return timed, timed.gpu_seconds

    def _root(self, transition: Transition) -> Transition:
        """The seed that a transition descends from."""
        while transition.parent is not None:
            transition = self._store.transition(transition.parent)
        return transition

    def _kernel(self, transition: Transition) -> Candidate:
        return candidate_of(self._store.source(transition.number))

    def _keep_code(self, told: Told) -> None:
        """What the compiler made, beside the versions; a session without it is whole all the same.

        Not where somebody only looks on.
        """
        if not told.code or not self._writes:
            return
        try:
            keep(self._store.git, told.code)
        except WorkbenchError as fault:
            self._emit(ev.Note(level="warning", says=f"the generated code is not kept: {fault}"))

    def _tell(self, number: int, told: Told) -> None:
        self._keep_code(told)
        if told.report is not None:
            self._emit(ev.StageFinished(number=number, report=told.report))
        elif told.total:
            self._emit(
                ev.StageProgress(
                    number=number,
                    stage=told.stage.value,
                    done=told.done,
                    total=told.total,
                    says=told.says,
                )
            )
        else:
            self._emit(ev.StageStarted(number=number, stage=told.stage.value))

    # -- made on first use ------------------------------------------------------------------

    @cached_property
    def talks(self) -> Talks | None:
        """Where models are asked; None in a session that asks none."""
        if self._settings.proposer == "skills":
            return None
        return Talks(self._store.state, self._settings.budget, self._emit)

    @cached_property
    def _problem(self) -> Problem:
        """The session's own problem, at a size that this machine can judge."""
        problem = self._problem_from_git()
        if self._settings.device_index is not None or problem.sidecar:
            return problem
        if not self._may_resize:
            return self._with_small_shape(problem)
        scaled = scaled_down(problem, self._workshop)
        if scaled is None:
            return problem
        # Into git, so that every number says at which size it holds.
        self._store.save_sidecar(scaled.sidecar())
        says = f"without a GPU the problem is judged and modeled at {scaled.says()}"
        self._emit(ev.Note(level="warning", says=says))
        return self._problem_from_git()

    def _with_small_shape(self, problem: Problem) -> Problem:
        """A person's own kernel is proven at a smaller size and modeled at the file's own."""
        found = with_small_shape(problem, self._workshop)
        if len(found.shapes) > len(problem.shapes):
            says = f"without a GPU correctness is checked at {sizes(found.tiny)}, not at the file's"
            self._emit(ev.Note(level="warning", says=says))
        return found

    def _problem_from_git(self) -> Problem:
        """Files in the folder may have been edited since."""
        files = self._store.problem()
        folder = self._scratch / "problem"
        folder.mkdir(exist_ok=True)
        (folder / "problem.py").write_text(files.source, encoding="utf-8")
        sidecar = folder / "problem.toml"
        sidecar.unlink(missing_ok=True)
        if files.sidecar:
            sidecar.write_text(files.sidecar, encoding="utf-8")
        # Messages name the person's file: the copy is not where it is to be mended.
        problem = structs.replace(
            load_problem(folder / "problem.py"),
            name=self._settings.problem,
            path=Path(f"{self._settings.problem}.py"),
        )
        name = self._settings.problem
        if name in shipped_problems():
            shipped = load_problem(name)
            if shipped.source == files.source:
                problem = structs.replace(problem, seed=shipped.seed)
        return problem

    @cached_property
    def _facts(self) -> ProblemReport:
        # Side by side: each forkserver imports torch, and the first candidate needs them all.
        self._workshop.warm(*flavors(self._settings.device_index))
        facts = inspect_problem(self._problem, self._workshop)
        for finding in facts.findings:
            self._emit(ev.Note(level="warning", says=f"{finding.says} [{finding.code}]"))
        return facts

    @cached_property
    def _library(self) -> Library:
        return self._given_library or load_library()

    @cached_property
    def _gate_settings(self) -> GateSettings:
        return GateSettings(
            target=self._settings.target,
            device=self._settings.device,
            device_index=self._settings.device_index,
            # The interpreter is slow: without a GPU the smallest shape proves a step.
            rung=1 if self._settings.device_index is None else 2,
        )

    @cached_property
    def _profiler(self) -> NcuProfiler | None:
        return profiler_of(self._problem, self._gate_settings)

    @cached_property
    def _reference_time(self) -> Time | None:
        operators = self._facts.full.operators
        if not operators:
            return None
        tf32 = self._problem.precision is Precision.TF32
        return modeled_eager(operators, target(self._settings.target), tf32=tf32)
