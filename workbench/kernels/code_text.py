"""Makes generated code of two kernels comparable: no debug information, matching names."""

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from workbench.kernels.records import KernelCode

LEVELS = ("ttgir", "ptx", "sass")
"""Levels of generated code, from the most abstract down."""

_NOISE = {
    # Locations nest: `loc("x"("candidate.py":3:1 at #loc4))`.
    "ttgir": re.compile(r" ?\bloc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"),
    "ptx": re.compile(r"\s*//.*"),
    "sass": re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s*"),
}
_DROPPED = {
    "ttgir": re.compile(r"\s*(#loc\d* =|$)"),
    "ptx": re.compile(r"\s*(//|\.loc\s|\.file\s|\$L__(tmp|func_begin|func_end)\d+:|$)"),
    "sass": re.compile(r"\s*(//-|$)"),
}
_NAMES = {
    "ttgir": re.compile(r"(?:%|#(?!ttg\b|ttng\b|nvws\b|loc))[\w$.-]+"),
    "ptx": re.compile(r"(?:%[a-z]+|\$L__BB)[\d_]+"),
    "sass": re.compile(r"\b(?:UR|UP|R|P|B|SB)\d+\b|\.L_x_\d+"),
}
"""Names that a compiler renumbers when earlier code changes: registers, labels, layouts."""
_NUMBER = re.compile(r"[\d_]+$")


def plain_lines(text: str, level: str) -> list[str]:
    """The lines of a text, without source locations and debug information."""
    noise, dropped = _NOISE[level], _DROPPED[level]
    return [noise.sub("", line).rstrip() for line in text.split("\n") if not dropped.match(line)]


def alike(before: str, after: str, level: str) -> tuple[str, str]:
    """Both texts as plain lines, with the names in the second changed to those of the first.

    The renaming is one to one over the whole kernel. It is chosen so that most of the lines that
    are equal except for names become equal; the other lines stay different. A name of the second
    text without a counterpart keeps its name, with a prime added if that name is already taken.
    """
    old, new = plain_lines(before, level), plain_lines(after, level)
    names = _NAMES[level]
    renamed = _renaming(old, new, level)
    given = set(renamed.values())

    def under(found: re.Match[str]) -> str:
        name = found[0]
        return renamed.get(name) or (f"{name}'" if name in given else name)

    return _text(old), _text([names.sub(under, line) for line in new])


def _renaming(old: Sequence[str], new: Sequence[str], level: str) -> dict[str, str]:
    """A map from the second text's names to the first's, by the number of lines in favour."""
    names = _NAMES[level]
    votes: Counter[tuple[str, str]] = Counter()
    for one, other in _matched(_blind(old, level), _blind(new, level)):
        pairs = zip(names.finditer(old[one]), names.finditer(new[other]), strict=True)
        votes.update((ours[0], theirs[0]) for ours, theirs in pairs)
    renamed: dict[str, str] = {}
    given: set[str] = set()
    # In a tie, prefer an unchanged name, then the pair that comes first in the text.
    for ours, theirs in sorted(votes, key=lambda pair: (-votes[pair], pair[0] != pair[1])):
        if theirs not in renamed and ours not in given:
            renamed[theirs] = ours
            given.add(ours)
    return renamed


def _blind(lines: Sequence[str], level: str) -> list[str]:
    """The lines with each name reduced to its kind, such as 64-bit register or label."""

    def kind(found: re.Match[str]) -> str:
        return found[0][0] if level == "ttgir" else _NUMBER.sub("?", found[0])

    return [_NAMES[level].sub(kind, line) for line in lines]


def _matched(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Indices of equal lines in both sequences, in order."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for one, other, length in matcher.get_matching_blocks():
        yield from ((one + at, other + at) for at in range(length))


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def both_sides(
    one: Sequence[KernelCode], other: Sequence[KernelCode], level: str, *, verbatim: bool = False
) -> tuple[str, str]:
    """Texts of all kernels of two versions at one level, with kernels of equal name aligned.

    `verbatim` leaves every text as the compiler wrote it.
    """
    left, right = [], []
    for name in dict.fromkeys(code.kernel for code in (*one, *other)):
        ours, theirs = ([c for c in side if c.kernel == name] for side in (one, other))
        for a, b in zip_longest(ours, theirs):
            texts = (_written(a, level), _written(b, level))
            if a is not None and b is not None and not verbatim:
                texts = alike(*texts, level)
            elif not verbatim:
                texts = (_plain(texts[0], level), _plain(texts[1], level))
            left.append(_headed(a, texts[0]))
            right.append(_headed(b, texts[1]))
    return "\n".join(filter(None, left)), "\n".join(filter(None, right))


def _plain(text: str, level: str) -> str:
    return _text(plain_lines(text, level))


def _written(code: KernelCode | None, level: str) -> str:
    return "" if code is None else str(getattr(code, level))


def _headed(code: KernelCode | None, text: str) -> str:
    if code is None:
        return ""
    made = ", ".join(f"{name} {version}" for name, version in code.toolchain.items())
    return f"// {code.kernel}, {code.target}, {made}\n{text or '// too long to be kept'}"
