"""Speculative execution: starts the candidates that come next if the running step is refused.

Nothing here decides. A step is chosen when its turn has come, from what was committed; if the very
same candidate was started before, its gate continues from there, else it is discarded. The
committed steps are therefore those that would have been made without speculation.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct, structs

from workbench.engine import events as ev
from workbench.engine.history import History
from workbench.engine.parts import GivenUp, Sitting, Workplace
from workbench.engine.workclock import WorkClock
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Stage, Verdict
from workbench.measure.records import Kind, Speed
from workbench.search.records import Proposal
from workbench.session.records import Answer, Cost, Decision, Transition
from workbench.skills.records import Plan


class Step(Struct, frozen=True, kw_only=True):
    """A candidate with its parent and the number it has, or would have."""

    number: int
    parent: Transition
    source: str
    plan: Plan
    history: History
    """What is, or would be, committed before it."""


class Begun:
    """A step whose gate started before its turn."""

    def __init__(self, step: Step, sitting: Sitting) -> None:
        self.step = step
        self.sitting = sitting
        self.began = time.monotonic()
        self.seconds = 0.0
        """Seconds that its workers worked; 0 until they are done."""
        self.task: asyncio.Task[bool] | None = None

    @property
    def done(self) -> bool:
        """Whether none of its work is running any more."""
        return self.task is not None and self.task.done()

    async def ready(self) -> bool:
        """Wait for the speculative part; False when it failed."""
        return self.task is not None and await self.task


class _Chain:
    """Steps that follow one another if each of them is refused."""

    def __init__(self, history: History, drafts: dict[int, str]) -> None:
        self.history = history
        """The history as it would be if all of `begun` were refused."""
        self.drafts = drafts
        """Sources of its versions that are not in git."""
        self.begun: list[Begun] = []
        self.planner: asyncio.Task[None] | None = None
        self.ended = False
        """Nothing more is to be planned."""


class Lookahead:
    """Belongs to one asyncio loop. At most `depth` candidates are in progress beside the running
    one.
    """

    def __init__(
        self,
        workplace: Workplace,
        clock: WorkClock,
        emit: Callable[[ev.AnyEvent], None],
        depth: int,
    ) -> None:
        self._workplace = workplace
        self._clock = clock
        self._emit = emit
        self._depth = depth
        self._chains: list[_Chain] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._owed = Cost()
        # One more thread for the planner, which proposes while candidates run.
        self._pool = ThreadPoolExecutor(depth + 1, thread_name_prefix="ahead") if depth else None

    def take(self, number: int, parent: int, source: str) -> Begun | None:
        """What was started of this candidate, if anything; cancels all that cannot come true."""
        found: _Chain | None = None
        for chain in self._chains:
            head = chain.begun[0] if chain.begun else None
            wanted = head is not None and found is None and _is(head, number, parent, source)
            found = chain if wanted else found
            if not wanted:
                self._drop(chain)
        self._chains = [found] if found is not None else []
        if found is None:
            return None
        return found.begun.pop(0)

    async def ready(self, begun: Begun) -> bool:
        """Wait for what was taken; False when it failed and its gate has to start anew."""
        head = begun.seconds or time.monotonic() - begun.began
        if await begun.ready():
            self._emit(ev.AheadUsed(number=begun.step.number, seconds=head))
            return True
        await self._leave(begun)
        return False

    def expect_refused(self, running: Step, history: History, room: int) -> None:
        """Start what follows if the running candidate is refused; at most `room` steps."""
        if not self._chains:
            after = history.plus(as_if_refused(running))
            self._chains = [_Chain(after, {running.number: running.source})]
        self._go_on(self._chains[0], room)

    def expect_accepted(self, waiting: Transition, history: History, room: int) -> None:
        """Start what follows if a person accepts the transition that waits.

        The gate has accepted it, and a person mostly does too: so unfinished work that expects a
        refusal is cancelled, and finished work is kept for a veto (ours).
        """
        for chain in self._chains:
            self._cut_short(chain)
        decision = Decision(answer=Answer.ACCEPTED, by="nobody")
        accepted = structs.replace(waiting, decision=decision)
        chain = _Chain(history.plus(accepted), {})
        self._chains.append(chain)
        self._go_on(chain, room)

    def bill(self) -> Cost:
        """The cost of discarded work since the last call, each second counted once."""
        owed, self._owed = self._owed, Cost()
        return owed

    async def close(self) -> None:
        """Cancel everything and wait for its end."""
        for chain in self._chains:
            self._drop(chain)
        self._chains = []
        while self._leaving:
            await asyncio.gather(*self._leaving)
        if self._pool is not None:
            self._pool.shutdown()

    # -- beginning --------------------------------------------------------------------------

    def _go_on(self, chain: _Chain, room: int) -> None:
        depth = min(self._depth, room) - len(chain.begun)
        if depth > 0 and not chain.ended and (chain.planner is None or chain.planner.done()):
            chain.planner = asyncio.create_task(self._plan(chain, depth))

    async def _plan(self, chain: _Chain, count: int) -> None:
        """Choose and start the next `count` candidates of a chain."""
        loop = asyncio.get_running_loop()
        for _ in range(count):
            with self._clock.work():
                try:
                    proposal = await loop.run_in_executor(
                        self._pool, self._workplace.foresee, chain.history, chain.drafts
                    )
                except WorkbenchError:
                    # The step meets the same fault when its turn has come, and reports it.
                    proposal = None
            incumbent = chain.history.incumbent
            if not isinstance(proposal, Proposal) or incumbent is None:
                chain.ended = True
                return
            step = Step(
                number=chain.history.next_number,
                parent=incumbent,
                source=proposal.source,
                plan=proposal.plan,
                history=chain.history,
            )
            chain.history = chain.history.plus(as_if_refused(step))
            chain.drafts = {**chain.drafts, step.number: step.source}
            chain.begun.append(self._begin(step))

    def _begin(self, step: Step) -> Begun:
        sitting = self._workplace.sit(step.source, step.history, step.number, step.plan)
        begun = Begun(step, sitting)
        begun.task = asyncio.create_task(self._work(begun))
        return begun

    async def _work(self, begun: Begun) -> bool:
        loop = asyncio.get_running_loop()
        with self._clock.work():
            try:
                await loop.run_in_executor(self._pool, begun.sitting.begin)
            except (GivenUp, WorkbenchError):
                # A worker did not start: the step starts anew when its turn has come.
                return False
            finally:
                begun.seconds = time.monotonic() - begun.began
        return True

    # -- giving up --------------------------------------------------------------------------

    def _cut_short(self, chain: _Chain) -> None:
        """Cancel what is not done yet and all behind it; the chain may continue from there."""
        if chain.planner is not None:
            chain.planner.cancel()
            chain.planner = None
        done = next((n for n, one in enumerate(chain.begun) if not one.done), len(chain.begun))
        late = chain.begun[done:]
        del chain.begun[done:]
        if late:
            chain.history = late[0].step.history
        self._give_up(late)

    def _drop(self, chain: _Chain) -> None:
        chain.ended = True
        if chain.planner is not None:
            chain.planner.cancel()
        self._give_up(chain.begun)

    def _give_up(self, given_up: Iterable[Begun]) -> None:
        for begun in given_up:
            begun.sitting.give_up()
            leaving = asyncio.create_task(self._leave(begun))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def _leave(self, begun: Begun) -> None:
        """Wait for its end, and record its cost."""
        await begun.ready()
        cost = Cost(gpu_seconds=begun.sitting.gpu_seconds, ahead_seconds=begun.seconds)
        self._owed = self._owed.plus(cost)
        self._emit(ev.AheadDropped(number=begun.step.number, cost=cost))


def _is(begun: Begun, number: int, parent: int, source: str) -> bool:
    step = begun.step
    return (step.number, step.parent.number, step.source) == (number, parent, source)


def as_if_refused(step: Step) -> Transition:
    """A transition as if its candidate were right and no faster; never committed.

    Most refused candidates are. The proposer depends on nothing else of it.
    """
    report = GateReport(
        verdict=Verdict.REJECTED,
        stage=Stage.PROFILE,
        code="",
        says="",
        stages=(),
        rung=0,
        kernel_sha256="",
        target="",
        device="",
        speed=Speed(kind=Kind.MODELED, ratio=1.0),
    )
    return Transition(
        number=step.number,
        parent=step.parent.number,
        plan=step.plan,
        gate=report,
        decision=Decision(answer=Answer.REJECTED, by="nobody"),
        cost=Cost(),
        created="",
    )
