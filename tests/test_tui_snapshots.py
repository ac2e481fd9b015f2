"""Whole screens as pictures: layout, glyphs and colours at once.

Update after a wanted change with `pytest tests/test_tui_snapshots.py --snapshot-update`, and look
at every picture that changed.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from fake_client import FakeClient, empty, measured, running, waiting
from msgspec import structs
from session_kit import kernel, new_store, transition
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


def paused() -> Snapshot:
    return waiting(state=State.PAUSED, pending=None, versions=waiting().versions[:-1], current=11)


def spent() -> Snapshot:
    says = "12 of 12 steps are done; the best is v9"
    return paused_like(State.BUDGET, says)


def finished() -> Snapshot:
    return paused_like(State.FINISHED, "no card is left to try; the best is v9")


def saved() -> Snapshot:
    return paused_like(State.SAVED, "")


def paused_like(state: State, says: str) -> Snapshot:
    """At rest, with no engine."""
    return structs.replace(paused(), state=state, says=says, engine_pid=None)


def thinking() -> Snapshot:
    talk = Talk(
        number=12, role="planner", model="some-model", says="about 12,400 tokens, at most $0.21",
        reasoning="The row is read twice. Hold it in registers.",
    )  # fmt: skip
    return running(talk=talk, plan=None)


PAIR = ("j", "j", "j", "m", "g", "D")
EVERYWHERE = (((120, 36), "dark"), ((80, 24), "light"), ((60, 17), "mono"))
"""The places of what is seen most."""
TWO = (((120, 36), "light"), ((80, 24), "mono")), (((80, 24), "dark"), ((60, 17), "light"))
"""The places of everything else, in turns."""

OFTEN = {
    "waiting": (waiting, ()),
    "running": (running, ()),
    "empty": (empty, ()),
    "measured": (measured, ()),
    "review": (waiting, ("r",)),
    "sessions": (waiting, ("o",)),
    "new-run": (waiting, ("o", "n")),
    "help": (waiting, ("question_mark",)),
}
OTHERS = {
    "paused": (paused, ()),
    "spent": (spent, ()),
    "finished": (finished, ()),
    "saved": (saved, ()),
    "failed": (failed, ()),
    "lost": (lost, ()),
    "thinking": (thinking, ()),
    "thoughts": (thinking, ("T",)),
    "profile": (waiting, ("3", "z")),
    "why": (waiting, ("e",)),
    "log": (waiting, ("l",)),
    "palette": (waiting, ("ctrl+p",)),
    "find": (waiting, ("slash",)),
    "veto": (waiting, ("r", "v")),
    "scope": (waiting, ("r", "A")),
    "undo": (saved, ("u",)),
    "branch": (saved, ("j", "j", "j", "j", "b")),
    "compare": (waiting, PAIR),
    "compare-profile": (waiting, (*PAIR, "2")),
    "compare-ttgir": (waiting, (*PAIR, "3")),
    "compare-sass": (waiting, (*PAIR, "5")),
}


def places() -> dict[str, tuple[Callable[[], Snapshot], tuple[str, ...], tuple[int, int], str]]:
    """Every picture by its name."""
    found = {}
    for turn, (name, (snapshot, keys)) in enumerate([*OFTEN.items(), *OTHERS.items()]):
        for size, theme in EVERYWHERE if name in OFTEN else TWO[turn % 2]:
            found[f"{name}-{size[0]}x{size[1]}-{theme}"] = (snapshot, keys, size, theme)
    return found


SCREENS = places()


def settled(*keys: str) -> Callable[[Pilot], Awaitable[None]]:
    """Wait for the records, press, wait for what opens."""

    async def at_rest(app: WorkbenchApp, pilot: Pilot) -> None:
        for _ in range(1500):
            await pilot.pause(0.01)
            if all(worker.group == "feed" or worker.is_finished for worker in app.workers):
                break

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
            await at_rest(app, pilot)
        await pilot.pause(0.1)

    return run


@pytest.mark.parametrize("name", SCREENS)
def test_screen_looks_as_it_did(name: str, snap_compare: Compare, own_home: Path) -> None:
    snapshot, keys, size, theme = SCREENS[name]
    if name.startswith("sessions"):
        folder = own_home / ".local" / "share" / "workbench" / "sessions"
        for listed in ("softmax-1", "softmax-2"):
            store = new_store(folder, listed)
            store.record(transition(0, None), kernel(0))
    settings = Settings(tui=TuiSettings(theme=f"workbench-{theme}"))
    app = WorkbenchApp(FakeClient(snapshot()), settings=settings, clock=lambda: 100.0)
    assert snap_compare(app, terminal_size=size, run_before=settled(*keys))
