"""The screens around a session: the list of sessions, a new run, skills; and keeping house."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from engine_parts import ScriptedWorkplace, new_session
from fake_client import FakeClient, waiting
from textual.pilot import Pilot
from textual.widgets import Input, Static

from workbench.engine import housekeeping
from workbench.engine.opening import lock_path
from workbench.engine.serve import serve_session
from workbench.engine.sessions import list_sessions
from workbench.errors import WorkbenchError
from workbench.session.lock import EngineLock, SessionBusyError
from workbench.session.reader import SessionReader
from workbench.skills.preferences import load_preferences
from workbench.tui.app import WorkbenchApp
from workbench.tui.dialogs.ask import Confirm, Reason
from workbench.tui.dialogs.new_run import NewRun
from workbench.tui.dialogs.sessions import Sessions
from workbench.tui.dialogs.skills import Skills
from workbench.tui.dialogs.text import Text, TextBox
from workbench.tui.home import HomeApp
from workbench.tui.panes.fields import Choice as Field
from workbench.tui.panes.listing import Listing
from workbench.tui.scene import Scene
from workbench.tui.settings import Settings


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two sessions that an engine worked on."""
    folder = tmp_path_factory.mktemp("sessions")
    for name in ("softmax-1", "softmax-2"):
        new_session(folder / name)
        serve_session(folder / name, open_workplace=ScriptedWorkplace)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it to change."""
    return Path(shutil.copytree(made, tmp_path / "sessions"))


async def until(pilot: Pilot, holds: Callable[[], bool]) -> None:
    for _ in range(1500):
        await pilot.pause(0.01)
        if holds():
            return
    pytest.fail("it never came to hold")


@asynccontextmanager
async def at_home(folder: Path) -> AsyncIterator[tuple[HomeApp, Pilot]]:
    """The list of sessions, read."""
    app = HomeApp(folder, settings=Settings())
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: bool(list(app.screen.query(Listing))))
        screen = app.screen
        await until(pilot, lambda: " sessions" in str(screen.query_one(".box").border_subtitle))
        yield app, pilot


def shown(app: HomeApp | WorkbenchApp) -> str:
    return "\n".join(app.screen.query_one(Listing).shown_lines)


def chosen(app: HomeApp) -> str:
    row = app.screen.query_one(Listing).current
    return "" if row is None else row.cells[0]


# -- the list --------------------------------------------------------------------------------------


async def test_the_list_shows_state_best_and_cost_and_enter_opens(folder: Path) -> None:
    async with at_home(folder) as (app, pilot):
        rows = shown(app)
        assert "softmax-1" in rows
        assert "finished" in rows
        assert "modeled" in rows
        assert "6 steps" in rows
        name = chosen(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.return_value is not None)
    left = app.return_value
    assert left is not None
    assert (left.path, left.start) == (folder / name, False)


async def test_going_on_asks_for_an_engine(folder: Path) -> None:
    async with at_home(folder) as (app, pilot):
        await pilot.press("r")
        await until(pilot, lambda: app.return_value is not None)
    assert app.return_value is not None
    assert app.return_value.start


def test_before_the_list_is_read_it_does_not_say_that_it_is_empty() -> None:
    listing = Listing(("name",), ("There is no session yet.",))
    scene = Scene(snapshot=waiting())
    before = [content.plain for content in listing.draw(scene, 80, 10)]
    assert "There is no session yet." not in "".join(before)
    listing._read = True
    after = [content.plain for content in listing.draw(scene, 80, 10)]
    assert "There is no session yet." in "".join(after)


async def test_an_empty_list_says_how_to_begin(tmp_path: Path) -> None:
    async with at_home(tmp_path) as (app, pilot):
        assert "There is no session yet." in shown(app)
        assert "n   start one" in shown(app)
        await pilot.press("enter", "X", "R", "x", "a")
        assert isinstance(app.screen, Sessions)


async def test_a_filter_narrows_and_escape_widens_again(folder: Path) -> None:
    async with at_home(folder) as (app, pilot):
        await pilot.press("slash", *"max-2")
        await until(pilot, lambda: "softmax-1" not in shown(app))
        await pilot.press("enter")
        assert chosen(app) == "softmax-2"
        await pilot.press("escape")
        await until(pilot, lambda: "softmax-1" in shown(app))


async def test_a_session_is_renamed_put_aside_and_brought_back(folder: Path) -> None:
    async with at_home(folder) as (app, pilot):
        app.screen.query_one(Listing).choose(str(folder / "softmax-1"))
        await pilot.press("R")
        assert isinstance(app.screen, Reason)
        app.screen.query_one(Input).value = "mine"
        await pilot.press("enter")
        await until(pilot, lambda: "mine " in shown(app))
        app.screen.query_one(Listing).choose(str(folder / "mine"))
        await pilot.press("a")
        await until(pilot, lambda: "mine " not in shown(app))
        assert (folder / "archive" / "mine" / ".git").is_dir()
        await pilot.press("h")
        await until(pilot, lambda: "put aside" in shown(app))
        app.screen.query_one(Listing).choose(str(folder / "archive" / "mine"))
        await pilot.press("a")
        await until(pilot, (folder / "mine").is_dir)


async def test_a_session_is_deleted_only_after_a_yes(folder: Path) -> None:
    async with at_home(folder) as (app, pilot):
        app.screen.query_one(Listing).choose(str(folder / "softmax-2"))
        await pilot.press("X")
        assert isinstance(app.screen, Confirm)
        await pilot.press("enter", "n")
        assert (folder / "softmax-2").is_dir()
        await pilot.press("X", "y")
        await until(pilot, lambda: "softmax-2" not in shown(app))
    assert not (folder / "softmax-2").exists()
    assert (folder / "softmax-1").is_dir()


async def test_a_bundle_goes_out_and_comes_in(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.bundle"
    async with at_home(folder) as (app, pilot):
        app.screen.query_one(Listing).choose(str(folder / "softmax-1"))
        await pilot.press("x")
        app.screen.query_one(Input).value = str(file)
        await pilot.press("enter")
        await until(pilot, file.is_file)
    fresh = tmp_path / "fresh"
    async with at_home(fresh) as (app, pilot):
        await pilot.press("i")
        app.screen.query_one(Input).value = str(file)
        await pilot.press("enter")
        await until(pilot, lambda: "softmax-1" in shown(app))


async def test_the_list_opens_over_a_session_and_leads_to_another(folder: Path) -> None:
    app = WorkbenchApp(FakeClient(waiting()), folder=folder, settings=Settings())
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, Sessions))
        await until(pilot, lambda: "softmax-1" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.return_value is not None)
    assert app.return_value is not None
    assert app.return_value.path is not None
    assert app.return_value.path.parent == folder


# -- keeping house ---------------------------------------------------------------------------------


def test_a_session_that_an_engine_holds_is_left_alone(folder: Path) -> None:
    path = folder / "softmax-1"
    with EngineLock(lock_path(SessionReader(path)), session="softmax-1"):
        for act in (
            housekeeping.delete, housekeeping.archive, lambda p: housekeeping.rename(p, "x"),
        ):  # fmt: skip
            with pytest.raises(SessionBusyError):
                act(path)
    assert path.is_dir()


@pytest.mark.parametrize("name", ["softmax-2", "../out", "Upper", ""])
def test_a_name_that_is_taken_or_none_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(WorkbenchError):
        housekeeping.rename(folder / "softmax-1", name)
    assert {row.name for row in list_sessions(folder)} == {"softmax-1", "softmax-2"}


def test_what_is_no_session_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "precious.txt").write_text("x")
    with pytest.raises(WorkbenchError):
        housekeeping.delete(tmp_path / "work")
    assert (tmp_path / "work" / "precious.txt").exists()


# -- a new run -------------------------------------------------------------------------------------


async def new_run(app: HomeApp, pilot: Pilot) -> NewRun:
    await pilot.press("n")
    await until(pilot, lambda: isinstance(app.screen, NewRun))
    await pilot.pause()
    assert isinstance(app.screen, NewRun)
    return app.screen


async def test_a_run_is_started_without_a_flag(tmp_path: Path) -> None:
    async with at_home(tmp_path / "s") as (app, pilot):
        form = await new_run(app, pilot)
        await pilot.press("r")
        assert form.query_one("#problem", Field).value == "rmsnorm"
        form.query_one("#steps", Input).value = "3"
        form.query_one("#name", Input).focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.return_value is not None)
    left = app.return_value
    assert left is not None
    assert left.start
    assert left.path is not None
    settings = SessionReader(left.path).settings()
    assert (settings.problem, settings.budget.steps, settings.mode) == ("rmsnorm", 3, "review")


async def test_what_cannot_be_used_is_said_and_nothing_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    async with at_home(folder) as (app, pilot):
        form = await new_run(app, pilot)
        hint = form.query_one("#hint", Static)
        form.query_one("#file", Input).value = str(tmp_path / "nothing.py")
        form.query_one("#name", Input).focus()
        await pilot.press("enter")
        await until(pilot, lambda: "nothing.py" in str(hint.content))
        form.query_one("#steps", Input).value = "many"
        form.query_one("#name", Input).focus()
        await pilot.press("enter")
        await until(pilot, lambda: "'many' is not an amount" in str(hint.content))
        await pilot.press("escape")
    assert list_sessions(folder) == []


# -- skills ----------------------------------------------------------------------------------------


async def test_skills_are_read_disabled_and_pinned(tmp_path: Path) -> None:
    async with at_home(tmp_path) as (app, pilot):
        await pilot.press("S")
        await until(pilot, lambda: isinstance(app.screen, Skills) and bool(chosen(app)))
        app.screen.query_one(Listing).choose("more-warps")
        await pilot.press("d")
        await until(pilot, lambda: "more-warps" in load_preferences().disabled)
        await until(pilot, lambda: "disabled" in shown(app))
        await pilot.press("p")
        await until(pilot, lambda: load_preferences().pinned == ("more-warps",))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TextBox))
        await pilot.pause()
        card = "\n".join(app.screen.query_one(Text).shown_lines)
        assert "More warps a program" in card
        assert "when" in card


async def test_an_edited_card_is_a_copy_and_a_broken_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    def spoil(_app: object, path: Path) -> None:
        path.write_text("id = 3")

    monkeypatch.setattr("workbench.tui.dialogs.skills.open_editor", spoil)
    async with at_home(tmp_path) as (app, pilot):
        await pilot.press("S")
        await until(pilot, lambda: isinstance(app.screen, Skills) and bool(chosen(app)))
        app.screen.query_one(Listing).choose("more-warps")
        await pilot.press("e")
        await until(pilot, lambda: bool(app._notifications))
        assert "more-warps.toml" in "\n".join(note.message for note in app._notifications)
    assert (own_home / ".config/workbench/skills/more-warps.toml").read_text() == "id = 3"
