"""The beam: candidates that are evaluated in parallel, and which of them goes first.

The beam only puts candidates aside: what is kept has been through the whole gate. Open candidates
are written down before they are evaluated, so that a killed run resumes with the same ones.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import structs

from workbench.engine.history import History
from workbench.engine.lookahead import Step, as_if_refused
from workbench.engine.parts import GivenUp, Look, Sitting, Workplace
from workbench.errors import WorkbenchError
from workbench.search.beam import Waiting, beam
from workbench.search.ladder import SearchSpec
from workbench.search.records import Proposal
from workbench.session.queue import Queued, Seen


class Opened:
    """A candidate that is, or was, evaluated in the beam."""

    def __init__(self, step: Step, sitting: Sitting, place: int) -> None:
        self.step = step
        self.sitting = sitting
        self.place = place
        self.task: asyncio.Task[None] | None = None
        self.found: Look | None = None

    @property
    def proposal(self) -> Proposal:
        """The candidate as a proposed step."""
        return Proposal(plan=self.step.plan, source=self.step.source)

    @property
    def look(self) -> Look:
        """The result; only of a candidate whose task is done."""
        if self.found is None:
            raise RuntimeError("it was not looked at")
        return self.found


class Beam:
    """Belongs to one asyncio loop. At most `width` candidates are open at once."""

    def __init__(
        self,
        workplace: Workplace,
        width: int,
        spec: SearchSpec,
        kept: Callable[[Sequence[Queued]], None] = lambda _queue: None,
    ) -> None:
        """`kept` receives what was written down, once it is on disk."""
        self._workplace = workplace
        self._kept = kept
        self._writing = asyncio.Lock()
        self._width = width
        lines = structs.replace(spec.lines, value=float(width))
        self._spec = structs.replace(spec, lines=lines)
        self._open: list[Opened] = []
        self._places = 0
        self._was_filled = False
        self._pool = ThreadPoolExecutor(width, thread_name_prefix="beam")

    def restore(self, history: History, seen: Callable[[int], str]) -> None:
        """Open again what was open when an engine last worked on the session.

        `seen` gives the source of a version. What was committed since then is left out.
        """
        known = {t.number for t in history.transitions}
        first_done = False
        for queued in self._workplace.queue():
            siblings = [t for t in history.transitions if t.parent == queued.parent]
            if queued.parent not in known or any(seen(t.number) == queued.source for t in siblings):
                first_done = first_done or queued.first
                continue
            parent = history.get(queued.parent)
            step = Step(
                number=history.next_number,
                parent=parent,
                source=queued.source,
                plan=queued.plan,
                history=structs.replace(history, main=parent.number),
            )
            self._begun(step, queued.seen)
        self._was_filled = not first_done

    @property
    def goes_on(self) -> bool:
        """Whether the open candidates come from a run that ended before choosing among them."""
        return self._was_filled and bool(self._open)

    async def overtaken(self, history: History) -> list[Opened]:
        """Remove and return candidates that were not made from the incumbent."""
        now = None if history.incumbent is None else history.incumbent.number
        late = [one for one in self._open if one.step.parent.number != now]
        await _all_looked_at(late)
        return self._leave(late)

    async def fill(self, history: History, room: int) -> bool:
        """Open the candidates that the cards propose next; False where none was opened.

        Each is proposed as if those before it were refused, so that a beam tries one card after the
        other before another value of one. Raises WorkbenchError as the gate does.
        """
        going_on, self._was_filled = self.goes_on, False
        chain = history
        drafts: dict[int, str] = {}
        for one in self._open:
            step = structs.replace(one.step, number=chain.next_number)
            chain, drafts = chain.plus(as_if_refused(step)), {**drafts, step.number: step.source}
        before = len(self._open)
        while not going_on and len(self._open) < min(self._width, room):
            proposal = await asyncio.to_thread(self._workplace.foresee, chain, drafts)
            parent = chain.incumbent
            if not isinstance(proposal, Proposal) or parent is None:
                break
            step = Step(
                number=chain.next_number,
                parent=parent,
                source=proposal.source,
                plan=proposal.plan,
                history=chain,
            )
            chain, drafts = chain.plus(as_if_refused(step)), {**drafts, step.number: step.source}
            self._begun(step)
        fresh = len(self._open) > before
        if fresh:
            await self.write_down(None)
        await _all_looked_at(self._open)
        return fresh

    async def write_down(self, first: Opened | None) -> None:
        """Record which candidates are open, their results so far, and which goes first."""
        async with self._writing:
            await self._write([_queued(one, first=one is first) for one in self._open])

    async def _write(self, queue: Sequence[Queued]) -> None:
        await asyncio.to_thread(self._workplace.keep_queue, queue)
        self._kept(queue)

    def losers(self) -> list[Opened]:
        """Remove and return candidates that rank behind the first, or whose results are against
        them.
        """
        return self._leave([one for one in self._open if one.look.action != "promote"])

    def best(self) -> Opened | None:
        """The candidate that goes first; it stays in the beam until it is taken."""
        by_source = {one.step.source: one for one in self._open}
        queue = [
            Waiting(
                sha256=one.step.source,
                score=one.look.score,
                technique=one.step.plan.card,
                place=one.place,
            )
            for one in self._open
        ]
        first = beam(queue, self._spec)
        return by_source[first[0].sha256] if first else None

    def take(self, parent: int, source: str) -> Opened | None:
        """Remove and return this candidate."""
        found = [
            one
            for one in self._open
            if (one.step.parent.number, one.step.source) == (parent, source)
        ]
        return self._leave(found)[0] if found else None

    async def close(self) -> list[Opened]:
        """Cancel everything and wait for its end; returns what was open, for whoever pays for it.

        Whoever resumes the run finds what was seen of them, marked as paid.
        """
        for one in self._open:
            one.sitting.give_up()
        tasks = [one.task for one in self._open if one.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pool.shutdown()
        if any(one.sitting.seen is not None for one in self._open):
            # A full disk must not keep the run from ending.
            with contextlib.suppress(WorkbenchError):
                await self._write([_paid(_queued(one, first=False)) for one in self._open])
        return self._leave(self._open)

    def _begun(self, step: Step, seen: Seen | None = None) -> None:
        # Seeded by the kernel it is made from: its number is not known yet.
        parent = step.parent.number
        sitting = self._workplace.sit(step.source, step.history, parent, step.plan)
        if seen is not None:
            sitting.recall(seen)
        one = Opened(step, sitting, self._places)
        self._places += 1
        one.task = asyncio.create_task(self._looked_at(one))
        self._open.append(one)

    async def _looked_at(self, one: Opened) -> None:
        def look() -> Look:
            one.sitting.begin()
            return one.sitting.look()

        try:
            one.found = await asyncio.get_running_loop().run_in_executor(self._pool, look)
        except GivenUp:
            one.found = Look(action="hold", reason="it was given up", score=0.0)
            return
        if one.sitting.seen is not None:
            await self.write_down(None)

    def _leave(self, leaving: Sequence[Opened]) -> list[Opened]:
        self._open = [one for one in self._open if one not in leaving]
        return list(leaving)


async def _all_looked_at(some: Sequence[Opened]) -> None:
    await asyncio.gather(*(one.task for one in some if one.task is not None))


def _queued(one: Opened, *, first: bool) -> Queued:
    step = one.step
    plain = Queued(parent=step.parent.number, plan=step.plan, source=step.source, first=first)
    if one.found is None:
        return plain
    look, seen = one.found, one.sitting.seen
    return structs.replace(
        plain, action=look.action, reason=look.reason, score=look.score, seen=seen
    )


def _paid(one: Queued) -> Queued:
    seen = None if one.seen is None else structs.replace(one.seen, paid=True)
    return structs.replace(one, seen=seen)
