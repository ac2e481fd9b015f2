"""What terminals do to a screen: suspend it, resize it in a storm, show it twice."""

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from review_kit import session
from tmux_kit import PATIENCE, Tmux, terminal, workbench

from workbench.engine.client import SessionClient
from workbench.session.records import Answer

__all__ = ["session"]

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

SCREEN = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from fake_client import FakeClient, waiting
from workbench.tui.app import WorkbenchApp
WorkbenchApp(FakeClient(waiting()), clock=lambda: 100.0).run()
"""
SIZES = ((120, 36), (80, 24), (60, 17), (200, 50), (41, 11), (79, 40), (132, 18), (100, 30))


@pytest.fixture
def screen(tmp_path: Path) -> Path:
    """A program that shows a recorded session."""
    path = tmp_path / "screen.py"
    path.write_text(SCREEN)
    return path


def until_same(tmux: Tmux, wanted: Callable[[], str]) -> None:
    """Wait until the terminal shows just that."""
    end = time.monotonic() + PATIENCE
    while (shown := tmux.shown()) != (right := wanted()):
        if time.monotonic() > end:
            assert shown == right
        time.sleep(0.1)


def test_ctrl_z_gives_the_shell_back_and_fg_the_screen(screen: Path, tmp_path: Path) -> None:
    with terminal() as tmux:
        tmux.open(["bash", "--norc", "-i"], tmp_path, (100, 30))
        tmux.type(f"{sys.executable} {screen.name}")
        tmux.press("Enter")
        before = tmux.until(r"(?s)more below.*v12 against v9.*more below")
        tmux.press("C-z")
        tmux.until(r"Stopped")
        tmux.type("echo back in the $((20 + 1))st shell")
        tmux.press("Enter")
        tmux.until(r"back in the 21st shell")
        tmux.type("fg")
        tmux.press("Enter")
        until_same(tmux, lambda: before)
        tmux.press("j")
        tmux.until(r"v11 against v9")


def test_after_a_storm_of_sizes_the_screen_is_as_if_opened_there(
    screen: Path, tmp_path: Path
) -> None:
    command = [sys.executable, str(screen)]
    with terminal() as storm, terminal() as fresh:
        storm.open(command, tmp_path)
        storm.until(r"q Leave")
        storm.press("r")
        storm.until(r"a Accept")
        for size in SIZES * 3:
            storm.resize(size)
        storm.press("Escape")
        for size in SIZES * 3:
            storm.resize(size)
        fresh.open(command, tmp_path, SIZES[-1])
        fresh.until(r"v12 against v9")
        until_same(storm, fresh.shown)


def test_of_two_screens_one_decides_and_both_see(session: Path, tmp_path: Path) -> None:
    command = workbench("attach", str(session))
    with terminal() as wide, terminal() as narrow:
        wide.open(command, tmp_path)
        narrow.open(command, tmp_path, (80, 24))
        wide.until(r"v1 .* your decision")
        narrow.until(r"v1 .* ◆ you")
        narrow.press("r")
        narrow.until(r"a Accept")
        wide.press("r")
        wide.until(r"a Accept")
        wide.press("v")
        wide.until(r"because…")
        wide.type("too wide a tile")
        wide.press("Enter")
        wide.until(r"v2 .* your decision")
        # The other one still has the review of v1 open: its late answer must not hit v2.
        narrow.press("a")
        narrow.until(r"decided|vetoed|waits for no decision")
        narrow.press("Escape")
        narrow.until(r"v2 .* ◆ you")
        narrow.press("r")
        narrow.until(r"Review v2")
        narrow.until(r"a Accept")
        narrow.press("a")
        wide.until(r"budget spent")
        narrow.until(r"budget spent")
    client = SessionClient(session)
    answers = [client.transition(number).decision for number in (1, 2)]
    assert [one.answer for one in answers] == [Answer.VETOED, Answer.ACCEPTED]
    assert answers[0].reason == "too wide a tile"
