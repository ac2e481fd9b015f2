"""Where a reply holds code: fences, conflict markers, JSON; found by lines, nothing is judged."""

import json
import re

from msgspec import Struct

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$")
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_CODE_KEYS = ("code", "source", "candidate", "kernel", "file", "content", "kernel.py", "answer")
_OPENS, _DIVIDES, _CLOSES = (
    re.compile(r"^<{5,9}"),
    re.compile(r"^={5,9}\s*$"),
    re.compile(r"^>{5,9}"),
)


class Block(Struct, frozen=True, kw_only=True):
    """One fenced part of a reply."""

    language: str
    code: str
    closed: bool


class Replacement(Struct, frozen=True, kw_only=True):
    """Lines to be found, and what to put there."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    line: int | None = None
    """Where in the file they are said to begin, from 1."""


def without_thinking(text: str) -> str:
    """A reply without the thoughts that some endpoints leave in it."""
    return _THINKING.sub("", text)


def fences(text: str) -> tuple[list[Block], str]:
    """Every fenced block, in order, and the text without them."""
    blocks: list[Block] = []
    prose: list[str] = []
    inside: list[str] | None = None
    mark, language, indent = "", "", ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if inside is None:
            if found is None:
                prose.append(line)
            else:
                inside, indent, mark, language = [], found[1], found[2], found[3].lower()
        elif found is not None and found[2].startswith(mark) and not found[3]:
            blocks.append(Block(language=language, code="\n".join(inside), closed=True))
            inside = None
        else:
            inside.append(line.removeprefix(indent))
    if inside is not None:
        blocks.append(Block(language=language, code="\n".join(inside), closed=False))
    return blocks, "\n".join(prose)


def replacements(text: str) -> list[Replacement] | None:
    """Search-and-replace blocks; None when one is not whole, empty when there is none."""
    found: list[Replacement] = []
    old: list[str] | None = None
    new: list[str] | None = None
    for line in text.split("\n"):
        if _OPENS.match(line):
            if old is not None:
                return None
            old = []
        elif old is not None and new is None and _DIVIDES.match(line):
            new = []
        elif old is not None and new is not None and _CLOSES.match(line):
            found.append(Replacement(old=tuple(old), new=tuple(new)))
            old = new = None
        elif new is not None:
            new.append(line)
        elif old is not None:
            old.append(line)
    return None if old is not None else found


def code_in_json(text: str) -> str | None:
    """The code that a JSON object holds under a telling key; None when there is no such object."""
    for start in [m.start() for m in re.finditer(r"\{", text)][:8]:
        try:
            found, _ = json.JSONDecoder(strict=False).raw_decode(text[start:])
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            texts = {str(k).lower(): v for k, v in found.items() if isinstance(v, str)}
            telling = [texts[key] for key in _CODE_KEYS if key in texts and "\n" in texts[key]]
            if telling:
                return telling[0]
    return None
