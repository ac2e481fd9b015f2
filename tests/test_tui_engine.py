"""The screen on a real engine: its log, its socket and its git, nothing played."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from review_kit import session
from textual.pilot import Pilot
from textual.widgets import Input

from workbench.bench.terminal import Terminal
from workbench.engine.client import SessionClient
from workbench.session.records import Answer
from workbench.tui.app import WorkbenchApp
from workbench.tui.board import Board
from workbench.tui.dialogs.review import Review
from workbench.tui.panes.header import Header
from workbench.tui.panes.lineage import Lineage
from workbench.tui.settings import Settings, TuiSettings

__all__ = ["session"]


def newest_message(session: Path) -> str:
    """Of the commit that `main` points to."""
    command = ["git", "-C", str(session), "log", "--format=%s%n%b", "-1", "main"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def until(pilot: Pilot, holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        await pilot.pause(0.01)
        if holds():
            return
    pytest.fail("it never came to hold")


async def test_a_veto_and_an_acceptance_reach_git(session: Path) -> None:
    client = SessionClient(session)
    app = WorkbenchApp(client, settings=Settings(tui=TuiSettings(refresh_hz=30)))

    def waits_for(number: int) -> Callable[[], bool]:
        return lambda: app.board.scene is not None and app.board.scene.snapshot.pending == number

    def reviewing() -> bool:
        return isinstance(app.screen, Review) and app.screen.ready.is_set()

    def back() -> bool:
        return isinstance(app.screen, Board)

    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, waits_for(1))
        await pilot.press("r")
        await until(pilot, reviewing)
        await pilot.press("v")
        app.screen.query_one(Input).value = "reads past the row"
        await pilot.press("enter")
        await until(pilot, back)
        await until(pilot, waits_for(2))
        await pilot.press("r")
        await until(pilot, reviewing)
        await pilot.press("a")
        await until(pilot, back)
        await until(
            pilot, lambda: "budget spent" in "\n".join(app.board.query_one(Header).shown_lines)
        )
        rows = app.board.query_one(Lineage).shown_lines
        assert "vetoed" in next(row for row in rows if "v1 " in row)
    record = SessionClient(session).transition(1)
    assert (record.decision.answer, record.decision.reason) == (
        Answer.VETOED,
        "reads past the row",
    )
    assert "Decision: accepted by person" in newest_message(session)


def test_an_edit_in_a_real_editor_is_gated_as_the_next_step(
    session: Path, tmp_path: Path, own_home: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "# mine" >> "$1"\n')
    editor.chmod(0o755)
    command = [sys.executable, "-m", "workbench.cli.main", "attach", str(session)]
    with Terminal(command, {"EDITOR": str(editor), "VISUAL": ""}) as terminal:
        terminal.until(b"your decision")
        terminal.press(b"r")
        terminal.until(b"Accept")
        terminal.press(b"E")
        terminal.until(b"Gate your edit")
        terminal.press(b"y")
        terminal.until(b"step 2")
        terminal.settle()
        terminal.press(b"r")
        terminal.until(b"Accept")
        terminal.press(b"a")
        terminal.until(b"budget spent")
    client = SessionClient(session)
    assert client.transition(1).decision.reason == "edited by hand; the edit is the next step"
    made = client.transition(2)
    assert made.origin == "edit of v1 by hand"
    assert client.sources(2)[1].endswith("# mine\n")
    assert list((own_home / ".local/share/workbench/edits").glob("softmax-1-v1.py"))
