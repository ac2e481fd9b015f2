"""One engine on one session: lock, log, socket, loop, and a clean way out."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.create import read_start
from workbench.engine.history import History
from workbench.engine.loop import Engine, now
from workbench.engine.opening import Opened, events_path, lock_path
from workbench.engine.server import EventServer
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.session.journal import Journal
from workbench.session.lock import EngineLock, socket_path
from workbench.session.store import SessionStore

Listen = Callable[[ev.AnyEvent], None]


def serve_session(path: Path, *, listen: Listen | None = None) -> ev.RunEnded:
    """Run the session in this process until it ends; returns how.

    Every event goes to the log, to followers of the socket and to `listen`. Raises WorkbenchError
    when another engine holds the session or it cannot be read. A fault during the run is its end
    (`failed`), written to the log like any other.
    """
    store = SessionStore.open(path)
    socket = socket_path(store.folder)
    with (
        EngineLock(lock_path(store), session=path.name, socket=str(socket)),
        Journal(events_path(store)) as journal,
    ):
        return asyncio.run(_Service(store, journal, socket, listen).run())


class _Service:
    """Joins the loop to its log, its socket and the process's signals."""

    def __init__(
        self, store: SessionStore, journal: Journal, socket: Path, listen: Listen | None
    ) -> None:
        self._store = store
        self._journal = journal
        self._listen = listen
        self._opened = Opened(store.folder)
        self._server = EventServer(socket, self._opened.history, self._grant)
        self._engine: Engine | None = None
        self._resumed = journal.next_seq > 1

    async def run(self) -> ev.RunEnded:
        """Serve until the loop is done."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        await self._server.open()
        try:
            ended = await self._work()
        finally:
            await self._server.close()
        return ended

    async def _work(self) -> ev.RunEnded:
        settings = self._store.settings()
        start = read_start(self._store)
        self._publish(
            ev.RunStarted(
                pid=os.getpid(),
                mode=start.mode.value,
                device=settings.device,
                target=settings.target,
                resumed=self._resumed,
                budget=start.budget,
            )
        )
        workplace = SessionWorkplace(self._store, settings, start.seed, self._from_thread)
        try:
            await asyncio.to_thread(self._store.restore_worktree)
            history = await asyncio.to_thread(self._read_history)
            self._engine = Engine(
                store=self._store,
                workplace=workplace,
                history=history,
                mode=start.mode,
                budget=start.budget,
                emit=self._publish,
            )
            self._catch_signals(self._engine)
            ended = await self._engine.run()
        except WorkbenchError as fault:
            ended = ev.RunEnded(how="failed", says=_one_line(fault))
        except Exception as fault:
            says = f"an error of the workbench itself: {type(fault).__name__}: {fault}"
            self._publish(ev.RunEnded(how="failed", says=says))
            raise
        finally:
            await asyncio.to_thread(workplace.close)
        self._publish(ended)
        return ended

    def _read_history(self) -> History:
        numbers = [s.number for s in self._store.overview().versions]
        return History(transitions=tuple(self._store.transition(n) for n in numbers))

    def _catch_signals(self, engine: Engine) -> None:
        """The first SIGINT or SIGTERM ends the run after the running step, the second at once."""

        def stop() -> None:
            self._publish(ev.Note(level="info", says="stopping after the running step"))
            engine.stop()
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.remove_signal_handler(number)

        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError, NotImplementedError):
                self._loop.add_signal_handler(number, stop)

    async def _grant(self, wish: "msgspec.Struct") -> "msgspec.Struct":
        if self._engine is None:
            raise WorkbenchError("the engine is still starting", todo="ask again in a moment")
        return await self._engine.grant(wish)  # type: ignore[arg-type]

    def _from_thread(self, event: ev.AnyEvent) -> None:
        self._loop.call_soon_threadsafe(self._publish, event)

    def _publish(self, event: ev.AnyEvent) -> None:
        """To the log first, so that nobody is told what a crash could take back."""
        stamped = structs.replace(event, at=now())
        if not isinstance(event, ev.StageProgress):
            durable = isinstance(event, ev.DecisionTaken | ev.TransitionCommitted | ev.RunEnded)

            def encode(seq: int) -> bytes:
                nonlocal stamped
                stamped = structs.replace(stamped, seq=seq)
                return msgspec.json.encode(stamped)

            self._journal.append(encode, durable=durable)
        self._server.publish(stamped)
        if self._listen is not None:
            self._listen(stamped)


def _one_line(fault: WorkbenchError) -> str:
    parts = [fault.what]
    if fault.where:
        parts.append(f"({fault.where})")
    if fault.todo:
        parts.append(f"- {fault.todo}")
    return " ".join(parts)
