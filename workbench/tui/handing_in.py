"""An edit handed in as the very next step: the engine is held while the veto makes room for it."""

import asyncio

from workbench.engine.view import State
from workbench.engine.wishes import Submit
from workbench.session.records import Answer, Mode
from workbench.tui.feed import Client

REASON = "edited by hand; the edit is the next step"
_POLL_SECONDS = 0.05


async def hand_in(client: Client, number: int, wish: Submit) -> str:
    """Veto the version that waits and have `wish` gated next; says what became of it.

    A veto alone would let the engine begin a step of its own before the edit arrives, so it is
    paused first, and goes on as soon as the edit is in its gate. Raises WorkbenchError when the
    engine refuses; then the run goes on as it was.
    """
    before = client.snapshot()
    held = before.mode != Mode.MANUAL and before.state is not State.PAUSED
    if held:
        await client.pause()
    try:
        await client.decide(number, Answer.VETOED, REASON)
        gated = asyncio.create_task(client.submit(wish))
        # Its answer comes with the person's; the engine may go on once the gate has it.
        # News comes by the screen's own feed, which has no event to wait for.
        while not gated.done() and client.snapshot().current == number:  # noqa: ASYNC110 -- as above
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        if held:
            await client.go()
    return await gated
