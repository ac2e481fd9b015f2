"""Candidates that a person or an outside agent hands in, and the answers that they wait for."""

import asyncio
from collections import deque

from workbench.engine.wishes import AnyReply, Granted, Refused, Submit
from workbench.kernels.source import read_source
from workbench.skills.records import Plan

_Waiting = tuple[Submit, asyncio.Future[AnyReply]]


class Desk:
    """What was handed in and is not gated yet, in order. Belongs to one asyncio loop."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._taken: asyncio.Future[AnyReply] | None = None
        self._closed = False

    def waits(self) -> bool:
        """Whether something was handed in."""
        return bool(self._waiting)

    def put(self, wish: Submit) -> asyncio.Future[AnyReply]:
        """Take a candidate in; the answer comes when it is committed."""
        reply: asyncio.Future[AnyReply] = asyncio.get_running_loop().create_future()
        if self._closed:
            reply.set_result(_ended())
        else:
            self._waiting.append((wish, reply))
        return reply

    def take(self) -> Submit | None:
        """The next candidate; `answer` is owed for it."""
        if not self._waiting:
            return None
        wish, self._taken = self._waiting.popleft()
        return wish

    def answer(self, says: str) -> None:
        """Tell what became of the one that was taken."""
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(Granted(says=says))
        self._taken = None

    def close(self) -> None:
        """Refuse what is left: the run is over."""
        self._closed = True
        left = [reply for _, reply in self._waiting]
        left += [self._taken] if self._taken is not None else []
        for reply in left:
            if not reply.done():
                reply.set_result(_ended())
        self._waiting.clear()


def _ended() -> Refused:
    return Refused(
        what="the run ended before the candidate was gated",
        todo="`workbench submit` gates it without a running engine",
    )


def submitted_plan(wish: Submit) -> Plan:
    """The plan of a candidate that somebody else wrote: what they say that it is."""
    launched = read_source(wish.source).launched
    return Plan(
        card=wish.skill,
        title=wish.skill or "written by hand",
        intent=wish.hint or "a candidate that was handed in",
        kernel=launched[0] if launched else "",
        reason=wish.origin,
    )
