"""Pure helpers that draw parts of a line: fitted text, bars, sparklines, numbers."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from textual.content import Content

Part = str | tuple[str, str]
"""Text, or text with a style."""

BLOCKS = "▁▂▃▄▅▆▇█"
MINUTE, HOUR = 60, 3600


def fit(text: str, width: int) -> str:
    """The text cut to `width` cells, with an ellipsis when something is lost."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)) + "…" if width > 0 else ""


def padded(text: str, width: int) -> str:
    """The text in exactly `width` cells, left-aligned."""
    return set_cell_size(fit(text, width), max(width, 0))


def cells(parts: Iterable[Part]) -> int:
    """Number of terminal cells that the parts take."""
    return sum(cell_len(part if isinstance(part, str) else part[0]) for part in parts)


def line(*parts: Part) -> Content:
    """One line of the screen; a line break in a text becomes a space."""
    flat = (
        part.replace("\n", " ") if isinstance(part, str) else (part[0].replace("\n", " "), part[1])
        for part in parts
    )
    return Content.assemble(*flat)


def spread(left: Sequence[Part], right: Sequence[Part], width: int) -> Content:
    """A line of `width` cells with left-aligned and right-aligned parts, at least a space apart."""
    return line(*left, " " * max(1, width - cells(left) - cells(right)), *right)


def bar(share: float, width: int, style: str, rest: str) -> list[Part]:
    """A bar of `share` (0 to 1) of `width` cells in half-cell steps; the rest is a thin line.

    `style` and `rest` are the styles of the two.
    """
    halves = min(max(round(share * width * 2), 0), max(width, 0) * 2)
    full, half = divmod(halves, 2)
    return [("━" * full + "╸" * half, style), ("─" * (width - full - half), rest)]


def sparkline(values: Sequence[float], width: int) -> str:
    """One block for each value, scaled from the lowest to the highest, at most `width` blocks.

    If there are more values some are left out, but the last one is always shown.
    """
    if not values or width < 1:
        return ""
    count = min(width, len(values))
    picked = [values[(index + 1) * len(values) // count - 1] for index in range(count)]
    low, high = min(picked), max(picked)
    span = (high - low) or 1.0
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[round((value - low) / span * top)] for value in picked)


def duration(seconds: float) -> str:
    """Seconds as text: `0.02 s`, `8.2 s`, `31 s`, `4 min 10 s`, `2 h 05 min`."""
    if seconds < 0.095:
        return f"{seconds:.2f} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02d} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE:02d} min"


def figure(value: float) -> str:
    """A number as text without an exponent, rounded: `0.034`, `1.25`, `12.4`, `1830`."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:.0f}"
    digits = 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:.{digits}f}"


def wrapped(text: str, width: int) -> list[str]:
    """The text wrapped at words to lines of at most `width` cells; longer words are split."""
    lines: list[str] = []
    current = ""
    for word in text.split():
        rest = word
        if current and cell_len(current) + 1 + cell_len(rest) <= width:
            current += " " + rest
            continue
        if current:
            lines.append(current)
        while cell_len(rest) > width > 0:
            head = _head(rest, width)
            lines.append(head)
            rest = rest[len(head) :]
        current = rest
    return [*lines, current] if current else lines


def _head(text: str, width: int) -> str:
    """The longest prefix that takes at most `width` cells, but at least one character."""
    used = 0
    for index, char in enumerate(text):
        used += cell_len(char)
        if used > width:
            return text[: max(index, 1)]
    return text
