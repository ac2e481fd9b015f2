"""The one loop that runs a session: plan, gate, decide, commit, until a limit or the end."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, assert_never

from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.budget import exhausted
from workbench.engine.history import History
from workbench.engine.wishes import (
    AnyReply,
    AnyWish,
    Decide,
    Follow,
    Go,
    Granted,
    Pause,
    Refused,
    Stop,
)
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Verdict
from workbench.search.proposer import NoProposal, Proposal
from workbench.session.records import (
    Answer,
    Budget,
    Cost,
    Decision,
    Mode,
    Transition,
)
from workbench.skills.records import Plan


class Store(Protocol):
    """What the loop needs of a session repository; every method returns once it is durable."""

    def record(self, transition: Transition, source: str, *, best: bool = False) -> str:
        """Commit a decided transition; returns the commit id."""

    def record_pending(self, transition: Transition, source: str) -> str:
        """Commit a transition that waits for a person."""

    def decide(self, number: int, decision: Decision, *, best: bool = False) -> str:
        """Finish a pending transition; returns the final commit id."""

    def source(self, number: int) -> str:
        """`kernel.py` of a transition."""


class Workplace(Protocol):
    """What the loop needs of everything that runs candidates; methods block, in a thread."""

    def seed(self) -> tuple[str, str]:
        """The seed's source and where it came from. Raises WorkbenchError when there is none."""

    def gate(self, source: str, parent: Transition | None, number: int) -> GateReport:
        """The gate's report on a candidate, against its parent when there is one."""

    def propose(self, history: History) -> Proposal | NoProposal:
        """The next step from the incumbent."""


