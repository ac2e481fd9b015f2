"""Takes candidates through the gate one by one, while the next ones are started speculatively."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext

from msgspec import structs

from workbench.agents.records import NoCandidate
from workbench.engine import events as ev
from workbench.engine.beaming import Beam, Opened
from workbench.engine.books import Books
from workbench.engine.held import HELD, waiting
from workbench.engine.history import History
from workbench.engine.lookahead import Begun, Lookahead, Step
from workbench.engine.parts import Judged, Sitting, Workplace
from workbench.engine.stopping import gain
from workbench.engine.workclock import WorkClock, now
from workbench.errors import WorkbenchError
from workbench.search.ladder import load_ladder
from workbench.search.records import NoProposal, Proposal
from workbench.search.stops import plateau_reached
from workbench.session.records import Answer, Cost, Decision, Transition
from workbench.session.spends import Spend
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
        width = workplace.beam
        self._beam = (
            Beam(workplace, width, load_ladder().search, books.queued) if width > 1 else None
        )

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

    async def propose(self) -> Proposal | NoProposal | NoCandidate | None:
        """The next step from the incumbent; None where candidates were looked at, and none of them
        is one: then limits and wishes are to be heard before more are opened."""
        if self._beam is not None:
            with self._clock.work():
                found, worked = await self._first_of(self._beam)
            if found is not None or worked:
                return found
        if self._beam is not None or self._turn_of_held():
            back = await self.held()
            if back is not None:
                return back
        # The time of a model is counted with its requests.
        counted = self._clock.work() if self._workplace.talks is None else nullcontext()
        with counted:
            made = await asyncio.to_thread(self._workplace.propose, self._books.history)
        if not isinstance(made, NoProposal):
            return made
        return await self.held() or made

    async def held(self) -> Proposal | None:
        """The best of those that were put aside; None where none of them may still be a gain."""
        if not waiting(self._books.history):
            return None
        return await asyncio.to_thread(self._workplace.held, self._books.history)

    def _turn_of_held(self) -> bool:
        """Whether those that were put aside go before new ones: where those bring nothing, and
        where the budget has no room for more."""
        history = self._books.history
        return self._stands_still(history) or self._books.last_turns(len(waiting(history)))

    async def chosen(self) -> Proposal | NoCandidate | None:
        """The step that a person asked for; None where there is none, or it cannot be made."""
        chooser = self._workplace.chooser
        if chooser is None:
            return None
        counted = self._clock.work() if self._workplace.talks is None else nullcontext()
        with counted:
            return await asyncio.to_thread(chooser.next, self._books.history)

    async def _first_of(self, beam: Beam) -> tuple[Proposal | None, bool]:
        """The candidate of a beam that goes first, if any, and whether anything was done.

        A candidate that was put aside precedes new ones when the run stagnates or has to end soon.
        """
        history = self._books.history
        now = "nothing" if history.incumbent is None else f"v{history.incumbent.number}"
        late = await beam.overtaken(history)
        for one in late:
            await self._put_aside(one, f"{now} went first")
        if not beam.goes_on and self._turn_of_held() and (back := await self.held()) is not None:
            return back, True
        room = self._books.room() + 1
        fresh = await beam.fill(self._books.history, room)
        losers = beam.losers()
        for one in losers:
            await self._put_aside(one, "others go first")
        best = beam.best()
        await beam.write_down(best)
        if best is not None:
            return best.proposal, True
        return None, bool(fresh or losers or late)

    def _stands_still(self, history: History) -> bool:
        """Whether the last steps gained nothing, by the ladder's plateau rule."""
        gains = [gain(t) for t in history.transitions if t.parent is not None]
        return bool(plateau_reached(gains, load_ladder().search))

    async def _put_aside(self, one: Opened, why: str) -> None:
        """Commit a candidate that goes no further now, with the results of its rungs."""
        number, plan, look = self._books.history.next_number, one.step.plan, one.look
        parent = one.step.parent.number
        self._emit(ev.PlanMade(number=number, parent=parent, plan=plan))
        one.sitting.called(number)
        one.sitting.attend()
        if look.action == "prune":
            judged = await asyncio.to_thread(one.sitting.finish, self._books.history)
        else:
            says = f"put aside: {look.reason}; {why}"
            judged = await asyncio.to_thread(one.sitting.put_aside, HELD, says)
        made = self._made(number, parent, plan, judged, f"edit {plan.edit}")
        decision = Decision(answer=Answer.REJECTED, by="gate", reason=made.gate.says, at=now())
        self._books.commit(structs.replace(made, decision=decision), one.step.source)

    async def step(
        self, source: str, plan: Plan, origin: str, *, alone: bool = False
    ) -> Transition:
        """Announce a plan and gate its candidate against the incumbent.

        `alone`: nothing is begun beside it. Raises WorkbenchError where nothing is accepted yet.
        """
        history = self._books.history
        parent, number = history.start(), history.next_number
        self._emit(ev.PlanMade(number=number, parent=parent.number, plan=plan))
        opened = None if self._beam is None else self._beam.take(parent.number, source)
        begun = self._ahead.take(number, parent.number, source)
        running = Step(number=number, parent=parent, source=source, plan=plan, history=history)
        with self._clock.work():
            sitting = self._sitting_of(opened, begun, running)
            sitting.attend()
            if not alone:
                self._ahead.expect_refused(running, history, self._books.room())
            if begun is not None and not await self._ahead.ready(begun):
                begun, sitting = None, self._sitting(running)
                sitting.attend()
            judged = await self._finished(sitting, begun or opened)
        return self._made(number, parent.number, plan, judged, origin)

    def while_waiting(self, transition: Transition) -> None:
        """Start what follows if the person accepts."""
        self._ahead.expect_accepted(transition, self._books.history, self._books.room())

    def resume(self) -> None:
        """Open the candidates again that were open when an engine last worked here."""
        if self._beam is not None:
            self._beam.restore(self._books.history, self._books.source)

    async def close(self) -> None:
        """Cancel speculative work, wait for its end, and record its cost."""
        await self._ahead.close()
        owed = self._ahead.bill()
        for one in await self._beam.close() if self._beam is not None else ():
            cost = Cost(gpu_seconds=one.sitting.gpu_seconds)
            self._emit(ev.AheadDropped(number=one.step.number, cost=cost))
            owed = owed.plus(cost)
        self._keep(owed)

    def _keep(self, owed: Cost) -> None:
        """Bill the session for costs that no step will pay any more."""
        incumbent = self._books.history.incumbent
        if incumbent is None or not owed.gpu_seconds:
            return
        spend = Spend(purpose="thrown away", version=incumbent.number, cost=owed, at=now())
        try:
            self._books.spend(spend)
        except WorkbenchError as fault:
            says = f"{owed.gpu_seconds:.1f} GPU-s of work thrown away are in no record: {fault}"
            self._emit(ev.Note(level="warning", says=says))

    def _sitting_of(self, opened: Opened | None, begun: Begun | None, running: Step) -> Sitting:
        if opened is not None:
            opened.sitting.called(running.number)
            return opened.sitting
        return begun.sitting if begun is not None else self._sitting(running)

    def _sitting(self, one: Step) -> Sitting:
        return self._workplace.sit(one.source, one.history, one.number, one.plan)

    async def _finished(self, sitting: Sitting, begun: Begun | Opened | None) -> Judged:
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
