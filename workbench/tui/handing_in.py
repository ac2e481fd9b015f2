"""Submits an edit as the very next step: pauses the engine, vetoes the waiting version, submits."""

import asyncio

from workbench.engine.view import State
from workbench.engine.wishes import Submit
from workbench.session.records import Answer, Mode
from workbench.tui.feed import Client

REASON = "edited by hand; the edit is the next step"
_POLL_SECONDS = 0.05


async def hand_in(client: Client, number: int, wish: Submit) -> str:
    """Veto the waiting version and have `wish` gated next; returns its result in words.

    After a mere veto the engine could begin a step of its own before the edit arrives. So it is
    paused first, and continues once the edit is in the gate. Raises WorkbenchError when the engine
    refuses; the run then continues as before.
    """
    before = client.snapshot()
    held = before.mode != Mode.MANUAL and before.state is not State.PAUSED
    if held:
        await client.pause()
    try:
        await client.decide(number, Answer.VETOED, REASON)
        gated = asyncio.create_task(client.submit(wish))
        # `submit` only answers after the gate, but the engine may continue once the gate has begun.
        # That shows in the snapshots of the screen's feed, which has no event to wait for.
        while not gated.done() and client.snapshot().current == number:  # noqa: ASYNC110 -- as above
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        if held:
            await client.go()
    return await gated
