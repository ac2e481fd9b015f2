"""Generated code of two kernels made comparable: no debug information, one naming of registers."""

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from workbench.kernels.records import KernelCode

LEVELS = ("ttgir", "ptx", "sass")
"""From the most abstract down."""

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
"""What a compiler numbers anew when anything before it changes: registers, labels, layouts."""
_NUMBER = re.compile(r"[\d_]+$")


def plain_lines(text: str, level: str) -> list[str]:
    """The text without lines and parts that only say where in the source something came from."""
    noise, dropped = _NOISE[level], _DROPPED[level]
    return [noise.sub("", line).rstrip() for line in text.split("\n") if not dropped.match(line)]


def alike(before: str, after: str, level: str) -> tuple[str, str]:
    """Both as plain lines, the second under the first one's names of registers, labels, layouts.

    One renaming, one to one over the whole kernel, is sought that explains most of the lines that
    are equal but for names; a line that it does not explain stays different. A name of the second
    that was found nowhere in the first stays, with a prime where the first's was given to another.
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
    """From the second's names to the first's; those with most lines in favour win."""
    names = _NAMES[level]
    votes: Counter[tuple[str, str]] = Counter()
    for one, other in _matched(_blind(old, level), _blind(new, level)):
        pairs = zip(names.finditer(old[one]), names.finditer(new[other]), strict=True)
        votes.update((ours[0], theirs[0]) for ours, theirs in pairs)
    renamed: dict[str, str] = {}
    given: set[str] = set()
    # Equal votes: a name that stays as it is, then whichever comes first in the text.
    for ours, theirs in sorted(votes, key=lambda pair: (-votes[pair], pair[0] != pair[1])):
        if theirs not in renamed and ours not in given:
            renamed[theirs] = ours
            given.add(ours)
    return renamed


def _blind(lines: Sequence[str], level: str) -> list[str]:
    """The lines with no name but its kind: a 64-bit register is none of 32 bits."""

    def kind(found: re.Match[str]) -> str:
        return found[0][0] if level == "ttgir" else _NUMBER.sub("?", found[0])

    return [_NAMES[level].sub(kind, line) for line in lines]


def _matched(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Places of lines that are the same, in order."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for one, other, length in matcher.get_matching_blocks():
        yield from ((one + at, other + at) for at in range(length))


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def both_sides(
    one: Sequence[KernelCode], other: Sequence[KernelCode], level: str, *, verbatim: bool = False
) -> tuple[str, str]:
    """All kernels of two versions at one level, kernels of the same name beside each other.

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
