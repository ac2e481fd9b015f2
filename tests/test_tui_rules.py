"""The rules of the screen, played with keys on a recorded session."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fake_client import FakeClient, empty, running, waiting
from msgspec import structs
from tui_kit import stage

from workbench.engine.view import Snapshot, State
from workbench.errors import WorkbenchError
from workbench.session.records import Transition
from workbench.tui.board import Board
from workbench.tui.dialogs.ask import Confirm
from workbench.tui.dialogs.text import TextBox
from workbench.tui.keys import keymap
from workbench.tui.panes.banner import Banner
from workbench.tui.panes.base import Lines
from workbench.tui.panes.card import Card
from workbench.tui.panes.header import Header
from workbench.tui.panes.lineage import Lineage
from workbench.tui.panes.profile import Profile
from workbench.tui.settings import Settings, TuiSettings

# -- looking ------------------------------------------------------------------------------------


async def test_the_selection_moves_and_the_panes_follow() -> None:
    async with stage(waiting()) as on:
        await on.until(lambda: "v12" in on.text(Profile))
        await on.press("j")
        assert on.scene.selected == 11
        await on.until(lambda: "v11" in on.text(Profile))
        assert "Split the row" in on.text(Card)
        await on.press("G")
        assert on.scene.selected == 0
        await on.press("[")
        assert on.scene.selected == 1
        await on.press("]")
        assert on.scene.selected == 0
        await on.press("g")
        assert on.scene.selected == 12


async def test_a_person_on_the_newest_row_follows_what_comes() -> None:
    async with stage(waiting()) as on:
        newest = structs.replace(waiting().versions[-1], number=13, parent=9)
        on.client.push(waiting(versions=(*waiting().versions, newest)))
        await on.until(lambda: on.scene.selected == 13)
        await on.press("j", "j")
        another = structs.replace(newest, number=14)
        on.client.push(structs.replace(on.client.now, versions=(*on.client.now.versions, another)))
        await on.until(lambda: "v14" in on.text(Lineage))
        assert on.scene.selected == 11


async def test_the_step_in_the_gate_is_the_newest_row() -> None:
    async with stage(running()) as on:
        await on.pilot.pause()
        assert on.text(Lineage).splitlines()[0].startswith(" ◐")
        await on.press("d")
        assert "gate is still running" in on.toasts


async def test_numbers_focus_panes_and_z_zooms_one() -> None:
    async with stage(waiting()) as on:
        await on.press("3", "z")
        assert on.app.board.pane.number == 3
        assert on.app.board.query_one(Profile).size.width > 100
        assert not on.app.board.query_one(Lineage).display
        await on.press("z")
        assert on.app.board.query_one(Lineage).display


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
async def test_a_small_terminal_shows_one_pane_at_a_time(number: int) -> None:
    async with stage(waiting(), size=(60, 17)) as on:
        await on.press(str(number))
        await on.pilot.pause()
        shown = [pane.number for pane in on.app.board.query("Pane") if pane.size.height > 2]
        assert shown == [number]
        assert "your review" in on.text(Header)


async def test_the_layout_follows_a_resize() -> None:
    async with stage(waiting()) as on:
        await on.pilot.resize_terminal(80, 24)
        await on.until(lambda: on.app.board.has_class("narrow"))
        await on.pilot.resize_terminal(60, 17)
        await on.until(lambda: on.app.board.has_class("single"))
        assert "v12" in on.text(Lineage)


async def test_help_lists_the_keys_of_the_pane_in_focus() -> None:
    async with stage(waiting()) as on:
        await on.press("question_mark")
        box = on.app.screen
        assert isinstance(box, TextBox)
        text = "\n".join(box.query_one(Lines).shown_lines)
        assert re.search(r"\[ \] +newer, older accepted version", text)
        assert "accept the version" not in text
        await on.press("question_mark", "2", "question_mark")
        text = "\n".join(on.app.screen.query_one(Lines).shown_lines)
        assert "newer, older accepted" not in text


async def test_help_in_the_review_has_the_keys_that_decide() -> None:
    async with stage(waiting()) as on:
        await on.review()
        await on.press("question_mark")
        text = "\n".join(on.app.screen.query_one(Lines).shown_lines)
        assert re.search(r"Decide +a +accept", text)


async def test_find_goes_to_a_version() -> None:
    async with stage(waiting()) as on:
        await on.press("slash", *"swizzle")
        await on.until(lambda: bool(on.app.screen.query("OptionList")))
        await on.until(
            lambda: any(
                "swizzle" in str(o.prompt) for o in on.app.screen.query_one("CommandList")._options
            )
        )
        await on.press("down", "enter")
        await on.until(lambda: on.scene.selected == 2)


async def test_the_log_opens_and_closes() -> None:
    async with stage(waiting()) as on:
        await on.press("l")
        assert "v12 waits for your decision" in "\n".join(
            on.app.screen.query_one(Lines).shown_lines
        )
        await on.press("escape")
        assert isinstance(on.app.screen, Board)


# -- running ------------------------------------------------------------------------------------


async def test_space_pauses_and_goes_on() -> None:
    async with stage(running()) as on:
        await on.press("space")
        await on.until(lambda: "paused" in on.text(Header))
        assert "Go on" in on.bar
        await on.press("space")
        await on.until(lambda: "running" in on.text(Header))
        assert on.client.wishes == [("pause",), ("go",)]


async def test_stop_asks_and_only_y_is_a_yes() -> None:
    async with stage(running()) as on:
        for no in ("enter", "n"):
            await on.press("x")
            assert isinstance(on.app.screen, Confirm)
            await on.press(no)
        await on.press("escape") if isinstance(on.app.screen, Confirm) else None
        assert on.client.wishes == []
        await on.press("x", "y")
        await on.until(lambda: on.client.wishes == [("stop",)])


async def test_leaving_hands_back_how_to_return() -> None:
    async with stage(running()) as on:
        await on.press("q")
    assert on.app.return_value is not None
    assert on.app.return_value.farewell().endswith("workbench attach /tmp/sessions/rms-quiet-otter")


@pytest.mark.parametrize(
    ("state", "says", "keys"),
    [
        (State.FAILED, "the engine failed: no space left on device", "l log  space go on"),
        (State.LOST, "the engine died: no space left on device", "l log  space go on"),
        (State.BUDGET, "the budget is spent", "space go on with more  o sessions"),
        (State.FINISHED, "finished", "space go on with more  o sessions"),
        (State.STOPPED, "stopped", "l log  space go on"),
        (State.SAVED, "saved session, no engine runs", "l log  space go on"),
    ],
)
async def test_a_session_that_stands_still_says_why_and_which_keys_help(
    state: State, says: str, keys: str
) -> None:
    snapshot = waiting(state=state, pending=None, says="no space left on device")
    async with stage(snapshot) as on:
        await on.pilot.pause()
        assert says in on.text(Banner)
        assert keys in on.text(Banner)
        assert "Pause" not in on.bar


async def test_a_session_at_rest_goes_on_from_the_screen() -> None:
    async with stage(waiting(state=State.LOST, pending=None)) as on:
        assert "space Go on" in on.bar
        await on.press("space")
    left = on.app.return_value
    assert left is not None
    assert (str(left.path), left.start) == ("/tmp/sessions/rms-quiet-otter", True)
    assert on.client.wishes == []


async def test_a_paused_session_says_how_to_go_on() -> None:
    snapshot = waiting(state=State.PAUSED, says="go starts the next step")
    async with stage(snapshot) as on:
        await on.pilot.pause()
        assert "paused: go starts the next step  space go on  x stop" in on.text(Banner)


async def test_the_look_follows_the_theme_at_once() -> None:
    async with stage(waiting()) as on:
        await on.until(lambda: "v12" in on.text(Profile))
        on.app.theme = "workbench-mono"
        await on.until(lambda: on.scene.look.mono)
        on.app.theme = "workbench-light"
        await on.until(lambda: not on.scene.look.mono)


async def test_ctrl_c_leaves_as_q_does() -> None:
    async with stage(running()) as on:
        await on.press("ctrl+c")
    assert on.app.return_value is not None


async def test_an_empty_session_says_what_happens_and_what_can_be_done() -> None:
    async with stage(empty(), size=(80, 24)) as on:
        await on.pilot.pause()
        assert "Nothing here yet" in on.text(Lineage)
        assert "? see every key" in on.text(Lineage)


async def test_overdue_news_is_told_and_the_panes_keep_theirs() -> None:
    now = [100.0]
    async with stage(running(), clock=lambda: now[0]) as on:
        await on.pilot.pause()
        now[0] += 45
        on.app._show()
        await on.pilot.pause()
        assert "no news for 40 s" in on.text(Header)
        assert "v11" in on.text(Lineage)


class BrokenFeed(FakeClient):
    """A client whose connection breaks and whose records cannot be read."""

    async def changes(self) -> AsyncIterator[Snapshot]:
        raise WorkbenchError("the engine hung up")
        yield self.now

    def transition(self, number: int) -> Transition:
        raise WorkbenchError(f"v{number} cannot be read", where="/tmp/session")


async def test_a_broken_feed_and_an_unreadable_record_are_told_once() -> None:
    client = BrokenFeed(waiting())
    async with stage(waiting(), client=client) as on:
        await on.until(lambda: "the engine hung up" in on.text(Banner))
        await on.until(lambda: "cannot be read" in on.toasts)
        on.app._show()
        await on.pilot.pause()
        assert on.toasts.count("v12 cannot be read") == 1


# -- copying, settings --------------------------------------------------------------------------


async def test_copy_writes_the_commit_to_a_file_and_does_not_claim_success(own_home: Path) -> None:
    async with stage(waiting()) as on:
        await on.pilot.pause()
        await on.press("y")
        copied = own_home / ".cache" / "workbench" / "copied.txt"
        assert copied.read_text() == waiting().versions[-1].commit
        assert "asked to copy" in on.toasts
        assert str(copied) in on.toasts


async def test_copy_in_the_review_gives_a_patch(own_home: Path) -> None:
    async with stage(waiting()) as on:
        await on.review()
        await on.press("y")
        copied = own_home / ".cache" / "workbench" / "copied.txt"
        await on.until(copied.exists)
        assert copied.read_text().startswith("--- a/kernel.py\n+++ b/kernel.py\n@@")


async def test_rebound_keys_work_and_are_shown() -> None:
    settings = Settings(tui=TuiSettings(), keymap=keymap({"review": "R", "accept": "Y"}))
    async with stage(waiting(), settings=settings) as on:
        await on.press("r")
        assert isinstance(on.app.screen, Board)
        assert "R Review" in on.bar
        await on.review("R")
        await on.press("a")
        assert on.client.wishes == []
        assert "Y Accept" in on.bar
        await on.press("Y")
        await on.until(lambda: bool(on.client.wishes))


async def test_faulty_settings_are_told_in_one_toast() -> None:
    settings = Settings(tui=TuiSettings(theme="no-such"), faults=("tui.them: no such setting",))
    async with stage(waiting(), settings=settings) as on:
        await on.until(lambda: "no such setting" in on.toasts)
        assert "no theme 'no-such'" in on.toasts
        assert len(on.app._notifications) == 1
        assert on.app.theme == "workbench-dark"


async def test_no_color_sends_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with stage(waiting()) as on:
        await on.until(lambda: "v12" in on.text(Profile))
        assert on.app.theme == "workbench-mono"
        update = on.app.screen._compositor.render_strips()
        colours = {
            colour.name
            for strip in update
            for segment in strip.apply_filter(on.app._filters[-1], on.app.background_colors[0])
            if segment.style
            for colour in (segment.style.color, segment.style.bgcolor)
            if colour is not None
        }
        assert colours <= {"default"}


@pytest.mark.parametrize("theme", ["nord", "textual-light", "ansi-dark"])
async def test_every_theme_of_textual_can_be_used(theme: str) -> None:
    async with stage(waiting(), settings=Settings(tui=TuiSettings(theme=theme))) as on:
        await on.until(lambda: "v12" in on.text(Profile))
        assert (await on.review()).diff.painted.lines
