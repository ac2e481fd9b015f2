"""A session as a screen or command sees it: snapshots out of git and the log, wishes in."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import structs

from workbench.engine.events import AnyEvent, DecisionTaken, MainMoved, TransitionCommitted
from workbench.engine.fold import fold
from workbench.engine.generated import VersionCode, code_of, compiled_again
from workbench.engine.opening import Opened
from workbench.engine.view import Snapshot, State
from workbench.engine.wishes import (
    AnyMove,
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
    Stop,
    Submit,
    Undo,
)
from workbench.errors import WorkbenchError
from workbench.session.names import spoken
from workbench.session.records import Answer, Transition

_RECONNECT_SECONDS = 1.0
_SETTLE_SECONDS = 0.05
"""Events that come closer together than this make one snapshot."""
_START_SECONDS = 120.0
"""A process's first import of torch takes so long on a busy machine or a network's disk."""
_BATCH = 256
_LINE_LIMIT = 64 << 20


class SessionClient:
    """One session folder. Reading never needs the engine; wishes do.

    Raises WorkbenchError when the folder holds no session that can be read.
    """

    def __init__(self, path: Path, *, starting: bool = False) -> None:
        """`starting`: an engine was just started and may not hold the session yet."""
        self._opened = Opened(path)
        self._snapshot = self._opened.snapshot()
        self._starting = starting and not self.alive()
        if self._starting:
            self._snapshot = structs.replace(self._snapshot, state=State.STARTING)

    @property
    def name(self) -> str:
        """Name of the session."""
        return self._snapshot.name

    def snapshot(self) -> Snapshot:
        """The newest known moment; costs nothing."""
        return self._snapshot

    def read_again(self) -> Snapshot:
        """The session as git and the log have it now."""
        self._snapshot = self._opened.snapshot()
        return self._snapshot

    def transition(self, number: int) -> Transition:
        """The full record of a version; reads git."""
        return self._opened.store.transition(number)

    def newest(self) -> Transition:
        """The full record of the newest version; reads git."""
        return self.transition(self._opened.store.next_number() - 1)

    def model_costs(self) -> dict[str, str]:
        """What each role's requests cost so far, in words; empty where no model was asked."""
        from workbench.agents.ledger import read_lines, spent_by_role

        lines = read_lines(self._opened.store.state)
        return {role.value: spent.says() for role, spent in spent_by_role(lines).items()}

    def sources(self, number: int) -> tuple[str, str]:
        """The parent's source (empty for a seed) and the version's own; reads git."""
        own = self._opened.store.source(number)
        parent = self.transition(number).parent
        return ("" if parent is None else self._opened.store.source(parent)), own

    def code(self, number: int) -> VersionCode:
        """What is kept of a version's generated code; reads git."""
        return code_of(self._opened.store, self.transition(number))

    def code_again(self, number: int) -> VersionCode:
        """A version compiled on this machine; takes seconds. WorkbenchError where it cannot be."""
        return compiled_again(self._opened.store, self.transition(number))

    def alive(self) -> bool:
        """Whether an engine holds the session now."""
        return self._opened.engine_pid() is not None

    async def changes(self) -> AsyncIterator[Snapshot]:
        """A new snapshot after each change; ends when the engine has left the session."""
        while True:
            await self._engine_to_come()
            self._snapshot = await asyncio.to_thread(self._opened.snapshot)
            yield self._snapshot
            if not self.alive():
                return
            async for snapshot in self._live():
                yield snapshot
            # Hung up: the engine ended, or we were too slow; git and the log know which.
            await asyncio.sleep(_RECONNECT_SECONDS if self.alive() else 0)

    async def _engine_to_come(self) -> None:
        """Wait for an engine that was just started to take the session, but not for ever."""
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while self._starting and asyncio.get_running_loop().time() < deadline:
            if self.alive():
                break
            await asyncio.sleep(0.05)
        self._starting = False

    async def _live(self) -> AsyncIterator[Snapshot]:
        """Snapshots while one connection lasts."""
        async for batch in self._batches(self._opened.last_seq):
            self._snapshot = await asyncio.to_thread(self._advance, batch)
            yield self._snapshot

    async def _batches(self, after: int) -> AsyncIterator[list[AnyEvent]]:
        """Events past `after` while one connection lasts."""
        try:
            reader, writer = await self._connect()
        except OSError:
            return
        try:
            await _send(writer, Follow(after=after))
            while batch := await _batch(reader):
                yield batch
        finally:
            writer.close()

    def _advance(self, batch: list[AnyEvent]) -> Snapshot:
        self._opened.note(batch)
        snapshot = fold(self._snapshot, batch)
        if any(isinstance(e, TransitionCommitted | DecisionTaken | MainMoved) for e in batch):
            snapshot = self._opened.refreshed(snapshot)
        return snapshot

    async def events(self) -> AsyncIterator[AnyEvent]:
        """Every event from the first on; goes on while an engine runs, then ends."""
        last = 0
        while True:
            alive = self.alive()
            for event in await asyncio.to_thread(self._opened.history, last):
                last = event.seq
                yield event
            if not alive:
                self._snapshot = await asyncio.to_thread(self._opened.snapshot)
                return
            async for batch in self._batches(last):
                for event in batch:
                    # Meter ticks have no number and are not news.
                    if event.seq > last:
                        last = event.seq
                        yield event
            await asyncio.sleep(0.1)

    # -- wishes -----------------------------------------------------------------------------

    async def decide(self, number: int, answer: Answer, reason: str = "") -> str:
        """Accept or veto version `number`; returns what was done once it is in git.

        Raises WorkbenchError when the engine refuses (late, already decided, no reason) or none
        runs.
        """
        return await self._ask(Decide(number=number, answer=answer, reason=reason))

    async def pause(self) -> str:
        """Wait after the running step."""
        return await self._ask(Pause())

    async def go(self) -> str:
        """End a pause."""
        return await self._ask(Go())

    async def stop(self) -> str:
        """End the run after the running step; the best is kept."""
        return await self._ask(Stop())

    async def undo(self, number: int, reason: str = "") -> str:
        """Take an accepted version back, with those made from it; says what git holds of it.

        A running engine does it between two steps, and where none runs it is done here. Raises
        WorkbenchError where it cannot be done.
        """
        return await self._move(Undo(number=number, reason=reason))

    async def branch(self, number: int, reason: str = "") -> str:
        """Go on from another accepted version; as `undo`."""
        return await self._move(Branch(number=number, reason=reason))

    async def _move(self, wish: AnyMove) -> str:
        if self.alive():
            return await self._ask(wish)
        # Imported only for writing, so that reading a session does not wait for it.
        from workbench.engine.moving import move_alone

        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        says = await asyncio.to_thread(move_alone, self._opened.path, wish, at)
        self.read_again()
        return says

    async def hint(self, text: str) -> str:
        """Words for the prompts of the steps to come; kept here where no engine asks a model."""
        if self.alive() and self._opened.store.settings().proposer != "skills":
            return await self._ask(Hint(text=text))
        from workbench.engine.submitting import hint_alone

        number = await asyncio.to_thread(hint_alone, self._opened.path, text)
        return f"kept for the prompts from v{number} on"

    async def choose(self, wish: Choose) -> str:
        """What the next step shall be; done here where no engine runs."""
        if self.alive():
            return await self._ask(wish)
        from workbench.engine.choosing import choose_alone

        return await asyncio.to_thread(choose_alone, self._opened.path, wish)

    async def submit(self, wish: Submit) -> str:
        """Gate a candidate as the next transition; returns what became of it once it is in git."""
        return await self._ask(wish)

    async def _ask(self, wish: AnyWish) -> str:
        try:
            reader, writer = await self._connect()
        except OSError as fault:
            raise WorkbenchError(
                f"no engine runs on session {self.name}",
                where=str(self._opened.path),
                todo=f"workbench resume {spoken(self._opened.path)}",
            ) from fault
        with contextlib.closing(writer):
            await _send(writer, wish)
            line = await reader.readline()
        if not line:
            raise WorkbenchError(
                "the engine hung up before it answered",
                where=f"session {self.name}",
                todo=f"workbench status {spoken(self._opened.path)} shows how it ended",
            )
        try:
            reply = msgspec.json.decode(line, type=AnyReply)
        except msgspec.DecodeError as fault:
            raise WorkbenchError(
                "this workbench does not know the engine's answer: another version runs it",
                where=f"session {self.name}",
                todo=f"workbench status {spoken(self._opened.path)} shows how it ended",
            ) from fault
        if isinstance(reply, Granted):
            return reply.says
        raise WorkbenchError(reply.what, where=f"session {self.name}", todo=reply.todo)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(
            str(self._opened.socket_path()), limit=_LINE_LIMIT
        )


async def _send(writer: asyncio.StreamWriter, wish: AnyWish) -> None:
    writer.write(msgspec.json.encode(wish) + b"\n")
    await writer.drain()


async def _batch(reader: asyncio.StreamReader) -> list[AnyEvent]:
    """One or more events that are available; empty when the engine has hung up."""
    events: list[AnyEvent] = []
    while len(events) < _BATCH:
        try:
            wait = _SETTLE_SECONDS if events else None
            line = await asyncio.wait_for(reader.readline(), wait)
        except TimeoutError:
            return events
        except (ConnectionError, ValueError):
            return events
        if not line.endswith(b"\n"):
            return events
        # What an engine of a newer version says beyond this is left out, as in its log.
        with contextlib.suppress(msgspec.DecodeError):
            events.append(msgspec.json.decode(line, type=AnyEvent))
    return events
