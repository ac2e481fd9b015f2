"""Whole screens as pictures: layout, glyphs and colours at once.

Update after a wanted change with `pytest tests/test_tui_snapshots.py --snapshot-update`, and look
at every picture that changed.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from screen_states import OFTEN, OTHERS, Shown, same_everywhere, settle, two_sessions

from workbench.tui.app import WorkbenchApp
from workbench.tui.settings import Settings, TuiSettings

Compare = Callable[..., bool]
EVERYWHERE = (((120, 36), "dark"), ((80, 24), "light"), ((60, 17), "mono"))
"""The places of what is seen most."""
TWO = (((120, 36), "light"), ((80, 24), "mono")), (((80, 24), "dark"), ((60, 17), "light"))
"""The places of everything else, in turns; `test_tui_grids.py` has all in every place, as text."""


def places() -> dict[str, tuple[Shown, tuple[int, int], str]]:
    """Every picture by its name."""
    found = {}
    for turn, (name, shown) in enumerate([*OFTEN.items(), *OTHERS.items()]):
        for size, theme in EVERYWHERE if name in OFTEN else TWO[turn % 2]:
            found[f"{name}-{size[0]}x{size[1]}-{theme}"] = (shown, size, theme)
    return found


SCREENS = places()


@pytest.mark.parametrize("name", SCREENS)
def test_screen_looks_as_it_did(
    name: str, snap_compare: Compare, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_everywhere(monkeypatch, own_home)
    shown, size, theme = SCREENS[name]
    if "o" in shown.keys:
        two_sessions(own_home)
    settings = Settings(tui=TuiSettings(theme=f"workbench-{theme}"))
    app = WorkbenchApp(shown.client(shown.snapshot()), settings=settings, clock=lambda: 100.0)
    assert snap_compare(app, terminal_size=size, run_before=lambda pilot: settle(pilot, shown.keys))
