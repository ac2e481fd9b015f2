"""Moves of `main` that are asked of a running engine, until the loop can carry them out."""

import asyncio
from collections import deque
from collections.abc import Callable

from workbench.engine import events as ev
from workbench.engine.history import History
from workbench.engine.moving import MovesMain, carry_out, move_of
from workbench.engine.wishes import AnyMove, AnyReply, Branch, Granted, Refused
from workbench.errors import WorkbenchError
from workbench.session.records import Transition

_ENDED = Refused(
    what="the run ended before main was moved; nothing was changed",
    todo="ask again: no engine is needed for it",
)


class Helm:
    """Belongs to one asyncio loop. Between two steps `carry_out` does what was asked for."""

    def __init__(self, store: MovesMain, emit: Callable[[ev.AnyEvent], None]) -> None:
        self._store = store
        self._emit = emit
        self._waiting: deque[tuple[AnyMove, asyncio.Future[AnyReply]]] = deque()
        self._closed = False

    def waits(self) -> bool:
        """Whether something was asked for."""
        return bool(self._waiting)

    def ask(
        self, wish: AnyMove, history: History, deciding: int | None
    ) -> asyncio.Future[AnyReply]:
        """Take a wish in; the answer comes when it is done.

        Raises WorkbenchError for what cannot be done as the session stands, and for a branch while
        a version waits for its decision.
        """
        move_of(history, wish, "")
        if deciding is not None and isinstance(wish, Branch):
            raise _first(deciding)
        reply: asyncio.Future[AnyReply] = asyncio.get_running_loop().create_future()
        if self._closed:
            reply.set_result(_ENDED)
        else:
            self._waiting.append((wish, reply))
        return reply

    def carry_out(self, history: History, at: str) -> History:
        """Do all that was asked for, in order; the history afterwards."""
        while self._waiting:
            wish, reply = self._waiting.popleft()
            try:
                moved = carry_out(self._store, history, wish, at)
            except WorkbenchError as fault:
                reply.set_result(Refused(what=fault.what, todo=fault.todo))
                continue
            history = moved.history
            self._emit(moved.event)
            reply.set_result(Granted(says=moved.event.says))
        return history

    def overtakes(self, waiting: Transition, history: History) -> str:
        """Why a version that waits for a person has lost its ground: what it was made from is
        asked to be taken back. Empty where it has not; then whatever else was asked is refused.
        """
        for wish, _ in self._waiting:
            try:
                undone = move_of(history, wish, "").undone
            except WorkbenchError:
                continue
            if waiting.parent in undone:
                return f"v{waiting.parent}, which it was made from, is taken back"
        while self._waiting:
            fault = _first(waiting.number)
            self._waiting.popleft()[1].set_result(Refused(what=fault.what, todo=fault.todo))
        return ""

    def close(self) -> None:
        """Refuse what is left: the run is over."""
        self._closed = True
        while self._waiting:
            self._waiting.popleft()[1].set_result(_ENDED)


def _first(number: int) -> WorkbenchError:
    return WorkbenchError(f"v{number} waits for your decision first", todo="accept or veto it")