def now() -> str:
    """UTC in ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Stopped(Exception):
    """A person asked the run to end."""


class Engine:
    """Runs one session. Not thread-safe: every method belongs to one asyncio loop."""

    def __init__(
        self,
        *,
        store: Store,
        workplace: Workplace,
        history: History,
        mode: Mode,
        budget: Budget,
        emit: Callable[[ev.AnyEvent], None],
    ) -> None:
        self._store = store
        self._workplace = workplace
        self._history = history
        self._mode = mode
        self._budget = budget
        self._emit = emit
        self._paused = mode is Mode.MANUAL
        self._stopping = False
        self._changed = asyncio.Event()
        self._answer: tuple[Decide, asyncio.Future[AnyReply]] | None = None
        self._deciding: int | None = None

    @property
    def history(self) -> History:
        """What has been committed so far."""
        return self._history

    # -- wishes -----------------------------------------------------------------------------

    async def grant(self, wish: AnyWish) -> AnyReply:
        """Carry out a wish, or refuse it with the reason; a granted decision is on disk."""
        match wish:
            case Pause():
                self._paused = True
                return Granted(says="the run pauses after the running step")
            case Go():
                self._paused = False
                self._changed.set()
                return Granted(says="the run goes on")
            case Stop():
                self.stop()
                return Granted(says="the run ends after the running step")
            case Decide():
                return await self._decide(wish)
            case Follow():
                return Refused(what="follow is a connection of its own")
            case _:
                assert_never(wish)

    def stop(self) -> None:
        """End the run after the running step."""
        self._stopping = True
        self._changed.set()

    async def _decide(self, wish: Decide) -> AnyReply:
        if wish.answer not in {Answer.ACCEPTED, Answer.VETOED}:
            return Refused(what=f"{wish.answer} is no decision", todo="accept or veto")
        if wish.answer is Answer.VETOED and not wish.reason.strip():
            return Refused(what="a veto needs a reason", todo="say why; the next step reads it")
        if self._deciding is None:
            return Refused(what=f"v{wish.number} waits for no decision; nothing was changed")
        if self._deciding != wish.number or self._answer is not None:
            return Refused(
                what=f"v{wish.number} is not the one that waits; nothing was changed",
                todo=f"v{self._deciding} waits: look at it, then decide",
            )
        reply: asyncio.Future[AnyReply] = asyncio.get_running_loop().create_future()
        self._answer = (wish, reply)
        self._changed.set()
        return await reply

    # -- the run ----------------------------------------------------------------------------

    async def run(self) -> ev.RunEnded:
        """Work until the end; returns how it ended. Raises WorkbenchError when it cannot go on."""
        try:
            if self._history.seed is None:
                fault = await self._seed()
                if fault:
                    return ev.RunEnded(how="failed", says=fault)
            pending = self._history.pending
            if pending is not None:
                await self._ask(pending)
            while True:
                ended = await self._step()
                if ended is not None:
                    return ended
        except Stopped:
            return ev.RunEnded(how="stopped", says=self._kept())

    async def _step(self) -> ev.RunEnded | None:
        limit = exhausted(self._budget, self._history.steps, self._history.cost)
        if limit:
            return ev.RunEnded(how="budget", says=f"{limit}; {self._kept()}")
        await self._wait_while_paused()
        proposal = await asyncio.to_thread(self._workplace.propose, self._history)
        if isinstance(proposal, NoProposal):
            return ev.RunEnded(how="finished", says=f"{proposal.reason}; {self._kept()}")
        parent = self._history.incumbent
        if parent is None:
            raise WorkbenchError("the session has no accepted kernel to start from")
        number = self._history.next_number
        self._emit(ev.PlanMade(number=number, parent=parent.number, plan=proposal.plan))
        transition = await self._gate(
            number, proposal.source, parent, proposal.plan, f"edit {proposal.plan.edit}"
        )
        await self._settle(transition, proposal.source)
        return None

    async def _seed(self) -> str:
        """Gate and commit the seed; a sentence when it does not pass."""
        began = time.monotonic()
        source, origin = await asyncio.to_thread(self._workplace.seed)
        number = self._history.next_number
        transition = await self._gate(number, source, None, None, origin, began=began)
        gate = transition.gate
        accepted = gate.verdict is Verdict.ACCEPTED
        answer = Answer.ACCEPTED if accepted else Answer.REJECTED
        decision = Decision(
            answer=answer, by="gate", reason=origin if accepted else gate.says, at=now()
        )
        self._commit(structs.replace(transition, decision=decision), source)
        if accepted:
            return ""
        return (
            f"the seed ({origin}) is {gate.verdict} at {gate.stage}: {gate.says} [{gate.code}]; "
            "mend it, or start from another with --kernel FILE"
        )

    async def _gate(
        self,
        number: int,
        source: str,
        parent: Transition | None,
        plan: Plan | None,
        origin: str,
        *,
        began: float | None = None,
    ) -> Transition:
        """Gate a candidate; its time counts from `began`, by default from now."""
        if began is None:
            began = time.monotonic()
        report = await asyncio.to_thread(self._workplace.gate, source, parent, number)
        return Transition(
            number=number,
            parent=None if parent is None else parent.number,
            plan=plan,
            gate=report,
            decision=Decision(answer=Answer.PENDING, by="nobody"),
            cost=Cost(gpu_seconds=report.gpu_seconds, wall_seconds=time.monotonic() - began),
            created=now(),
            origin=origin,
        )

    async def _settle(self, transition: Transition, source: str) -> None:
        """Let the gate decide, or commit as pending and ask a person."""
        accepted = transition.gate.verdict is Verdict.ACCEPTED
        if accepted and self._mode is not Mode.AUTO:
            commit = self._store.record_pending(transition, source)
            self._remember(transition, commit)
            await self._ask(transition)
            return
        answer = Answer.ACCEPTED if accepted else Answer.REJECTED
        decision = Decision(answer=answer, by="gate", reason=transition.gate.says, at=now())
        self._commit(structs.replace(transition, decision=decision), source)

    async def _ask(self, transition: Transition) -> None:
        """Wait for a person's answer on a pending transition and commit it."""
        self._deciding = transition.number
        self._emit(ev.DecisionWanted(number=transition.number))
        try:
            await self._until(lambda: self._answer is not None)
            if self._answer is None:
                raise Stopped
            wish, reply = self._answer
        finally:
            self._deciding = None
            self._answer = None
        decision = Decision(answer=wish.answer, by="person", reason=wish.reason, at=now())
        decided = structs.replace(transition, decision=decision)
        try:
            commit = self._store.decide(transition.number, decision, best=self._is_best(decided))
        except WorkbenchError as fault:
            reply.set_result(Refused(what=fault.what, todo=fault.todo))
            raise
        self._remember(decided, commit, decided=True)
        reply.set_result(
            Granted(says=f"v{transition.number} {decision.answer}, commit {commit[:9]}")
        )

    # -- pieces -----------------------------------------------------------------------------

    async def _wait_while_paused(self) -> None:
        self._leave_if_stopping()
        if not self._paused:
            return
        self._emit(ev.RunPaused(says="go starts the next step"))
        await self._until(lambda: not self._paused)
        self._emit(ev.RunResumed())
        # Manual mode asks before every step.
        self._paused = self._mode is Mode.MANUAL

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Sleep until a wish has made it true. Raises Stopped when a person ends the run first."""
        while not holds():
            self._leave_if_stopping()
            self._changed.clear()
            await self._changed.wait()

    def _leave_if_stopping(self) -> None:
        if self._stopping:
            raise Stopped

    def _commit(self, transition: Transition, source: str) -> None:
        commit = self._store.record(transition, source, best=self._is_best(transition))
        self._remember(transition, commit, decided=True)

    def _is_best(self, transition: Transition) -> bool:
        best = self._history.plus(transition).best
        return best is not None and best.number == transition.number

    def _remember(self, transition: Transition, commit: str, *, decided: bool = False) -> None:
        self._history = self._history.plus(transition)
        decision = transition.decision
        if decided:
            self._emit(
                ev.DecisionTaken(
                    number=transition.number,
                    answer=decision.answer,
                    by=decision.by,
                    reason=decision.reason,
                )
            )
        self._emit(ev.TransitionCommitted(number=transition.number, commit=commit))
        self._emit(ev.BudgetSpent(steps=self._history.steps, cost=self._history.cost))

    def _kept(self) -> str:
        best = self._history.best
        return "nothing is accepted yet" if best is None else f"the best is v{best.number}"
