"""What the screen needs from a session's client, and the feed of its snapshots."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from workbench.engine.generated import VersionCode
from workbench.engine.view import Snapshot
from workbench.engine.wishes import Choose, Submit
from workbench.errors import WorkbenchError
from workbench.session.records import Answer, Transition

_KEPT = 256
"""Most records kept in memory; the oldest are dropped first."""


class Client(Protocol):
    """A session as the screen needs it. `workbench.engine.client` has the real one."""

    @property
    def name(self) -> str:
        """Name of the session."""

    def snapshot(self) -> Snapshot:
        """The newest known snapshot; cheap."""

    def changes(self) -> AsyncIterator[Snapshot]:
        """A new snapshot after each change; ends when the session is over for good."""

    def transition(self, number: int) -> Transition:
        """The full record of a version. Reads git: call it in a thread."""

    def sources(self, number: int) -> tuple[str, str]:
        """The parent's source and the version's own. Reads git: call it in a thread."""

    def code(self, number: int) -> VersionCode:
        """What is kept of a version's generated code. Reads git: call it in a thread."""

    def code_again(self, number: int) -> VersionCode:
        """The version compiled on this machine; takes seconds. Call it in a thread."""

    async def decide(self, number: int, answer: Answer, reason: str) -> str:
        """Decide on the pending transition; returns what was done, in words.

        Raises WorkbenchError when it is refused: late, already decided, no engine.
        """

    async def pause(self) -> str:
        """Wait after the running step."""

    async def go(self) -> str:
        """End a pause."""

    async def stop(self) -> str:
        """End the run after the running step."""

    async def undo(self, number: int) -> str:
        """Take an accepted version back; returns what git records, in words."""

    async def branch(self, number: int) -> str:
        """Go on from another accepted version; returns what git records, in words."""

    async def hint(self, text: str) -> str:
        """Words for every later prompt; returns from when on, in words."""

    async def choose(self, wish: Choose) -> str:
        """What the next step shall be; returns what was noted, in words."""

    async def submit(self, wish: Submit) -> str:
        """Gate a candidate as the next transition; returns the result in words once committed."""


class Reading:
    """Reads records of versions in threads and caches them; a decision causes a new reading."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._known: dict[tuple[int, Answer], Transition] = {}

    def known(self, number: int, answer: Answer) -> Transition | None:
        """The record if it has been read."""
        return self._known.get((number, answer))

    async def record(self, number: int, answer: Answer) -> Transition:
        """The record, read in a thread. Raises WorkbenchError when it cannot be read."""
        known = self.known(number, answer)
        if known is None:
            known = await asyncio.to_thread(self.client.transition, number)
            self._known[number, answer] = known
            if len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]
        return known

    async def sources(self, number: int) -> tuple[str, str]:
        """The parent's source and the version's own, read in a thread."""
        return await asyncio.to_thread(self.client.sources, number)

    async def code(self, number: int) -> VersionCode:
        """What is kept of the version's generated code, read in a thread."""
        return await asyncio.to_thread(self.client.code, number)

    async def code_again(self, number: int) -> VersionCode:
        """The version compiled on this machine, in a thread."""
        return await asyncio.to_thread(self.client.code_again, number)


async def follow(
    client: Client, deliver: Callable[[Snapshot], None], lost: Callable[[str], None], hz: float
) -> None:
    """Deliver new snapshots at most `hz` times a second; the newest always arrives.

    `lost` is called with the reason when the feed breaks, but not when it simply ends.
    """
    fresh = asyncio.Event()
    newest: list[Snapshot] = []

    async def read() -> None:
        async for snapshot in client.changes():
            newest[:] = [snapshot]
            fresh.set()

    reader = asyncio.create_task(read())
    reader.add_done_callback(lambda _: fresh.set())
    try:
        while not reader.done() or newest:
            await fresh.wait()
            fresh.clear()
            if newest:
                deliver(newest.pop())
                await asyncio.sleep(1 / hz)
        await reader
    except (WorkbenchError, OSError) as fault:
        lost(fault.what if isinstance(fault, WorkbenchError) else str(fault))
    finally:
        reader.cancel()
