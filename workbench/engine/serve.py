"""One engine on one session: lock, log, socket, loop, and a clean way out."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.create import noted_seed
from workbench.engine.devices import elsewhere, here
from workbench.engine.history import History
from workbench.engine.holds import Holds, left_by_killed, mark_of, records
from workbench.engine.loop import Engine
from workbench.engine.moving import read_history
from workbench.engine.opening import Opened, events_path, holds_path, lock_path
from workbench.engine.parts import Workplace
from workbench.engine.server import EventServer
from workbench.engine.wishes import AnyReply, AnyWish, Submit
from workbench.engine.workclock import now
from workbench.errors import WorkbenchError
from workbench.measure.gpulock import noted
from workbench.session.complaints import DamagedError
from workbench.session.journal import Journal
from workbench.session.lock import EngineLock, socket_path
from workbench.session.queue import Queued
from workbench.session.queue import read as read_queue
from workbench.session.records import SessionSettings
from workbench.session.store import SessionStore

Listen = Callable[[ev.AnyEvent], None]
_DURABLE = (ev.DecisionTaken, ev.TransitionCommitted, ev.MainMoved, ev.RunEnded)
"""Events that are on disk before anybody hears of them."""


class ClosableWorkplace(Workplace, Protocol):
    """A workplace that holds processes until it is closed."""

    def close(self) -> None:
        """Give everything back."""


OpenWorkplace = Callable[
    [SessionStore, SessionSettings, tuple[str, str] | None, Listen], ClosableWorkplace
]
"""`open(store, settings, the person's seed as (source, path), listener)`."""


def serve_session(
    path: Path,
    *,
    listen: Listen | None = None,
    open_workplace: OpenWorkplace | None = None,
    only: Submit | None = None,
) -> ev.RunEnded:
    """Run the session in this process until it ends; returns how.

    `open_workplace` makes what runs candidates; the real one when None. With `only`, one submitted
    candidate is gated and nothing else.

    Every event goes to the log, to followers of the socket and to `listen`. Raises WorkbenchError
    when another engine holds the session, it cannot be read, or its GPU is not here. A fault during
    the run is its end (`failed`), written to the log like any other.
    """
    store = SessionStore.open(path)
    settings = store.settings()
    if open_workplace is None:
        settings = here(settings, path, todo=elsewhere(path))
    socket = socket_path(store.folder)
    with (
        EngineLock(lock_path(store), session=path.name, socket=str(socket)),
        Journal(events_path(store)) as journal,
    ):
        service = _Service(store, journal, socket, listen, open_workplace or _real_workplace)
        return asyncio.run(service.run(settings, only))


def _real_workplace(
    store: SessionStore, settings: SessionSettings, seed: tuple[str, str] | None, emit: Listen
) -> ClosableWorkplace:
    # Edits and the gate take half a second to import; the run is announced before that.
    from workbench.engine.workplace import SessionWorkplace

    return SessionWorkplace(store, settings, seed, emit)


class _Service:
    """Joins the loop to its log, its socket and the process's signals."""

    def __init__(
        self,
        store: SessionStore,
        journal: Journal,
        socket: Path,
        listen: Listen | None,
        open_workplace: OpenWorkplace,
    ) -> None:
        self._store = store
        self._journal = journal
        self._listen = listen
        self._open_workplace = open_workplace
        self._opened = Opened(store.folder)
        self._server = EventServer(socket, self._opened.history, self._grant)
        self._engine: Engine | None = None
        self._resumed = journal.next_seq > 1

    async def run(self, settings: SessionSettings, only: Submit | None) -> ev.RunEnded:
        """Serve until the loop is done."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        await self._server.open()
        try:
            ended = await self._work(settings, only)
        finally:
            await self._server.close()
        return ended

    async def _work(self, settings: SessionSettings, only: Submit | None) -> ev.RunEnded:
        self._publish(_started(settings, resumed=self._resumed))
        workplace = self._open_workplace(
            self._store, settings, noted_seed(self._store), self._from_thread
        )
        try:
            history = await self._recovered()
            holds = await asyncio.to_thread(self._holds, history)
            if holds.carried:
                says = f"{holds.carried:.1f} GPU-s, at least, went into a step that was cut off"
                self._publish(ev.Note(level="info", says=says))
            self._engine = Engine(
                store=self._store,
                workplace=workplace,
                history=history,
                mode=settings.mode,
                budget=settings.budget,
                emit=self._publish,
                holds=holds,
            )
            self._catch_signals(self._engine)
            engine = self._engine
            with noted(holds.held):
                ended = await (engine.run() if only is None else engine.run_one(only))
            holds.close()
        except WorkbenchError as fault:
            ended = ev.RunEnded(how="failed", says=_one_line(fault))
        except Exception as fault:
            says = f"an error of the workbench itself: {type(fault).__name__}: {fault}"
            self._publish(ev.RunEnded(how="failed", says=says))
            raise
        finally:
            await asyncio.to_thread(workplace.close)
            # Housekeeping that fails must not hide how the run ended.
            with contextlib.suppress(WorkbenchError):
                await asyncio.to_thread(self._store.tidy)
        self._publish(ended)
        return ended

    async def _recovered(self) -> History:
        """The session's history, with what a death or damage left mended, and told."""
        for says in await asyncio.to_thread(self._store.recover):
            self._publish(ev.Note(level="info", says=says))
        history = await asyncio.to_thread(read_history, self._store)
        for says in history.unread:
            self._publish(ev.Note(level="warning", says=says))
        return history

    def _holds(self, history: History) -> Holds:
        """What counts the GPU-seconds that are in no record yet, with what a killed engine left."""
        path = holds_path(self._store)
        queue: Sequence[Queued] = ()
        with contextlib.suppress(DamagedError):  # whoever goes on with the queue says so
            queue = read_queue(self._store.git)
        cut = left_by_killed(path, mark_of(records(history), queue))
        return Holds(path, records(history), queue, cut)

    def _catch_signals(self, engine: Engine) -> None:
        """The first SIGINT or SIGTERM ends the run after the running step, the second at once."""

        def stop() -> None:
            self._publish(
                ev.Note(level="info", says="stopping after the running step; again: at once")
            )
            engine.stop()
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.remove_signal_handler(number)

        # Python delivers signals to the main thread only; elsewhere our host decides.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.add_signal_handler(number, stop)

    async def _grant(self, wish: AnyWish) -> AnyReply:
        if self._engine is None:
            raise WorkbenchError("the engine is still starting", todo="ask again in a moment")
        return await self._engine.grant(wish)

    def _from_thread(self, event: ev.AnyEvent) -> None:
        self._loop.call_soon_threadsafe(self._publish, event)

    def _publish(self, event: ev.AnyEvent) -> None:
        """Write an event to the log before anyone receives it: no crash can then take it back."""
        stamped = structs.replace(event, at=now())
        if not isinstance(event, ev.StageProgress):
            durable = isinstance(event, _DURABLE)

            def encode(seq: int) -> bytes:
                nonlocal stamped
                stamped = structs.replace(stamped, seq=seq)
                return msgspec.json.encode(stamped)

            self._journal.append(encode, durable=durable)
        self._server.publish(stamped)
        if self._listen is not None:
            self._listen(stamped)


def _started(settings: SessionSettings, *, resumed: bool) -> ev.RunStarted:
    return ev.RunStarted(
        pid=os.getpid(),
        mode=settings.mode.value,
        device=settings.device,
        target=settings.target,
        resumed=resumed,
        budget=settings.budget,
    )


def _one_line(fault: WorkbenchError) -> str:
    parts = [fault.what]
    if fault.where:
        parts.append(f"({fault.where})")
    if fault.todo:
        parts.append(f"- {fault.todo}")
    return " ".join(parts)
