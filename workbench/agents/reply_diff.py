"""Changes to a file that a reply describes by its lines: unified diffs, search and replace."""

import re
from collections.abc import Callable, Sequence

from workbench.agents.reply_blocks import Replacement
from workbench.agents.reply_records import HandedBack, Repair

_HUNK = re.compile(r"^@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)?)?.*@@|^@@\s*$|^@@ (?:class|def|@)")
_FILE = re.compile(
    r"^(---|\+\+\+) \S|^(diff --git|index [0-9a-f]{4,}|new file mode) ?"
    r"|^\*\*\* (?:Update|Add) File: "
)

_CHANGED = re.compile(r"[+-](?:\s{2,}\S|[^\s+-])")
"""A changed line of code, and no item of a list in prose."""

Applied = tuple[str, tuple[Repair, ...]] | HandedBack


def looks_like_diff(text: str) -> bool:
    """Whether a text is a unified diff: it has a hunk's header, or a file's and changed lines."""
    lines = text.split("\n")
    if any(_HUNK.match(line) for line in lines):
        return True
    return any(line.startswith(("+++ ", "*** Update File: ")) for line in lines)


def files_named(text: str) -> tuple[str, ...]:
    """Files that a diff changes, each once."""
    names = re.findall(
        r"^(?:\+\+\+|\*\*\* (?:Update|Add|Delete) File:) ([^\t\n]+)", text, re.MULTILINE
    )
    bare = [name.strip().removeprefix("b/") for name in names]
    return tuple(dict.fromkeys(name for name in bare if name != "/dev/null"))


def headed(text: str) -> str:
    """The text of a block that is called a diff, with a header where it has none."""
    return text if looks_like_diff(text) else f"@@\n{text}"


def hunks(text: str) -> list[Replacement] | None:
    """The hunks of a unified diff; context without its blank is taken for what it is.

    None where changed lines stand behind a line that belongs to no hunk: a part would be lost.
    """
    found: list[Replacement] = []
    old: list[str] = []
    new: list[str] = []
    at: int | None = None
    inside = left = False

    def finish() -> None:
        if old or new:
            found.append(Replacement(old=tuple(old), new=tuple(new), line=at))
        old.clear()
        new.clear()

    for line in text.split("\n"):
        header = _HUNK.match(line)
        if header or _FILE.match(line):
            finish()
            inside, left = True, False
            at = int(header[1]) if header and header[1] else None
        elif inside and line[:1] in {"+", "-", " ", ""}:
            mark, rest = line[:1], line[1:]
            if mark != "+":
                old.append(rest)
            if mark != "-":
                new.append(rest)
        elif inside and not line.startswith("\\"):
            finish()
            inside, left = False, True
        elif left and _CHANGED.match(line):
            return None
    finish()
    return [hunk for hunk in found if hunk.old != hunk.new]


def new_file(found: Sequence[Replacement]) -> str | None:
    """The whole file, when a diff only adds; None otherwise."""
    if len(found) == 1 and not any(found[0].old) and found[0].new:
        return "\n".join(found[0].new).strip("\n") + "\n"
    return None


def apply(base: str, found: Sequence[Replacement]) -> Applied:
    """The file with every replacement made, each where its lines stand exactly once."""
    lines = base.split("\n")
    repairs: list[Repair] = []
    for number, said in enumerate(found, 1):
        change = _plain_indents(said)
        if change != said and _BLANKS not in repairs:
            repairs.append(_BLANKS)
        made = _place(lines, change)
        if isinstance(made, str):
            return HandedBack(code="anchor-not-found", reason=f"change {number}: {made}")
        start, end, new, repair = made
        lines[start:end] = new
        if repair is not None and repair not in repairs:
            repairs.append(repair)
    return "\n".join(lines), tuple(repairs)


Place = tuple[int, int, list[str], Repair | None]


def _place(lines: list[str], change: Replacement) -> Place | str:
    """Which lines a change replaces by what, and how loosely they were matched."""
    old, new = _trimmed(change)
    if not old:
        return "it names no line to be replaced"
    if any(line.startswith("\t") for line in old) and not any(x.startswith("\t") for x in lines):
        old, new = _untabbed(lines, old, new)
    for repair, same in _MATCHES:
        starts = [
            start
            for start in range(len(lines) - len(old) + 1)
            if all(same(a, b) for a, b in zip(lines[start:], old, strict=False))
        ]
        if len(starts) > 1 and change.line is not None:
            # Context that repeats, with a line number that hits one of its places.
            starts = [s for s in starts if s == change.line - 1] or starts
        if len(starts) == 1:
            start = starts[0]
            shift = _shift(lines[start : start + len(old)], old)
            if shift is None:
                continue
            # What stays is the file's own line, whatever blanks the reply ended it with.
            stays = dict(zip(old, lines[start:], strict=False))
            made = [stays.get(line, _shifted(line, shift)) for line in new]
            return start, start + len(old), made, repair
        if starts:
            return f"its lines stand {len(starts)} times in the file, first {old[0].strip()!r}"
    return f"its lines are not in the file, first {old[0].strip()!r}"


_BLANKS = Repair(code="blanks", says="blanks of other kinds became plain ones")


def _plain_indents(change: Replacement) -> Replacement:
    """With plain blanks before every line, where a reply has others."""
    old, new = (
        tuple(" " * (len(x) - len(x.lstrip())) + x.lstrip() if x[:1] in _ODD else x for x in lines)
        for lines in (change.old, change.new)
    )
    return Replacement(old=old, new=new, line=change.line)


_ODD = {"\u00a0", "\u2007", "\u202f", "\u3000"}


def _untabbed(lines: Sequence[str], old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """With blanks for tabs, by the width with which the lines are found in a file without tabs."""
    known = set(lines)
    for width in (4, 8, 2):
        wide = [line.expandtabs(width) for line in old]
        if known.issuperset(wide):
            return wide, [_expanded(line, width) for line in new]
    return old, new


def _expanded(line: str, width: int) -> str:
    bare = line.lstrip("\t ")
    return line[: len(line) - len(bare)].expandtabs(width) + bare


def _trimmed(change: Replacement) -> tuple[list[str], list[str]]:
    """Without blank lines that both sides end or begin with: they are often not the file's."""
    old, new = list(change.old), list(change.new)
    while old and new and not old[-1].strip() and not new[-1].strip():
        old.pop()
        new.pop()
    while old and new and not old[0].strip() and not new[0].strip():
        del old[0], new[0]
    return old, new


_MATCHES: tuple[tuple[Repair | None, Callable[[str, str], bool]], ...] = (
    (None, lambda a, b: a == b),
    (
        Repair(code="anchor-blanks", says="lines were found without regard to trailing blanks"),
        lambda a, b: a.rstrip() == b.rstrip(),
    ),
    (
        Repair(code="anchor-indent", says="lines were found at another indent, and moved there"),
        lambda a, b: a.strip() == b.strip(),
    ),
)


def _shift(there: Sequence[str], said: Sequence[str]) -> int | None:
    """By how many blanks what stands there is indented more than said; None when it varies."""
    shifts = {
        _indent(a) - _indent(b) for a, b in zip(there, said, strict=True) if a.strip() and b.strip()
    }
    return shifts.pop() if len(shifts) == 1 else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _shifted(line: str, shift: int) -> str:
    if not line.strip() or shift == 0:
        return line
    return " " * shift + line if shift > 0 else line[min(-shift, _indent(line)) :]
