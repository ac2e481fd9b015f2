"""The palette finds commands under their own keys, versions, cards and sessions."""

from pathlib import Path

import pytest
from engine_parts import new_session
from fake_client import FakeClient, waiting
from test_engine import scripted
from textual.command import CommandPalette
from tui_kit import Stage, stage

from workbench.engine.serve import serve_session
from workbench.tui.app import WorkbenchApp
from workbench.tui.dialogs.ask import Confirm
from workbench.tui.dialogs.text import TextBox
from workbench.tui.home import HomeApp
from workbench.tui.keys import keymap
from workbench.tui.panes.base import Lines
from workbench.tui.settings import Settings, TuiSettings


def offered(on: Stage) -> list[str]:
    found = on.app.screen.query("CommandList")
    return [str(option.prompt) for option in found.first()._options] if found else []


async def pick(on: Stage, words: str) -> None:
    await on.press("ctrl+p")
    await on.until(lambda: isinstance(on.app.screen, CommandPalette))
    await on.press(*("space" if char == " " else char for char in words))
    await on.until(lambda: any(words in text for text in offered(on)))
    await on.press("down", "enter")


async def test_a_command_is_found_by_its_words_and_shows_the_key_that_a_person_bound() -> None:
    settings = Settings(tui=TuiSettings(), keymap=keymap({"undo": "U"}))
    async with stage(waiting(), settings=settings) as on:
        await pick(on, "main moves back")
        await on.until(lambda: isinstance(on.app.screen, Confirm))
        await on.press("n", "ctrl+p")
        await on.until(lambda: any("key U" in text for text in offered(on)))


async def test_a_card_is_found_and_read() -> None:
    async with stage(waiting()) as on:
        await pick(on, "card more-warps")
        await on.until(lambda: isinstance(on.app.screen, TextBox))
        assert "intent" in "\n".join(on.app.screen.query_one(Lines).shown_lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("softmax-1", "gemm-7"):
        new_session(tmp_path / name)
        serve_session(tmp_path / name, open_workplace=scripted(steps=1))
    return tmp_path


async def test_another_session_is_found_and_shown_instead(folder: Path) -> None:
    app = WorkbenchApp(FakeClient(waiting()), folder=folder, settings=Settings())
    async with app.run_test(size=(120, 36)) as pilot:
        on = Stage(app, FakeClient(waiting()), pilot)
        await pick(on, "session gemm-7")
        await on.until(lambda: app.return_value is not None)
    assert app.return_value is not None
    assert app.return_value.path == folder / "gemm-7"


async def test_the_list_of_sessions_has_the_palette_too(folder: Path) -> None:
    app = HomeApp(folder, settings=Settings())
    async with app.run_test(size=(120, 36)) as pilot:
        on = Stage(app, FakeClient(waiting()), pilot)
        await pick(on, "session softmax-1")
        await on.until(lambda: app.return_value is not None)
    assert app.return_value is not None
    assert app.return_value.path == folder / "softmax-1"


async def test_cards_that_cannot_be_read_are_told_and_the_rest_is_there(own_home: Path) -> None:
    broken = own_home / ".config" / "workbench" / "skills" / "broken.toml"
    broken.parent.mkdir(parents=True)
    broken.write_text("id = ")
    async with stage(waiting()) as on:
        await pick(on, "swizzle")
        await on.until(lambda: on.scene.selected == 2)
