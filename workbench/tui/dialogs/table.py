"""Reads everything that the review of a version shows, so that a decision is about all of it."""

import asyncio

from msgspec import Struct

from workbench.engine.view import Snapshot
from workbench.session.records import Transition
from workbench.tui.diff.paint import Compared, prepare
from workbench.tui.feed import Reading
from workbench.tui.look import Look
from workbench.tui.scene import committed, version_of


class Table(Struct, frozen=True):
    """One version with its parent, as records and as sources."""

    number: int
    record: Transition
    parent: Transition | None
    before: str
    after: str
    compared: Compared


async def lay_out(reading: Reading, snapshot: Snapshot, number: int, look: Look) -> Table:
    """Read a version and compare it with its parent, outside the screen's thread.

    Raises WorkbenchError or OSError when something cannot be read.
    """
    record = await reading.record(number, committed(snapshot, number).answer)
    above = version_of(snapshot, record.parent)
    parent = await reading.record(above.number, above.answer) if above is not None else None
    before, after = await reading.sources(number)
    compared = await asyncio.to_thread(prepare, before, after, look)
    return Table(number, record, parent, before, after, compared)
