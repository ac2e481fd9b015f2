"""Where a reply holds code: fences, conflict markers, JSON; found by lines, nothing is judged."""

import ast
import json
import re
from collections.abc import Iterator

from msgspec import Struct

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$")
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THOUGHT_ENDS = re.compile(r"</(think|thinking|reasoning)>", re.IGNORECASE)
_THOUGHT_BEGINS = re.compile(r"^[ \t]*<(think|thinking|reasoning)>", re.IGNORECASE | re.MULTILINE)
_HEREDOC = re.compile(
    r"^[^\n]*<<-?[ \t]*(['\"]?)(\w+)\1[^\n]*\n(.*?)\n[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE
)
_HERE = re.compile(r"<<-?[ \t]*['\"]?[A-Za-z_]\w*['\"]?")
_TOKEN = re.compile(r"<\|[a-z_]{1,24}\|>")
"""A mark of a chat's template, which an endpoint should have kept to itself."""
_ANALYSIS = re.compile(
    r"<\|channel\|>(?:analysis|commentary)<\|message\|>.*?(?=<\|(?:end|start)\|>|\Z)", re.DOTALL
)
_OPENING = re.compile(r"`{3,}(?:python3?|py|triton|diff)[ \t]*$")
_SHELL = {"bash", "sh", "shell", "zsh", "console"}
_CODE_KEYS = (
    "code",
    "source",
    "candidate",
    "kernel",
    "file",
    "content",
    "kernel.py",
    "answer",
    "patch",
    "diff",
)
_LOOSE = re.compile(
    r"[\"'](?:code|source|content)[\"']\s*:\s*(\"{3}|'{3}|`{1,3})\n?(.*?)\1\s*[,}]\s*\Z", re.DOTALL
)
"""A field whose text is quoted as no JSON is."""
_PAIRS = (
    ("search", "replace"),
    ("old", "new"),
    ("find", "replace"),
    ("before", "after"),
    ("old_str", "new_str"),
    ("old_string", "new_string"),
)
"""Names that editors give to what is to be found, and to what to put there."""
_OPENS, _DIVIDES, _CLOSES = (
    re.compile(r"^([ \t]*)<{5,9}"),
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


def unframed(text: str) -> str:
    """A reply without the marks of a chat's template and what stands in its hidden channels, and
    with a line of its own for every fence that opens behind a word."""
    if _TOKEN.search(text):
        text = _TOKEN.sub("\n", _ANALYSIS.sub("", text))
    return "\n".join(_apart(line) for line in text.split("\n")) if "```" in text else text


def _apart(line: str) -> str:
    at = line.find("```")
    before = line[:at].rstrip()
    return f"{before}\n{line[at:]}" if before and _OPENING.match(line, at) else line


def without_thinking(text: str) -> str:
    """A reply without the thoughts that some endpoints leave in it.

    Where only the end of a thought is marked, its beginning was in the prompt; where only its
    beginning is, the reply never came to its answer.
    """
    if _THOUGHT_ENDS.search(text):
        text = _THINKING.sub("", text)
    ends = [found.end() for found in _THOUGHT_ENDS.finditer(text)]
    text = text[ends[-1] :] if ends else text
    begins = _THOUGHT_BEGINS.search(text)
    return text[: begins.start()] if begins else text


def in_heredoc(text: str) -> str | None:
    """The file that a shell command would write; None unless there is just one."""
    if len(_HERE.findall(text)) != 1:
        return None
    found = _HEREDOC.search(text)
    return found[3] if found else None


def _block(language: str, lines: list[str], *, closed: bool) -> Block:
    if not language and lines and lines[0].strip().lower() in {"python", "python3", "py"}:
        language, lines = "python", lines[1:]
    code = "\n".join(lines)
    written = in_heredoc(code) if language in _SHELL else None
    if written is not None:
        return Block(language="python", code=written, closed=closed)
    return Block(language=language, code=code, closed=closed)


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
            blocks.append(_block(language, inside, closed=True))
            inside = None
        else:
            inside.append(line.removeprefix(indent))
    if inside is not None:
        rest = "\n".join(inside).rstrip()
        # The last mark may stand right behind the last word.
        closed = rest.endswith(mark) and mark not in rest[: -len(mark)]
        inside = rest.removesuffix(mark).split("\n") if closed else inside
        blocks.append(_block(language, inside, closed=closed))
    return blocks, "\n".join(prose)


def replacements(text: str) -> list[Replacement] | None:
    """Search-and-replace blocks; None when one is not whole, empty when there is none."""
    found: list[Replacement] = []
    old: list[str] | None = None
    new: list[str] | None = None
    indent = ""
    for raw in text.split("\n"):
        line = raw.removeprefix(indent)
        opens = _OPENS.match(raw)
        if opens:
            if old is not None:
                return None
            old, indent = [], opens[1]
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


def codes_in_json(text: str) -> list[str]:
    """The different codes that a JSON object holds under telling keys, or the code that is a JSON
    string; empty when there is neither. Lines may be given one by one, be quoted twice or as Python
    quotes them, and an object may be a string in another one.
    """
    for start in [m.start() for m in re.finditer(r"\{", text)][:8]:
        found = _value(text[start:])
        if isinstance(found, dict) and (telling := _telling(found)):
            return list(dict.fromkeys(telling))
    for part in (*(block.code for block in fences(text)[0]), text):
        whole = _code(part.strip()) if part.strip().startswith('"') else ""
        if "\n" in whole and whole != part.strip():
            return [whole]
    loose = _LOOSE.findall(text)
    return [loose[0][1]] if len(loose) == 1 else []


def changes_in_json(text: str) -> list[Replacement]:
    """The changes that JSON lists as pairs of old and new text, or the one that it is; empty
    without."""
    for start in [m.start() for m in re.finditer(r"[\[{]", text)][:8]:
        rows = _rows(_read(text[start:]))
        pairs = [pair for row in rows if (pair := _pair(row)) is not None]
        if pairs:
            # Of several changes none is made alone: each that the text names is among them.
            named = max(len(re.findall(rf"[\"']{old}[\"']\s*:", text)) for old, _ in _PAIRS)
            return pairs if len(pairs) == len(rows) == named else []
    return []


def _rows(found: object) -> list[object]:
    """A list of changes, or of the one that an object is or holds."""
    if isinstance(found, dict) and _pair(found) is None:
        inner: list[object] = [x for x in found.values() if _pair(x) is not None]
        return next((v for v in found.values() if isinstance(v, list)), inner)
    return found if isinstance(found, list) else [found]


def _pair(row: object) -> Replacement | None:
    if not isinstance(row, dict):
        return None
    for old, new in _PAIRS:
        before, after = row.get(old), row.get(new)
        if isinstance(before, str) and isinstance(after, str) and before.strip():
            return Replacement(old=tuple(before.split("\n")), new=tuple(after.split("\n")))
    return None


def _value(text: str) -> dict[str, object] | None:
    """The object that a text begins with, in JSON or as Python writes it."""
    found = _read(text)
    return found if isinstance(found, dict) else None


def _read(text: str) -> object:
    try:
        return _JSON.raw_decode(text)[0]
    except (ValueError, RecursionError):
        return _literal(text) if text.startswith("{'") else None


def _literal(text: str) -> object:
    whole = text[: text.rfind("}") + 1]
    try:
        return ast.literal_eval(whole) if len(whole) < _LITERAL else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


_LITERAL = 100_000
"""Characters of an object in Python's notation that are read; ours."""


def _telling(found: dict[str, object], depth: int = 0) -> list[str]:
    """The codes under telling keys of the object, else of the objects in it, which may be texts."""
    texts = {str(k).lower(): _code(v) for k, v in found.items()}
    telling = [texts[key] for key in _CODE_KEYS if "\n" in texts.get(key, "")]
    if telling or depth >= _DEEPEST:
        return telling
    inner = [*_objects(found), *(_value(v) for v in _strings(found) if v.startswith("{"))]
    return [code for one in inner if one is not None for code in _telling(one, depth + 1)]


def _objects(value: object) -> Iterator[dict[str, object]]:
    """The objects directly in this one, or in a list in it."""
    for one in value.values() if isinstance(value, dict) else ():
        yield from (x for x in (one if isinstance(one, list) else [one]) if isinstance(x, dict))


_DEEPEST = 3
"""Objects that may be a string in one another; ours."""


def _strings(value: object, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < _NESTED:
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one, depth + 1)


_NESTED = 8
"""Objects and lists in one another that are looked into; ours."""


_JSON = json.JSONDecoder(strict=False)


def _code(value: object) -> str:
    """A JSON value as code: a text, a list of lines, or a text that is quoted once more."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(line.removesuffix("\n") for line in value)
    if not isinstance(value, str):
        return ""
    if value.startswith('"') and value.endswith('"') and "\n" not in value:
        try:
            return _code(_JSON.decode(value))
        except (ValueError, RecursionError):
            return value
    return value
