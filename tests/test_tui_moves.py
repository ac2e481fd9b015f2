"""Undo and branch on the screen: asked first, told in git's words, drawn where main is now."""

from pathlib import Path

import pytest
from engine_parts import new_session
from fake_client import running, waiting
from msgspec import structs
from test_engine import scripted
from tui_kit import Stage, stage

from workbench.engine.client import SessionClient
from workbench.engine.serve import serve_session
from workbench.engine.view import Snapshot, State
from workbench.session.records import Answer
from workbench.tui.dialogs.ask import Confirm
from workbench.tui.moves import branch_question, undo_question
from workbench.tui.panes.lineage import Lineage


def asked(on: Stage) -> str:
    assert isinstance(on.app.screen, Confirm)
    return on.app.screen._says


def row(on: Stage, version: str) -> str:
    return next(line for line in on.text(Lineage).splitlines() if f" {version} " in line)


async def test_undo_asks_what_git_will_hold_and_only_y_is_a_yes() -> None:
    async with stage(waiting()) as on:
        await on.press("u")
        says = asked(on)
        assert "main goes to v7" in says
        assert "refs/attempts/0009" in says
        assert "v12 waits and was made from it: it is vetoed with it" in says
        await on.press("enter", "n")
        assert on.client.wishes == []
        await on.press("u", "y")
        await on.until(lambda: bool(on.client.wishes))
        assert on.client.wishes == [("undo", 9)]


async def test_branch_goes_on_from_the_selected_version() -> None:
    async with stage(running()) as on:
        await on.press(*"]]", "b")
        assert "Go on from v" in asked(on)
        assert "when the step in the gate is finished" in asked(on)
        selected = on.scene.selected
        await on.press("y")
        await on.until(lambda: bool(on.client.wishes))
        assert on.client.wishes == [("branch", selected)]


async def test_a_refused_move_is_told_and_nothing_is_asked() -> None:
    async with stage(running()) as on:
        await on.press("G", "k", "k", "b")
        await on.until(lambda: "did not pass the gate" in on.toasts)
        assert on.client.wishes == []


def rest(**changes: object) -> Snapshot:
    return waiting(**{"state": State.FINISHED, "pending": None, **changes})


@pytest.mark.parametrize(
    ("snapshot", "says"),
    [
        (rest(kind="lineage"), "a lineage is a record"),
        (rest(incumbent=0), "v0 is the seed"),
        (rest(incumbent=None), "main is at no version of this session"),
        (waiting(state=State.LOST), "v12 waits, and no engine runs"),
        (rest(versions=(), incumbent=None), "nothing is accepted yet"),
    ],
)
def test_undo_says_why_there_is_nothing_to_take_back(snapshot: Snapshot, says: str) -> None:
    assert says in undo_question(snapshot).refusal


@pytest.mark.parametrize(
    ("snapshot", "number", "says"),
    [
        (rest(), 9, "main is at v9 already"),
        (rest(), 6, "v6 was vetoed"),
        (rest(), 8, "v8 did not pass the gate"),
        (rest(), 77, "its gate is still running"),
        (waiting(), 5, "v12 waits for your decision first"),
    ],
)
def test_branch_says_why_a_version_cannot_be_gone_on_from(
    snapshot: Snapshot, number: int, says: str
) -> None:
    assert says in branch_question(snapshot, number).refusal


async def test_a_version_that_was_taken_back_reads_so_and_main_is_named() -> None:
    versions = tuple(
        structs.replace(v, answer=Answer.VETOED, undone=True, accepted_line=False, best=False)
        if v.number == 9
        else structs.replace(v, best=v.number == 7)
        for v in rest().versions
        if v.number != 12
    )
    moved = rest(versions=versions, best=7, incumbent=5, current=11)
    async with stage(moved) as on:
        assert "undone" in row(on, "v9")
        assert "○" in row(on, "v9")
        assert row(on, "v7").rstrip().endswith("best")
        assert row(on, "v5").rstrip().endswith("main")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished session: v0 v1 v2 v4 v5 accepted, v3 refused by the gate."""
    new_session(tmp_path / "softmax-1")
    serve_session(tmp_path / "softmax-1", open_workplace=scripted(steps=5))
    return tmp_path / "softmax-1"


async def test_a_session_at_rest_is_moved_without_an_engine(folder: Path) -> None:
    client = SessionClient(folder)
    async with stage(client.snapshot(), client=client) as on:
        await on.press("u", "y")
        await on.until(lambda: "main goes back to v4" in on.toasts)
        await on.until(lambda: "undone" in row(on, "v5"))
        await on.press("b", "y")
        await on.until(lambda: "undone" not in row(on, "v5"))
    assert SessionClient(folder).snapshot().incumbent == 5
