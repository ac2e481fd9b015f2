"""Draws a labelled, wrapped sentence, as several panes need it."""

from textual.content import Content

from workbench.tui.draw import line, wrapped
from workbench.tui.look import Look


def told(label: str, text: str, look: Look, width: int) -> list[Content]:
    """The sentence wrapped to `width`, with its label on the first line; nothing if empty."""
    if not text:
        return []
    lines = wrapped(text, width - 8)
    first = [line((f" {label:<7}", look.muted), lines[0])] if lines else []
    return first + [line(" " * 8, rest) for rest in lines[1:]]
