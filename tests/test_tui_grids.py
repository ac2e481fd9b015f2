"""Every screen and state in every size and theme: what each cell shows, and that it can be read.

Each state is opened in each theme, then made as large and as small as terminals are. Update after
a wanted change with `pytest tests/test_tui_grids.py --snapshot-update`, and read the diff.
"""

from itertools import product
from pathlib import Path

import pytest
from rich.segment import Segment
from rich.style import Style
from screen_states import LIBRARY, OFTEN, OTHERS, REST, Shown, same_everywhere, settle, two_sessions
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from test_tui_themes import TEXT, contrast
from textual.pilot import Pilot

from workbench.tui.app import WorkbenchApp
from workbench.tui.draw import cells
from workbench.tui.settings import Settings, TuiSettings

SIZES = ((120, 36), (80, 24), (60, 17))
THEMES = ("dark", "light", "mono")
PALETTES = (("ctrl+p",), ("slash",), ("t",))
"""Keys of what is opened anew to be without colours: nobody gets there with a palette open."""
EXACT = {**OFTEN, **OTHERS, **REST}
GRAPHIC = frozenset("━╸─│┃╲╷╵╯╮╰╭└┘┌┐┤├┴┬┼▁▂▃▄▅▆▇█▊▎▔▌▐⋯·…")
"""Signs that are lines and fills: nobody reads them as text."""

FOCUSED = str.maketrans("┏━┓┃┗┛", "╭─╮│╰╯")
"""Without colours the pane in focus has a heavy border."""


class Grids(SingleFileSnapshotExtension):
    """A text file a state."""

    _write_mode = WriteMode.TEXT
    _file_extension = "txt"


def strips(app: WorkbenchApp) -> list[list[Segment]]:
    """What the terminal would show, dialogs over what they cover."""
    update = app.screen._compositor.render_update(
        full=True, screen_stack=app._background_screens, simplify=False
    )
    return [[part for strip in row for part in strip] for row in update.strips]  # type: ignore[union-attr]  # a full update has all strips


def text(rows: list[list[Segment]]) -> str:
    return "\n".join("".join(part.text for part in row).rstrip() for row in rows)


async def made(pilot: Pilot, size: tuple[int, int]) -> list[list[Segment]]:
    """The screen in another size, once it rests there."""
    app = pilot.app
    assert isinstance(app, WorkbenchApp)
    await pilot.resize_terminal(*size)
    before: list[list[Segment]] = []
    for _ in range(200):
        await pilot.pause(0.02)
        now = strips(app)
        if app.screen.size == size and now == before and text(now).strip():
            return now
        before = now
    pytest.fail(f"it never came to rest at {size}")


def illegible(app: WorkbenchApp, rows: list[list[Segment]]) -> list[str]:
    """Words whose colour comes too near to what is behind them; under a dialog they may."""
    lit = [child.region for child in app.screen.children if child.display]
    found = []
    for y, row in enumerate(rows):
        x = 0
        for part in row:
            style, here = part.style, (x, y)
            x += cells([part.text])
            words = set(part.text) - GRAPHIC - {" "}
            if not words or not style or not any(here in region for region in lit):
                continue
            if style.color and style.bgcolor and not readable(style):
                found.append(f"{part.text.strip()!r}: {style.color} on {style.bgcolor}")
    return found


def readable(style: Style) -> bool:
    assert style.color is not None
    assert style.bgcolor is not None
    ends = (style.color.get_truecolor().hex, style.bgcolor.get_truecolor().hex)
    return contrast(*ends) >= TEXT


def coloured(rows: list[list[Segment]]) -> list[str]:
    """Words in a colour of their own, or on one, where a terminal has only its two."""
    found = []
    for part in (part for row in rows for part in row if part.style):
        ends = (part.style.color if part.text.strip() else None, part.style.bgcolor)
        if any(end is not None and not end.is_default for end in ends):
            found.append(f"{part.text!r}: {part.style}")
    return found


async def everywhere(shown: Shown) -> str:
    """The screen in each size; asserts that it fills it, and that a theme changes looks alone."""
    grids: dict[tuple[int, int], str] = {}
    for themes in (THEMES[:2], THEMES[2:]) if shown.keys in PALETTES else (THEMES,):
        settings = Settings(tui=TuiSettings(theme=f"workbench-{themes[0]}"))
        app = WorkbenchApp(shown.client(shown.snapshot()), settings=settings, clock=lambda: 100.0)
        async with app.run_test(size=SIZES[0]) as pilot:
            await settle(pilot, shown.keys)
            for theme, size in product(themes, SIZES):
                app.theme = f"workbench-{theme}"
                rows = await made(pilot, size)
                assert [cells(part.text for part in row) for row in rows] == [size[0]] * size[1]
                grid = text(rows)
                assert grids.setdefault(size, grid).translate(FOCUSED) == grid.translate(FOCUSED)
                wrong = coloured(rows) if theme == "mono" else illegible(app, rows)
                assert wrong == [], (theme, size)
    return "\n".join(f"== {size[0]}x{size[1]}\n{grid}" for size, grid in grids.items()) + "\n"


@pytest.mark.parametrize("name", EXACT)
async def test_every_cell_shows_what_it_did(
    name: str, snapshot: SnapshotAssertion, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_everywhere(monkeypatch, own_home)
    if "o" in EXACT[name].keys:
        two_sessions(own_home)
    assert await everywhere(EXACT[name]) == snapshot(extension_class=Grids)


@pytest.mark.parametrize("name", LIBRARY)
async def test_the_cards_fill_their_screens_legibly(name: str) -> None:
    assert "online-softmax" in await everywhere(LIBRARY[name])
