"""Chooses the layout for a terminal's size, and says when the screen cannot start at all."""

from collections.abc import Mapping
from enum import StrEnum


class Layout(StrEnum):
    """How the main screen is laid out; also the name of its style class."""

    WIDE = "wide"
    NARROW = "narrow"
    """All panes, with meters of one line."""
    SINGLE = "single"
    """One pane at a time."""


def layout_of(columns: int, rows: int) -> Layout:
    """The layout for a terminal of that size."""
    if columns < 72 or rows < 18:
        return Layout.SINGLE
    return Layout.WIDE if columns >= 100 and rows >= 30 else Layout.NARROW


def refusal(size: tuple[int, int], env: Mapping[str, str], *, session: str = "") -> str | None:
    """Why the screen cannot start on this terminal, and which commands to use; None if it can.

    `size` is columns and rows. `session` is the name to type in these commands; without it they
    mean the newest session.
    """
    status, watch = (f"`{f'workbench {word} {session}'.rstrip()}`" for word in ("status", "watch"))
    instead = f"{status} and {watch} say the same in lines"
    if env.get("TERM", "") in {"dumb", ""}:
        return f"the terminal (TERM={env.get('TERM', '')}) cannot show a screen; {instead}"
    columns, rows = size
    if columns < 40 or rows < 10:
        return f"the terminal has {columns}x{rows} cells, the screen needs 40x10; {instead}"
    return None
