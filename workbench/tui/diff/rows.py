"""Compares two sources line by line and, within edited lines, word by word. Pure."""

import difflib
import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from workbench.tui.look import visible

TAB_STOP = 4
NO_NEWLINE = "(no newline at the end of the file)"
_ALIGN_LIMIT = 900
"""Most pairs of lines in a changed block for which likeness is computed (ours: about 10 ms)."""
_ALIKE = 0.45
"""Likeness from which two lines count as one edited line (ours)."""
_WORDS = re.compile(r"\w+|\s+|.")


class Cell(Struct, frozen=True):
    """One line of one side, as it is shown."""

    number: int
    """Number of the line, from 1."""
    text: str
    words: tuple[tuple[int, int], ...] = ()
    """Character ranges that differ from the line beside it."""


class Row(Struct, frozen=True):
    """One line of both sides, or a fold over equal lines."""

    left: Cell | None = None
    right: Cell | None = None
    changed: bool = False
    folded: int = 0
    """How many equal lines a fold stands for."""


class Difference(Struct, frozen=True):
    """The whole comparison."""

    rows: tuple[Row, ...]
    """Every line of both sides; no folds."""
    added: int
    removed: int

    @property
    def same(self) -> bool:
        """Whether both sides are equal."""
        return not self.added and not self.removed


def shown_lines(source: str) -> list[str]:
    """The lines as they are shown: tabs and control characters made visible, none dropped."""
    return [_shown(line) for line in _raw_lines(source)]


def _raw_lines(source: str) -> list[str]:
    lines = source.split("\n")
    if lines[-1]:
        return [*lines, NO_NEWLINE]
    return lines[:-1]


def _shown(line: str) -> str:
    if "\t" in line:
        parts = line.split("\t")
        line = parts[0]
        for part in parts[1:]:
            line += "→" + " " * (TAB_STOP - 1 - len(line) % TAB_STOP) + part
    return visible(line)


def compare(before: str, after: str) -> Difference:
    """Every line of both sources, equal ones beside each other."""
    old, new = _raw_lines(before), _raw_lines(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    rows: list[Row] = []
    added = removed = 0
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        left = [Cell(n + 1, _shown(old[n])) for n in range(i, i_end)]
        right = [Cell(n + 1, _shown(new[n])) for n in range(j, j_end)]
        if tag == "equal":
            rows += [Row(one, other) for one, other in zip(left, right, strict=True)]
            continue
        added, removed = added + len(right), removed + len(left)
        rows += _block(left, right)
    return Difference(rows=tuple(rows), added=added, removed=removed)


def _block(left: Sequence[Cell], right: Sequence[Cell]) -> list[Row]:
    """The rows of a changed block, with lines that are alike side by side."""
    rows: list[Row] = []
    i = j = 0
    for at, to in [*_pairs(left, right), (len(left), len(right))]:
        lone_left, lone_right = left[i:at], right[j:to]
        rows += [Row(left=cell, changed=True) for cell in lone_left]
        rows += [Row(right=cell, changed=True) for cell in lone_right]
        if at < len(left) and to < len(right):
            rows.append(_edited(left[at], right[to]))
        i, j = at + 1, to + 1
    return rows


def _pairs(left: Sequence[Cell], right: Sequence[Cell]) -> list[tuple[int, int]]:
    """Pairs of indices of lines that are one edited line.

    Of all pairings in the order of both sides, the one with the largest sum of likeness.
    """
    if not left or not right or len(left) * len(right) > _ALIGN_LIMIT:
        return [(n, n) for n in range(min(len(left), len(right)))]
    columns = [_words(cell.text) for cell in right]
    alike = [[_likeness(_words(cell.text), words) for words in columns] for cell in left]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            paired = alike[i][j] + best[i + 1][j + 1] if alike[i][j] >= _ALIKE else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    return pairs


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    """Share of words in common (Dice's coefficient), which is quicker than an edit distance."""
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def _words(text: str) -> Counter[str]:
    return Counter(word for word in _WORDS.findall(text) if not word.isspace())


def _edited(left: Cell, right: Cell) -> Row:
    """Two lines side by side, with the words that differ."""
    old, new = _WORDS.findall(left.text), _WORDS.findall(right.text)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return Row(left=left, right=right, changed=True)
    left_words: list[tuple[int, int]] = []
    right_words: list[tuple[int, int]] = []
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag != "equal":
            left_words += _range(old, i, i_end)
            right_words += _range(new, j, j_end)
    return Row(
        left=Cell(left.number, left.text, tuple(left_words)),
        right=Cell(right.number, right.text, tuple(right_words)),
        changed=True,
    )


def _range(words: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
    at = sum(map(len, words[:start]))
    length = sum(map(len, words[start:end]))
    return [(at, at + length)] if length else []


def folded(rows: Sequence[Row], context: int) -> list[Row]:
    """The rows with runs of equal lines cut down to `context` lines beside each change."""
    keep = [False] * len(rows)
    for index, row in enumerate(rows):
        if row.changed:
            first, last = max(0, index - context), min(len(rows), index + context + 1)
            keep[first:last] = [True] * (last - first)
    shown: list[Row] = []
    hidden = 0
    for row, kept in zip(rows, keep, strict=True):
        if kept:
            if hidden:
                shown.append(Row(folded=hidden))
            shown.append(row)
            hidden = 0
        else:
            hidden += 1
    return [*shown, Row(folded=hidden)] if hidden else shown


def unified(rows: Sequence[Row]) -> list[Row]:
    """The rows in one column: of each run of changes first the removed lines, then the added."""
    flat: list[Row] = []
    gone: list[Row] = []
    came: list[Row] = []
    for row in rows:
        if row.changed:
            gone += [Row(left=row.left, changed=True)] if row.left else []
            came += [Row(right=row.right, changed=True)] if row.right else []
            continue
        flat += [*gone, *came, row]
        gone, came = [], []
    return [*flat, *gone, *came]


def hunk_starts(rows: Sequence[Row]) -> list[int]:
    """Index of the first row of each run of changed rows."""
    return [
        index
        for index, row in enumerate(rows)
        if row.changed and (index == 0 or not rows[index - 1].changed)
    ]


def patch(before: str, after: str, old_name: str, new_name: str) -> str:
    """The difference as a patch that `git apply` and `patch` accept."""
    lines = difflib.unified_diff(_ended(before), _ended(after), old_name, new_name)
    return "".join(
        text if text.endswith("\n") else text + "\n\\ No newline at end of file\n" for text in lines
    )


def _ended(source: str) -> list[str]:
    """Lines with their line feeds; no other character ends a line for git."""
    lines = source.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
