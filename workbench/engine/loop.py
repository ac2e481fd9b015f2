"""The one loop that runs a session: plan, gate, decide, commit, until a limit or the end."""

import asyncio
from collections.abc import Callable
from typing import assert_never

from msgspec import structs

from workbench.agents.records import BudgetEnds, NoCandidate
from workbench.engine import events as ev
from workbench.engine.books import Books
from workbench.engine.gating import Gating
from workbench.engine.helm import Helm
from workbench.engine.history import History
from workbench.engine.holds import Holds
from workbench.engine.lastlook import LastLook
from workbench.engine.parts import Store, Workplace
from workbench.engine.stopping import Stopping
from workbench.engine.submissions import Desk, submitted_plan
from workbench.engine.wishes import (
    AnyReply,
    AnyWish,
    Branch,
    Choose,
    Decide,
    Follow,
    Go,
    Granted,
    Hint,
    Pause,
    Refused,
    Stop,
    Submit,
    Undo,
)
from workbench.engine.workclock import now
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.search.proposer import NoProposal
from workbench.session.records import (
    Answer,
    Budget,
    Decision,
    Mode,
    Transition,
)

SEED_TRIES = 3
"""First candidates of a model that may be refused before a run is given up; ours."""


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
        holds: Holds | None = None,
    ) -> None:
        self._workplace = workplace
        look = workplace.last_look_price
        self._books = Books(store, workplace.talks, history, budget, emit, look, holds)
        self._stopping_rules = Stopping(history.next_number)
        self._last_look = LastLook(workplace, self._books, emit)
        self._gating = Gating(workplace, self._books, emit)
        self._mode = mode
        self._emit = emit
        self._paused = mode is Mode.MANUAL
        self._stopping = False
        self._changed = asyncio.Event()
        self._answer: tuple[Decide, asyncio.Future[AnyReply]] | None = None
        self._deciding: int | None = None
        self._desk = Desk()
        self._helm = Helm(store, emit)

    @property
    def history(self) -> History:
        """What has been committed so far."""
        return self._books.history

    # -- wishes -----------------------------------------------------------------------------

    async def grant(self, wish: AnyWish) -> AnyReply:  # noqa: PLR0911 -- one case a wish
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
            case Hint():
                return self._hint(wish.text)
            case Choose():
                return await self._choose(wish)
            case Undo() | Branch():
                moved = self._helm.ask(wish, self.history, self._deciding)
                self._changed.set()
                return await moved
            case Submit():
                reply = self._desk.put(wish)
                self._changed.set()
                return await reply
            case Follow():
                return Refused(what="follow is a connection of its own")
            case _:
                assert_never(wish)

    def stop(self) -> None:
        """End the run after the running step."""
        self._stopping = True
        self._changed.set()

    def _hint(self, text: str) -> AnyReply:
        talks = self._workplace.talks
        if talks is None:
            return Refused(
                what="no model is asked in this session, so there is no prompt to put it into",
                todo="workbench run PROBLEM --proposer both",
            )
        talks.hint(self.history.next_number, text)
        return Granted(says=f"kept for the prompts from v{self.history.next_number} on")

    async def _choose(self, wish: Choose) -> AnyReply:
        chooser = self._workplace.chooser
        if chooser is None:
            return Refused(what="nothing can be chosen here")
        return Granted(says=await asyncio.to_thread(chooser.choose, wish))

    async def _decide(self, wish: Decide) -> AnyReply:
        if wish.answer not in {Answer.ACCEPTED, Answer.VETOED}:
            return Refused(what=f"{wish.answer} is not a decision", todo="accept or veto")
        if wish.answer is Answer.VETOED and not wish.reason.strip():
            return Refused(what="a veto needs a reason", todo="say why; the next step reads it")
        if self._deciding is None:
            return Refused(what=f"v{wish.number} does not wait for a decision; nothing was changed")
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
            fault = await self._begin()
            if fault:
                return ev.RunEnded(how="failed", says=fault)
            pending = self.history.pending
            if pending is not None:
                await self._ask(pending)
            self._gating.resume()
            while True:
                ended = await self._step()
                # A move that was asked for in the last step may open a way on.
                if ended is not None and not self._helm.waits():
                    return await self._looked_at(ended)
        except Stopped:
            return ev.RunEnded(how="stopped", says=self._books.kept())
        except BudgetEnds as spent:
            says = f"{spent}; {self._books.kept()}"
            return await self._looked_at(ev.RunEnded(how="budget", says=says))
        finally:
            await self._close()

    async def _looked_at(self, ended: ev.RunEnded) -> ev.RunEnded:
        """`ended`, with what the last look at the best kernel said."""
        # What was begun for a step that does not come wastes the GPU, and is to be paid first.
        await self._gating.close()
        says = "" if self._stopping else await self._last_look.says()
        return structs.replace(ended, says=f"{ended.says}; {says}") if says else ended

    async def run_one(self, wish: Submit) -> ev.RunEnded:
        """Gate one submitted candidate as the next transition, and leave a decision waiting."""
        try:
            fault = await self._begin()
            if fault:
                return ev.RunEnded(how="failed", says=fault)
            waiting = self.history.pending
            if waiting is not None:
                says = f"v{waiting.number} waits for your decision first"
                return ev.RunEnded(how="failed", says=says)
            says = await self._submitted(wish, alone=True)
        finally:
            await self._close()
        return ev.RunEnded(how="finished", says=says)

    async def _close(self) -> None:
        """Answer whoever still waits for something, and give up what was begun."""
        self._desk.close()
        self._helm.close()
        await self._gating.close()

    async def _begin(self) -> str:
        """Make sure that there is a seed; the reason where there is none, else empty."""
        talks = self._workplace.talks
        if talks is not None:
            talks.begin(self.history)
        fault = "" if self.history.seed is not None else await self._seed()
        while fault and self._may_try_another_seed():
            self._emit(ev.Note(level="warning", says=fault))
            fault = await self._seed()
        self._books.pay_cut_off(now())
        return fault

    def _may_try_another_seed(self) -> bool:
        """A model's first candidate may be refused; it gets to see why, a few times."""
        tries = [t for t in self.history.transitions if t.origin.startswith("model ")]
        return 0 < len(tries) < SEED_TRIES

    async def _step(self) -> ev.RunEnded | None:
        self._move_main()
        if (over := self._over()) is not None:
            return over
        await self._wait_while_paused()
        wish = self._desk.take()
        if wish is not None:
            self._desk.answer(await self._submitted(wish))
            return None
        chosen = await self._gating.chosen()
        if chosen is None and (rests := self._stopping_rules.says(self.history)):
            # A run that makes no headway has time for those that were put aside.
            near = self._stopping_rules.near(self.history)
            chosen = None if near else await self._gating.held()
            if chosen is None:
                return ev.RunEnded(how="finished", says=f"{rests}; {self._books.kept()}")
        proposal = await self._gating.propose() if chosen is None else chosen
        if isinstance(proposal, NoProposal):
            return ev.RunEnded(how="finished", says=f"{proposal.reason}; {self._books.kept()}")
        if isinstance(proposal, NoCandidate):
            self._emit(ev.Note(level="warning", says=proposal.says))
            self._books.tell_budget()
        elif proposal is not None:
            source, plan = proposal.source, proposal.plan
            origin = f"model, {plan.method}" if plan.method else f"edit {plan.edit}"
            await self._settle(await self._gating.step(source, plan, origin), source)
        return None

    def _over(self) -> ev.RunEnded | None:
        """The end, where the goal or a limit is reached."""
        if goal := self._books.goal():
            return ev.RunEnded(how="finished", says=f"{goal}; {self._books.kept()}")
        if limit := self._books.limit():
            return ev.RunEnded(how="budget", says=f"{limit}; {self._books.kept()}")
        return None

    async def _submitted(self, wish: Submit, *, alone: bool = False) -> str:
        """Gate and commit what a person or an outside agent wrote; what became of it.

        `alone`: nothing is done beside it, and nobody is asked.
        """
        if wish.hint.strip() and self._workplace.talks is not None:
            self._workplace.talks.hint(self.history.next_number, wish.hint)
        transition = await self._gating.step(
            wish.source, submitted_plan(wish), wish.origin, alone=alone
        )
        await self._settle(transition, wish.source, ask=not alone)
        done = self.history.get(transition.number)
        return f"v{done.number} {done.decision.answer}: {done.gate.says}"

    async def _seed(self) -> str:
        """Gate and commit the seed; the reason where it does not pass, else empty."""
        transition, source, origin = await self._gating.seed()
        gate = transition.gate
        accepted = gate.verdict is Verdict.ACCEPTED
        answer = Answer.ACCEPTED if accepted else Answer.REJECTED
        decision = Decision(
            answer=answer, by="gate", reason=origin if accepted else gate.says, at=now()
        )
        self._books.commit(structs.replace(transition, decision=decision), source)
        if accepted:
            return ""
        return (
            f"the seed ({origin}) is {gate.verdict} at {gate.stage}: {gate.says} [{gate.code}]; "
            "mend it, or start from another with --kernel FILE"
        )

    async def _settle(self, transition: Transition, source: str, *, ask: bool = True) -> None:
        """Let the gate decide, or commit as pending and, unless told not to, ask a person."""
        accepted = transition.gate.verdict is Verdict.ACCEPTED
        if accepted and self._mode is not Mode.AUTO:
            self._books.commit_pending(transition, source)
            if ask:
                await self._ask(transition)
            return
        answer = Answer.ACCEPTED if accepted else Answer.REJECTED
        decision = Decision(answer=answer, by="gate", reason=transition.gate.says, at=now())
        self._books.commit(structs.replace(transition, decision=decision), source)

    async def _ask(self, transition: Transition) -> None:
        """Wait for a person's answer on a pending transition and commit it."""
        self._deciding = transition.number
        self._emit(ev.DecisionWanted(number=transition.number))
        self._gating.while_waiting(transition)
        try:
            wish, reply = await self._answered(transition)
        finally:
            self._deciding = None
            self._answer = None
        decision = Decision(answer=wish.answer, by="person", reason=wish.reason, at=now())
        decided = structs.replace(transition, decision=decision)
        try:
            commit = self._books.decide(decided, decision)
        except WorkbenchError as fault:
            reply.set_result(Refused(what=fault.what, todo=fault.todo))
            raise
        reply.set_result(
            Granted(says=f"v{transition.number} {decision.answer}, commit {commit[:9]}")
        )

    async def _answered(self, transition: Transition) -> tuple[Decide, asyncio.Future[AnyReply]]:
        """A person's answer, or the veto that lies in taking back what it was made from."""
        while self._answer is None:
            overtaken = self._helm.overtakes(transition, self.history)
            if overtaken:
                veto = Decide(number=transition.number, answer=Answer.VETOED, reason=overtaken)
                return veto, asyncio.get_running_loop().create_future()
            await self._until(lambda: self._answer is not None or self._helm.waits())
        return self._answer

    # -- pieces -----------------------------------------------------------------------------

    async def _wait_while_paused(self) -> None:
        self._leave_if_stopping()
        if not self._paused or self._desk.waits():
            return
        self._emit(ev.RunPaused(says="go starts the next step"))
        while self._paused and not self._desk.waits():
            await self._until(lambda: not self._paused or self._desk.waits() or self._helm.waits())
            self._move_main()
        self._emit(ev.RunResumed())
        if self._desk.waits():
            # A candidate was submitted; the pause goes on behind it.
            return
        # Manual mode asks before every step.
        self._paused = self._mode is Mode.MANUAL

    def _move_main(self) -> None:
        """Between two steps: what a person asked to take back, or to go on from."""
        if self._helm.waits():
            self._books.history = self._helm.carry_out(self.history, now())
            if self._workplace.talks is not None:
                self._workplace.talks.begin(self.history)

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Sleep until a wish has made it true. Raises Stopped when a person ends the run first."""
        while not holds():
            self._leave_if_stopping()
            self._changed.clear()
            await self._changed.wait()

    def _leave_if_stopping(self) -> None:
        if self._stopping:
            raise Stopped
