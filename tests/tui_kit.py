"""A screen under test: the app on a played session, and what a test may ask of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from fake_client import FakeClient
from textual.pilot import Pilot

from workbench.engine.view import Snapshot
from workbench.tui.app import WorkbenchApp
from workbench.tui.board import Board
from workbench.tui.dialogs.review import Review
from workbench.tui.panes.base import Lines
from workbench.tui.panes.keybar import KeyBar
from workbench.tui.scene import Scene
from workbench.tui.settings import Settings, TuiSettings


class Stage:
    """A screen under test, with what a test asks of it."""

    def __init__(self, app: WorkbenchApp, client: FakeClient, pilot: Pilot) -> None:
        self.app, self.client, self.pilot = app, client, pilot

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let the screen work until something holds."""
        for _ in range(1500):
            await self.pilot.pause(0.01)
            if holds():
                return
        pytest.fail("it never came to hold")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def review(self, key: str = "r") -> Review:
        await self.press(key)
        await self.until(lambda: isinstance(self.app.screen, Review))
        await self.pilot.pause()
        assert isinstance(self.app.screen, Review)
        await self.app.screen.ready.wait()
        await self.pilot.pause()
        return self.app.screen

    def text(self, kind: type[Lines]) -> str:
        return "\n".join(self.app.screen_stack[0].query_one(kind).shown_lines)

    @property
    def bar(self) -> str:
        return "\n".join(self.app.screen.query_one(KeyBar).shown_lines)

    @property
    def toasts(self) -> str:
        return "\n".join(note.message for note in self.app._notifications)

    @property
    def scene(self) -> Scene:
        board = self.app.screen_stack[0]
        assert isinstance(board, Board)
        assert board.scene is not None
        return board.scene


@asynccontextmanager
async def stage(
    snapshot: Snapshot,
    *,
    size: tuple[int, int] = (120, 36),
    settings: Settings | None = None,
    client: FakeClient | None = None,
    clock: Callable[[], float] = lambda: 100.0,
) -> AsyncIterator[Stage]:
    client = client or FakeClient(snapshot)
    settings = settings or Settings(tui=TuiSettings(refresh_hz=30))
    app = WorkbenchApp(client, settings=settings, clock=clock)
    async with app.run_test(size=size) as pilot:
        yield Stage(app, client, pilot)
