"""Repairs of characters: what a chat window does to code, undone where only one reading parses."""

import ast
import html
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator

from workbench.agents.reply_records import Repair

_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})
_BLANKS = str.maketrans({"\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u3000": " "})
_SIGNS = str.maketrans(
    {"\u2212": "-", "\u2013": "-", "\u00d7": "*", "\u2264": "<=", "\u2265": ">="}
)
_INVISIBLE = re.compile("[\ufeff\u200b\u200c\u200d\u2060\u00ad]")
_NUMBERED = re.compile(r"^ *(\d+)(?:[:|.)]|  | \||\t) ?(.*)$")
LONGEST = 400_000
"""Characters of code that are looked at; ours, far beyond any kernel."""


def parses(code: str) -> ast.Module | None:
    """The tree of a text that is Python; None for one that is not."""
    if len(code) > LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def fault_line(code: str) -> tuple[int, str]:
    """Where and why a text is not Python: line from 1, and the compiler's words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code[:LONGEST])
    except SyntaxError as fault:
        return fault.lineno or 1, fault.msg
    except (ValueError, RecursionError, MemoryError) as fault:
        return 1, str(fault)
    return 0, ""


def plain(text: str) -> str:
    """A reply with line ends of one kind and without invisible characters."""
    return _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def mended(code: str) -> tuple[str, tuple[Repair, ...]]:
    """The code as it was meant, where that is certain; unchanged, without repairs, where not.

    Each repair is tried alone and on top of the earlier ones; the first text that parses is taken.
    """
    unescaped = _unescaped(code)
    if unescaped != code and parses(unescaped) is not None:
        return unescaped, (_HTML,)
    if parses(code) is not None:
        return code, ()
    for repair, change in _CHANGES:
        changed = change(code)
        if changed != code and parses(changed) is not None:
            return changed, (repair,)
    repairs: list[Repair] = []
    text = code
    for repair, change in _CHANGES:
        changed = change(text)
        if changed != text:
            text = changed
            repairs.append(repair)
            if parses(text) is not None:
                return text, tuple(repairs)
    return code, ()


def _unescaped(code: str) -> str:
    """Without HTML's entities. `a &lt; b` is Python too, but only where somebody defines `lt`."""
    if re.search(r"\b(lt|gt|amp|quot|apos)\s*=[^=]", code):
        return code
    return html.unescape(code) if re.search(r"&(lt|gt|amp|quot|apos|#\d+);", code) else code


_HTML = Repair(code="html", says="HTML's entities became characters")


def _dedented(code: str) -> str:
    return textwrap.dedent(code.expandtabs(4) if "\t" in code else code)


def _unquoted(code: str) -> str:
    """Without a mark that every line begins with, as quoting and diffs put there."""
    lines = [line for line in code.split("\n") if line.strip()]
    for mark in ("> ", ">>> ", "+", "| "):
        if lines and all(line.startswith(mark) or line == mark.rstrip() for line in lines):
            cut = (line[len(mark) :] if line.startswith(mark) else "" for line in code.split("\n"))
            return "\n".join(cut)
    return code


def _unnumbered(code: str) -> str:
    """Without line numbers, when every line has one and they count up by one."""
    lines = code.strip("\n").split("\n")
    found = [_NUMBERED.match(line) or re.match(r"^ *(\d+)()$", line) for line in lines]
    numbers = [int(match.group(1)) for match in found if match]
    if len(numbers) < 3 or len(numbers) != len(lines):
        return code
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return code
    return "\n".join(match.group(2) for match in found if match)


def _untabbed(code: str) -> str:
    """Tabs as blanks, when every width that parses means the same; unchanged otherwise."""
    readings = [text for width in (4, 8, 2) if parses(text := code.expandtabs(width)) is not None]
    trees = {ast.dump(tree) for text in readings if (tree := parses(text)) is not None}
    return readings[0] if len(trees) == 1 else code


_CHANGES: tuple[tuple[Repair, Callable[[str], str]], ...] = (
    (
        Repair(code="smart-quotes", says="typographic quotes became plain ones"),
        lambda code: code.translate(_QUOTES),
    ),
    (
        Repair(code="blanks", says="blanks of other kinds became plain ones"),
        lambda code: code.translate(_BLANKS),
    ),
    (
        Repair(code="signs", says="typographic signs became plain ones"),
        lambda code: code.translate(_SIGNS),
    ),
    (_HTML, _unescaped),
    (Repair(code="quoting", says="a mark before every line was removed"), _unquoted),
    (Repair(code="line-numbers", says="line numbers were removed"), _unnumbered),
    (Repair(code="tabs", says="tabs became blanks"), _untabbed),
    (Repair(code="indent", says="the indent of the whole text was removed"), _dedented),
)


def windows(code: str) -> Iterator[tuple[str, str, str]]:
    """Code between prose: what stands before, a part that parses, and what stands behind.

    Begins at lines that begin like code, ends where the compiler stops understanding.
    """
    lines = code.split("\n")
    starts = [number for number, line in enumerate(lines) if _BEGINS.match(line)]
    for start in starts[:12]:
        end = len(lines)
        for _ in range(12):
            part = "\n".join(lines[start:end])
            if parses(part) is not None:
                yield "\n".join(lines[:start]), part, "\n".join(lines[end:])
                break
            wrong, _ = fault_line(part)
            end = min(end - 1, start + wrong - 1)
            if end <= start:
                break


_BEGINS = re.compile(
    r"[rR]?(\"{3}|'{3})|(import|from|class|def|async def) [A-Za-z_]|@[A-Za-z_]|#"
    r"|[A-Za-z_]\w* *= *\S"
)
_CODE = re.compile(
    r"^\s*((import|from) [\w.]+( import .*| as \w+)?$|(class|def) \w+.*[:(,]$|@\w[\w.]*(\(.*)?$"
    r"|return\b.*[\w)\]]$|(tl|torch|triton)\.\w+)",
    re.MULTILINE,
)


def looks_like_code(prose: str) -> bool:
    """Whether a text beside the code holds lines of code, so that cutting it off is not safe."""
    return _CODE.search(prose) is not None
