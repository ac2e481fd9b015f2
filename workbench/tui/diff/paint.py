"""Lays out a comparison for the screen: in two columns or one, with long lines wrapped."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from rich.cells import cell_len
from textual.content import Content

from workbench.tui.diff.highlight import highlighted
from workbench.tui.diff.rows import (
    Cell,
    Difference,
    Row,
    compare,
    folded,
    hunk_starts,
    shown_lines,
    unified,
)
from workbench.tui.look import Look

CONTEXT = 3
"""Equal lines shown before and after a change, as in git's patches."""
SPLIT_FROM = 110
"""Terminal width from which both sides are shown side by side (ours)."""
_GUTTER = 5
"""Cells of one line number and the blank after it."""
_MARK = 2
"""Cells of the sign `+` or `-` and the blank after it."""
_SOFT, _BREAKS = 20, " ,([="
"""A long line is broken after one of these characters if there is one among the last `_SOFT`, else
where no name is split (ours)."""


class Compared(Struct, frozen=True):
    """Two sources, compared and highlighted; made in a thread, since painting must be quick."""

    difference: Difference
    left: tuple[Content, ...]
    right: tuple[Content, ...]


class Painted(Struct, frozen=True):
    """Lines for the screen, and the index of the first line of each change."""

    lines: tuple[Content, ...]
    hunks: tuple[int, ...]


def prepare(before: str, after: str, look: Look) -> Compared:
    """Compare and highlight Python; takes milliseconds per hundred lines: call it in a thread."""
    return compared(before, after, lambda lines: highlighted(lines, look))


def compared(before: str, after: str, colour: Callable[[Sequence[str]], list[Content]]) -> Compared:
    """As `prepare`, for any language; `colour` must leave the text as it is."""
    return Compared(
        difference=compare(before, after),
        left=tuple(colour(shown_lines(before))),
        right=tuple(colour(shown_lines(after))),
    )


def paint(compared: Compared, look: Look, width: int, *, split: bool, whole: bool) -> Painted:
    """Lay the comparison out for `width` cells."""
    rows: Sequence[Row] = compared.difference.rows
    if not whole:
        rows = folded(rows, CONTEXT)
    if not split:
        rows = unified(rows)
    starts = set(hunk_starts(rows))
    painter = _Painter(compared, look, width)
    lay: Callable[[Row], list[Content]] = painter.split if split else painter.unified
    lines: list[Content] = []
    hunks: list[int] = []
    for index, row in enumerate(rows):
        if index in starts:
            hunks.append(len(lines))
        lines += painter.fold(row.folded) if row.folded else lay(row)
    if not compared.difference.rows:
        lines = [Content.styled(" both sides are empty", look.muted)]
    return Painted(lines=tuple(lines), hunks=tuple(hunks))


class _Painter:
    """Lays out single rows at one width."""

    def __init__(self, compared: Compared, look: Look, width: int) -> None:
        self._compared = compared
        self._look = look
        self._width = width

    def fold(self, count: int) -> list[Content]:
        """A run of equal lines that is not shown."""
        text = f" ⋯ {count} unchanged line{'s' if count > 1 else ''}"
        return [Content.styled(text.ljust(self._width), self._look.faint)]

    def split(self, row: Row) -> list[Content]:
        """Both sides, side by side."""
        width = (self._width - 1) // 2
        left = self._side(row.left, "-", row, width) if row.left else []
        right = self._side(row.right, "+", row, width) if row.right else []
        height = max(len(left), len(right))
        rule = Content.styled("│", self._look.line)
        left += [self._gap(width, hatch=row.left is None)] * (height - len(left))
        right += [self._gap(width, hatch=row.right is None)] * (height - len(right))
        return [
            Content("").join((one, rule, other)) for one, other in zip(left, right, strict=True)
        ]

    def unified(self, row: Row) -> list[Content]:
        """One side after the other, with both line numbers."""
        if row.changed:
            cell, mark = (row.left, "-") if row.left else (row.right, "+")
            other = _GUTTER * " "
            before, after = ("", other) if mark == "-" else (other, "")
            return self._side(cell, mark, row, self._width, before=before, after=after)
        number = f"{row.left.number:>4} " if row.left else ""
        return self._side(row.right, " ", row, self._width, before=number)

    def _gap(self, width: int, *, hatch: bool) -> Content:
        return Content.styled(("╲" if hatch else " ") * width, self._look.hatch)

    def _side(
        self,
        cell: Cell | None,
        mark: str,
        row: Row,
        width: int,
        *,
        before: str = "",
        after: str = "",
    ) -> list[Content]:
        """One line of one side, on as many screen lines as it needs."""
        if cell is None:
            return []
        look, sign = self._look, mark if row.changed else " "
        gutter = f"{before}{cell.number:>4} {after}"
        room = width - len(gutter) - _MARK
        tint, words, strong = self._tints(sign)
        code = (self._compared.left if mark == "-" else self._compared.right)[cell.number - 1]
        for start, end in cell.words:
            code = code.stylize(words, start, end)
        number_style = strong if row.changed else look.faint
        lines = []
        for index, piece in enumerate(_chopped(code, room)):
            lead = gutter if index == 0 else " " * (len(gutter) - 2) + "↪ "
            head = Content.assemble((lead, number_style), (f"{sign} ", f"bold {strong}"))
            body = Content("").join((head, piece))
            body = body.pad_right(max(0, width - body.cell_length))
            lines.append(body.stylize_before(tint) if tint else body)
        return lines

    def _tints(self, sign: str) -> tuple[str, str, str]:
        """Background of the line, style of differing words, colour of mark and number."""
        look = self._look
        if sign == "-":
            return look.removed, look.removed_word, look.bad
        if sign == "+":
            return look.added, look.added_word, look.good
        return "", "", look.faint


def _chopped(code: Content, width: int) -> list[Content]:
    """The line in pieces of at most `width` cells; an empty line is one piece."""
    if code.cell_length <= width:
        return [code]
    text, cuts, start, used = code.plain, [], 0, 0
    for index, char in enumerate(text):
        used += cell_len(char)
        if used > width:
            soft = range(index - 1, max(start, index - _SOFT), -1)
            seams = [at + 1 for at in soft if text[at] in _BREAKS]
            seams += [
                at for at in (index, *soft) if not (_named(text[at - 1]) and _named(text[at]))
            ]
            start = seams[0] if seams else index
            cuts.append(start)
            used = cell_len(text[start : index + 1])
    return code.divide(cuts)


def _named(char: str) -> bool:
    """Whether the character may be part of a name."""
    return char.isalnum() or char == "_"
