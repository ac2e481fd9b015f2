"""Whole screens as pictures: layout, glyphs and colours at once.

Update after a wanted change with `pytest tests/test_tui_snapshots.py --snapshot-update`, and look
at every picture that changed.
"""

from collections.abc import Awaitable, Callable

import pytest
from fake_client import FakeClient, empty, measured, running, waiting
from textual.pilot import Pilot

from workbench.engine.view import Snapshot, State, Talk
from workbench.tui.app import WorkbenchApp
from workbench.tui.dialogs.following import Prepared
from workbench.tui.panes.profile import Profile
from workbench.tui.settings import Settings, TuiSettings

Compare = Callable[..., bool]


def failed() -> Snapshot:
    return waiting(state=State.FAILED, pending=None, says="no space left on /data")


def lost() -> Snapshot:
    return waiting(state=State.LOST, pending=None, says="the engine is gone")


def thinking() -> Snapshot:
    talk = Talk(
        number=12, role="planner", model="some-model", says="about 12,400 tokens, at most $0.21",
        reasoning="The row is read twice. Hold it in registers.",
    )  # fmt: skip
    return running(talk=talk, plan=None)


SCREENS = {
    "waiting-120x36-dark": (waiting, (120, 36), "dark", ()),
    "waiting-80x24-dark": (waiting, (80, 24), "dark", ()),
    "waiting-60x17-dark": (waiting, (60, 17), "dark", ()),
    "waiting-120x36-light": (waiting, (120, 36), "light", ()),
    "waiting-80x24-mono": (waiting, (80, 24), "mono", ()),
    "measured-120x36-dark": (measured, (120, 36), "dark", ()),
    "running-80x24-dark": (running, (80, 24), "dark", ()),
    "empty-80x24-dark": (empty, (80, 24), "dark", ()),
    "failed-120x36-dark": (failed, (120, 36), "dark", ()),
    "review-120x36-dark": (waiting, (120, 36), "dark", ("r",)),
    "review-80x24-dark": (waiting, (80, 24), "dark", ("r",)),
    "review-80x24-mono": (waiting, (80, 24), "mono", ("r",)),
    "why-80x24-dark": (waiting, (80, 24), "dark", ("e",)),
    "compare-120x36-dark": (waiting, (120, 36), "dark", ("j", "j", "j", "m", "g", "D", "2")),
    "sessions-80x24-dark": (waiting, (80, 24), "dark", ("o",)),
    "new-run-80x24-light": (waiting, (80, 24), "light", ("o", "n")),
    "profile-120x36-dark": (waiting, (120, 36), "dark", ("3", "z")),
    "thinking-120x36-dark": (thinking, (120, 36), "dark", ()),
    "lost-80x24-mono": (lost, (80, 24), "mono", ()),
    "help-80x24-dark": (waiting, (80, 24), "dark", ("question_mark",)),
}


def settled(*keys: str) -> Callable[[Pilot], Awaitable[None]]:
    """Wait for the records, press, wait for what opens."""

    async def run(pilot: Pilot) -> None:
        app = pilot.app
        assert isinstance(app, WorkbenchApp)
        for _ in range(1500):
            await pilot.pause(0.01)
            scene = app.board.query_one(Profile).scene
            if scene is not None and not scene.reading:
                break
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.05)
        if isinstance(app.screen, Prepared):
            await app.screen.ready.wait()
        for _ in range(1500):
            await pilot.pause(0.01)
            words = str(app.screen.query_one(".box").border_subtitle) if keys == ("o",) else "0"
            if words != "None" and words:
                break
        await pilot.pause(0.1)

    return run


@pytest.mark.parametrize("name", SCREENS)
def test_screen_looks_as_it_did(name: str, snap_compare: Compare) -> None:
    snapshot, size, theme, keys = SCREENS[name]
    settings = Settings(tui=TuiSettings(theme=f"workbench-{theme}"))
    app = WorkbenchApp(FakeClient(snapshot()), settings=settings, clock=lambda: 100.0)
    assert snap_compare(app, terminal_size=size, run_before=settled(*keys))
