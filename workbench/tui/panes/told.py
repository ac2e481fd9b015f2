"""A labelled sentence over as many lines as it needs."""

from textual.content import Content

from workbench.tui.draw import line, wrapped
from workbench.tui.look import Look


def told(label: str, text: str, look: Look, width: int) -> list[Content]:
    """A labelled sentence over as many lines as it needs."""
    if not text:
        return []
    lines = wrapped(text, width - 8)
    first = [line((f" {label:<7}", look.muted), lines[0])] if lines else []
    return first + [line(" " * 8, rest) for rest in lines[1:]]
