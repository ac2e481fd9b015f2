"""Everything that runs candidates for one session: problem, workshop, gate, proposer, seeds."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from workbench.agents.memory import remember
from workbench.agents.records import NoCandidate
from workbench.agents.situation import Situation, situation_of
from workbench.engine import events as ev
from workbench.engine.baselines import JOB_MODULES as BASELINE_MODULES
from workbench.engine.beside import ANY_SPEED, Beside
from workbench.engine.choosing import Chooser
from workbench.engine.completing import Completing
from workbench.engine.depth import depth_of
from workbench.engine.fleet import Fleet, open_fleet
from workbench.engine.gatehouse import Gatehouse, price_of_look
from workbench.engine.held import as_step
from workbench.engine.history import History
from workbench.engine.laying import problem_of
from workbench.engine.measuring import Question, flavors, timer_of
from workbench.engine.memory import Memory
from workbench.engine.once import made_once
from workbench.engine.seeds import find_seed
from workbench.engine.sittings import SessionSitting
from workbench.engine.talks import Talks
from workbench.errors import WorkbenchError
from workbench.gate import compile as compiling
from workbench.gate.candidate import candidate_of
from workbench.gate.compile import Compiled
from workbench.gate.correctness.cases import SEED_BYTES
from workbench.gate.judge import JOB_MODULES, GateSettings, Sitting, Told
from workbench.gate.policy import check as policy
from workbench.gate.problem.affordable import scaled_down, sizes, with_small_shape
from workbench.gate.problem.inspect import ProblemReport, inspect_problem
from workbench.gate.records import GateReport, Outcome
from workbench.gate.timing.stage import GpuTimer
from workbench.isolation.workshop import Workshop
from workbench.kernels.target import target
from workbench.measure.records import Speed
from workbench.problems.records import Problem
from workbench.search.ladder import load_ladder
from workbench.search.proposer import NoProposal, Proposal, ProposerState, propose
from workbench.search.shares import idle_shares
from workbench.session import queue as queues
from workbench.session.code import keep
from workbench.session.records import Cost, SessionSettings, Transition
from workbench.session.store import SessionStore
from workbench.skills.library import Library, load_library
from workbench.skills.records import Plan

Emit = Callable[[ev.AnyEvent], None]
"""Called from a worker thread; the caller brings it to its own loop."""
_PRELOAD = (*JOB_MODULES, *BASELINE_MODULES)
_NO_DRAFTS: Mapping[int, str] = {}


class SessionWorkplace:
    """Real gate, real proposer. Methods block; a step may be foreseen while another is worked on.

    Nothing starts before its use. Every method may raise WorkbenchError: the problem cannot be
    used, a worker cannot start.
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
        """`library` are the cards to choose from, all installed ones when None; `scratch` is
        where the problem is laid out, a folder of the session when None. Without `may_resize`
        nothing is written to the session: only the engine that runs it may change the problem's
        size and keep generated code."""
        self._store = store
        self._given_library = library
        self._scratch = scratch or store.state
        self._settings = settings
        self._own_seed = own_seed
        self._writes = may_resize
        self._may_resize = may_resize and own_seed is None
        self._emit = emit
        self._memory = Memory(store)
        self._workshop = Workshop(
            device_index=settings.device_index,
            preload=_PRELOAD,
            share_device_memory=settings.device_index is not None,
        )

    def close(self) -> None:
        """End every worker."""
        if "talks" in self.__dict__ and self.talks is not None:
            self.talks.close()
        if "_fleet" in self.__dict__:
            self._fleet.close()
        self._workshop.close()

    # -- what the loop asks -----------------------------------------------------------------

    def seed(self) -> tuple[str, str]:
        """Source and origin of the first candidate; a model writes it where there is no other."""
        try:
            return find_seed(self._problem, self._own_seed, self._settings.target, self._workshop)
        except WorkbenchError as fault:
            if self.talks is None:
                raise
            self._warn(f"{fault.what}; the model writes one")
            return self.talks.first(self._problem, self._library, target(self._settings.target))

    def propose(self, history: History) -> Proposal | NoProposal | NoCandidate:
        """The next step from the incumbent: by cards, by a model, or by cards while they last."""
        if self.talks is None or self._settings.proposer == "both":
            by_cards = self.foresee(history, _NO_DRAFTS)
            if self.talks is None or isinstance(by_cards, Proposal):
                return by_cards
        situation = self.situation(history, self.talks.hints(history.next_number))
        return self.talks.next(situation, self._store.source)

    @property
    def chooser(self) -> Chooser:
        """Takes down what a person wants next, and makes it."""
        return Chooser(self._store.state, self._settings, self, self._emit)

    def situation(self, history: History, hints: tuple[str, ...] = ()) -> Situation:
        """What a model is told of the incumbent. Raises WorkbenchError when there is none."""
        incumbent = history.start()
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

    def _state(
        self, incumbent: Transition, history: History, drafts: Mapping[int, str] = _NO_DRAFTS
    ) -> ProposerState:
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
            history=tuple(self._memory.tried(t, drafts) for t in history.transitions),
            search=load_ladder().search,
        )

    def compiled(self, source: str) -> Compiled:
        """What a source is compiled into here, if the policy lets it run at all."""
        candidate = candidate_of(source)
        refused = policy.check_bytes(candidate.content, policy.input_kinds(self._problem.source))
        if refused.outcome is not Outcome.PASSED:
            return Compiled(report=refused)
        full = self._facts.full
        return compiling.run(candidate, full, self._settings.target, self._workshop)

    @property
    def depth(self) -> int:
        """Candidates that may be begun beside the running one."""
        # A step that a model is asked for is never made on a guess.
        return 0 if self._settings.proposer != "skills" else depth_of(self._settings)

    def foresee(
        self, history: History, drafts: Mapping[int, str], only: tuple[str, str] | None = None
    ) -> Proposal | NoProposal:
        """What the cards would do if this were the history; `only` one card, on one kernel."""
        incumbent = history.incumbent
        if incumbent is None:
            return NoProposal(reason="there is no accepted kernel to start from")
        return propose(self._state(incumbent, history, drafts), only)

    @property
    def beam(self) -> int:
        """Candidates that are looked at side by side; a model writes one at a time."""
        return 1 if self._settings.proposer == "llm" else self._settings.beam

    def keep_queue(self, queue: Sequence[queues.Queued]) -> None:
        """Write down which candidates are open beside each other."""
        queues.keep(self._store.git, queue)

    def queue(self) -> Sequence[queues.Queued]:
        """Candidates that were open when an engine last ran."""
        return queues.read(self._store.git)

    def held(self, history: History) -> Proposal | None:
        """A candidate that was put aside, as a step from the incumbent."""
        found = self._gatehouse.held(history)
        if found is None:
            return None
        one, reason = found
        return as_step(one, reason, self._store.source(one.number))

    @property
    def last_look_price(self) -> Cost | None:
        """The likely cost of a last look; None where there can be none."""
        measures = self._settings.device_index is not None
        return price_of_look(load_ladder(), measures=measures)

    def last_look(self, version: Transition) -> GateReport | None:
        """The checks of the top rung except for its timing; None where they cannot run."""
        return self._gatehouse.last_look(version)

    def sit(self, source: str, history: History, number: int, plan: Plan | None) -> SessionSitting:
        """A candidate before the gate; one that an edit made is judged on the session's draws."""
        return self._gatehouse.sit(source, history, number, plan)

    def gate(self, source: str, parent: Transition | None, number: int) -> GateReport:
        """The gate's complete report on a candidate, with fresh draws and without the ladder."""
        return self._gatehouse.gate(source, parent, number)

    def gate_alone(self, source: str) -> GateReport:
        """The gate's report on a kernel by itself, without hardware counters.

        For a walk, which reads no counters; they take as long as the rest of a verdict.
        """
        sitting = self._sitting(source, self._gate_settings)
        sitting.begin()
        report = sitting.go_on(timer=self._timer(self._gate_settings))
        return self._completing.completed(report, None)

    def beside(self, source: str, state: str, before: GateReport, floor: float | None) -> Beside:
        """A kernel after policy and compile, to be compared with another, whose report is `before`.

        Without a floor it may be slower. The other's seed is used again: modeled times of two
        samples of programs differ by more than a floor allows, those of one sample do not.
        """
        settings = structs.replace(
            self._gate_settings,
            threshold=ANY_SPEED if floor is None else floor,
            seed=bytes.fromhex(before.replay_seed),
        )
        return Beside(
            self._sitting(source, settings),
            candidate_of(state),
            before.time,
            self._timer(settings, decides=floor is not None),
            self._completing.beside_eager,
        )

    def pairs(self, source: str, state: str) -> Speed | None:
        """The speedup of one kernel over another, both known to be right, in one run of pairs.

        None where times are modeled, and where the timing did not complete.
        """
        timer = self._timer(self._gate_settings, decides=False)
        if timer is None:
            return None
        candidate, parent = candidate_of(source), candidate_of(state)
        seed = os.urandom(SEED_BYTES)
        return timer(candidate, parent, seed=seed, listen=lambda *_told: None).speed

    def _sitting(self, source: str, settings: GateSettings) -> Sitting:
        return Sitting(
            candidate_of(source),
            self._problem,
            self._known,
            settings,
            self._workshop,
            self._keep_code,
        )

    def _timer(self, settings: GateSettings, *, decides: bool = True) -> GpuTimer | None:
        ask = Question(decides=decides)
        return timer_of(self._problem, self._known, settings, self._workshop, ask=ask)

    def _known(self) -> ProblemReport:
        """The facts of the problem, computed on first use."""
        return self._facts

    def _keep_code(self, told: Told) -> None:
        """Store the generated code beside the versions, if this workplace may write."""
        if not told.code or not self._writes:
            return
        try:
            keep(self._store.git, told.code)
        except WorkbenchError as fault:
            self._warn(f"the generated code is not kept: {fault}")

    def _warn(self, says: str) -> None:
        self._emit(ev.Note(level="warning", says=says))

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

    @made_once
    def talks(self) -> Talks | None:
        """Where models are asked; None in a session that asks none."""
        if self._settings.proposer == "skills":
            return None
        return Talks(self._store.state, self._settings.budget, self._emit)

    @made_once
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
        self._warn(f"without a GPU the problem is judged and modeled at {scaled.says()}")
        return self._problem_from_git()

    def _with_small_shape(self, problem: Problem) -> Problem:
        """A person's own kernel is proven at a smaller size and modeled at the file's own."""
        found = with_small_shape(problem, self._workshop)
        if len(found.shapes) > len(problem.shapes):
            at = sizes(found.tiny)
            self._warn(f"without a GPU correctness is checked at {at}, not at the file's")
        return found

    def _problem_from_git(self) -> Problem:
        return problem_of(self._store, self._settings.problem, self._scratch / "problem")

    @made_once
    def _facts(self) -> ProblemReport:
        # Side by side: each forkserver imports torch, and the first candidate needs them all.
        self._workshop.warm(*flavors(self._settings.device_index))
        facts = inspect_problem(self._problem, self._workshop)
        for finding in facts.findings:
            self._warn(f"{finding.says} [{finding.code}]")
        return facts

    @made_once
    def _library(self) -> Library:
        return self._given_library or load_library()

    @made_once
    def _gate_settings(self) -> GateSettings:
        return GateSettings(
            target=self._settings.target,
            device=self._settings.device,
            device_index=self._settings.device_index,
            # The interpreter is slow: without a GPU the smallest shape proves a step.
            rung=1 if self._settings.device_index is None else 2,
        )

    @made_once
    def _gatehouse(self) -> Gatehouse:
        if idle := idle_shares(load_ladder(), self._settings.budget.gpu_seconds):
            self._emit(ev.Note(level="info", says=idle))
        return Gatehouse(
            self._store,
            self._problem,
            lambda: self._facts,
            self._fleet,
            completing=self._completing,
            gate_settings=self._gate_settings,
            tell=self._tell,
        )

    @made_once
    def _fleet(self) -> Fleet:
        return open_fleet(self._settings, self._workshop, _PRELOAD, self._warn)

    @made_once
    def _completing(self) -> Completing:
        return Completing(
            self._problem, lambda: self._facts, self._settings, self._workshop, self._emit
        )
