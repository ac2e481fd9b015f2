"""Styles by role, and glyphs that are safe and available on this terminal."""

import unicodedata

from msgspec import Struct, structs
from textual.content import Content


class Look(Struct, frozen=True, kw_only=True):
    """Styles by role. Without colours, roles differ in weight, dimness or reversal."""

    text: str = "$foreground"
    muted: str = "$muted"
    faint: str = "$faint"
    line: str = "$line"
    accent: str = "$accent"
    primary: str = "$primary"
    good: str = "$success"
    warn: str = "$warning"
    bad: str = "$error"
    cursor: str = "on $cursor"
    lanes: tuple[str, ...] = ("$lane-0", "$lane-1", "$lane-2")
    added: str = "on $added"
    removed: str = "on $removed"
    added_word: str = "bold on $added-word"
    removed_word: str = "bold on $removed-word"
    hatch: str = "$line 60%"
    mono: bool = False
    ascii: bool = False


MONO = Look(
    text="",
    muted="",
    faint="dim",
    line="dim",
    accent="bold",
    primary="bold",
    good="",
    warn="",
    bad="bold",
    cursor="reverse",
    lanes=("",),
    added="",
    removed="",
    added_word="underline",
    removed_word="underline",
    hatch="dim",
    mono=True,
)


def look_for(*, colours: bool, ascii_glyphs: bool) -> Look:
    """The look with or without colours, and with ASCII or Unicode glyphs."""
    return structs.replace(Look() if colours else MONO, ascii=ascii_glyphs)


_SIGNS = {
    "✓": "+", "✗": "x", "●": "o", "◉": "@", "★": "*", "◆": ">", "◐": "~", "○": "o", "·": ".",
    "▸": ">", "▲": "^", "▼": "v", "…": "~", "→": ">", "↪": ">", "⋯": "~",
}  # fmt: skip
_LINES = {
    "━": "=", "╸": "-", "─": "-", "│": "|", "┃": "|", "╲": "/", "╷": "|", "╵": "|",
    "╯": "'", "╮": ".", "╰": "`", "╭": ",", "└": "`", "┘": "'", "┌": ",", "┐": ".",
    "┤": "+", "├": "+", "┴": "+", "┬": "+", "┼": "+",
}  # fmt: skip
_STEPS = dict(zip("▁▂▃▄▅▆▇█", "__..oo##", strict=True))
_BRAILLE = {chr(code): "." for code in range(0x2801, 0x2900)} | {chr(0x2800): " "}
_SHOWN_CONTROLS = {chr(code): "?" for code in (*range(0x2400, 0x2422), 0xFFFD)}
_ASCII = str.maketrans(_SIGNS | _LINES | _STEPS | _BRAILLE | _SHOWN_CONTROLS)


class _Visible(dict[int, int | None]):
    """Maps characters that a terminal would obey, hide or reorder to visible ones."""

    def __missing__(self, code: int) -> int:
        category = unicodedata.category(chr(code))
        if code < 0x20:
            shown = 0x2400 + code
        elif code == 0x7F:
            shown = 0x2421
        elif category in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}:
            shown = 0xFFFD
        else:
            shown = code
        self[code] = shown
        return shown


_VISIBLE = _Visible()


def visible(text: str) -> str:
    """The text with every character made visible, of the same length.

    Titles, reasons and code come from models and strangers: an escape sequence must not reach the
    terminal, and a reviewer must see characters that reorder or hide text.
    """
    return text.translate(_VISIBLE)


def glyphs(text: str, look: Look) -> str:
    """The text made visible, in ASCII where the look asks for it."""
    text = visible(text)
    return text.translate(_ASCII) if look.ascii else text


def dressed(line: Content, look: Look) -> Content:
    """A line that is safe to send to the terminal, in ASCII where the look asks for it."""
    shown = glyphs(line.plain, look)
    return line if shown == line.plain else Content(shown, spans=list(line.spans))
