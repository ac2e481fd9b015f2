"""Brings candidates through the gate one by one, the next ones already begun meanwhile."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext

from msgspec import structs

from workbench.agents.records import NoCandidate
from workbench.engine import events as ev
from workbench.engine.books import Books
from workbench.engine.lookahead import Begun, Lookahead, Step
from workbench.engine.parts import Judged, Sitting, Workplace
from workbench.engine.workclock import WorkClock, now
from workbench.errors import WorkbenchError
from workbench.search.records import NoProposal, Proposal
from workbench.session.records import Answer, Cost, Decision, Transition
from workbench.skills.records import Plan


class Gating:
    """Belongs to one asyncio loop."""

    def __init__(
        self, workplace: Workplace, books: Books, emit: Callable[[ev.AnyEvent], None]
    ) -> None:
        self._workplace = workplace
        self._books = books
        self._emit = emit
        self._clock = WorkClock()
        self._ahead = Lookahead(workplace, self._clock, emit, workplace.depth)

    async def seed(self) -> tuple[Transition, str, str]:
        """The seed's transition, its source, and where that came from."""
        with self._clock.work():
            source, origin = await asyncio.to_thread(self._workplace.seed)
            number = self._books.history.next_number
            sitting = self._workplace.sit(source, self._books.history, number, None)
            sitting.attend()
            judged = await self._finished(sitting, None)
        made = self._made(number, None, None, judged, origin, within=True)
        return made, source, origin

    async def propose(self) -> Proposal | NoProposal | NoCandidate:
        """The next step from the incumbent."""
        # What a model takes is counted with its talk.
        counted = self._clock.work() if self._workplace.talks is None else nullcontext()
        with counted:
            return await asyncio.to_thread(self._workplace.propose, self._books.history)

    async def step(
        self, source: str, plan: Plan, origin: str, *, alone: bool = False
    ) -> Transition:
        """Announce a plan and gate its candidate against the incumbent; `alone`: nothing beside."""
        history = self._books.history
        parent, number = history.incumbent, history.next_number
        if parent is None:
            raise WorkbenchError("the session has no accepted kernel to start from")
        self._emit(ev.PlanMade(number=number, parent=parent.number, plan=plan))
        begun = self._ahead.take(number, parent.number, source)
        running = Step(number=number, parent=parent, source=source, plan=plan, history=history)
        with self._clock.work():
            sitting = begun.sitting if begun is not None else self._sitting(running)
            sitting.attend()
            if not alone:
                self._ahead.expect_refused(running, history, self._books.room())
            if begun is not None and not await self._ahead.ready(begun):
                begun, sitting = None, self._sitting(running)
                sitting.attend()
            judged = await self._finished(sitting, begun)
        return self._made(number, parent.number, plan, judged, origin)

    def while_waiting(self, transition: Transition) -> None:
        """Begin what follows if a person says yes."""
        self._ahead.expect_accepted(transition, self._books.history, self._books.room())

    async def close(self) -> None:
        """Give up what was begun, and wait for its end."""
        await self._ahead.close()

    def _sitting(self, one: Step) -> Sitting:
        return self._workplace.sit(one.source, one.history, one.number, one.plan)

    async def _finished(self, sitting: Sitting, begun: Begun | None) -> Judged:
        if begun is None:
            await asyncio.to_thread(sitting.begin)
        return await asyncio.to_thread(sitting.finish, self._books.history)

    def _made(
        self,
        number: int,
        parent: int | None,
        plan: Plan | None,
        judged: Judged,
        origin: str,
        *,
        within: bool = False,
    ) -> Transition:
        """The transition of a gated candidate, with everything spent since the one before it.

        `within`: the clock ran while a model was asked.
        """
        for visit in judged.rungs:
            self._emit(ev.RungReached(number=number, visit=visit))
        cost = Cost(gpu_seconds=judged.report.gpu_seconds, wall_seconds=self._clock.lap())
        cost = cost.plus(self._ahead.bill())
        if self._workplace.talks is not None:
            talk = self._workplace.talks.cost_of(number)
            cost = cost.plus(structs.replace(talk, wall_seconds=0.0) if within else talk)
        return Transition(
            number=number,
            parent=parent,
            plan=plan,
            gate=judged.report,
            decision=Decision(answer=Answer.PENDING, by="nobody"),
            cost=cost,
            created=now(),
            origin=origin,
            rungs=judged.rungs,
        )
