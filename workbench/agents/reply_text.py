"""Repairs of characters: what a chat window does to code, undone where only one reading parses."""

import ast
import html
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator

from workbench.agents.reply_records import Repair
from workbench.problems.foreign import parse_python

_DOUBLE = {"\u201c": '"', "\u201d": '"', "\u201e": '"'}
_SINGLE = {"\u2018": "'", "\u2019": "'"}
_QUOTES = tuple(map(str.maketrans, (_DOUBLE, _SINGLE, _DOUBLE | _SINGLE)))
_BLANKS = str.maketrans({"\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u3000": " "})
_SIGNS = str.maketrans(
    {"\u2212": "-", "\u2013": "-", "\u00d7": "*", "\u2264": "<=", "\u2265": ">="}
    | {chr(0xFEE0 + ord(sign)): sign for sign in "()[]{},:;=+-*/<>.@"}
)
_INVISIBLE = re.compile("[\ufeff\u200b\u200c\u200d\u2060\u00ad\x00]")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_MARKED = re.compile(r"^[ \t]*(&lt;){5,9}", re.MULTILINE)
_ESCAPE = re.compile(r"\\([_*\[\]<>#`~])")
_BOLD = re.compile(r"\*\*(init|name|main|call|file|doc)\*\*")
_STRUCTURE = re.compile(r"\s*(`{3,}|~{3,}|<{5,}|={5,}$|>{5,}|@@|---|\+\+\+)")
"""How a line begins that says where code is, and is none."""
_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos|#\d+|#x[0-9a-fA-F]+);")
_NUMBERED = re.compile(r"^ *(?:L|\[)?(\d+)(?: ?[:|.)\]\u2192\u2502]|[ \t])(.*)$")
LONGEST = 400_000
"""Characters of code that are looked at; ours, far beyond any kernel."""


def parses(code: str) -> ast.Module | None:
    """The tree of a text that is Python; None for one that is not."""
    if len(code) > LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_python(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def fault_line(code: str) -> tuple[int, str]:
    """Where and why a text is not Python: line from 1, and the compiler's words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse_python(code[:LONGEST])
    except SyntaxError as fault:
        return fault.lineno or 1, fault.msg
    except (ValueError, RecursionError, MemoryError) as fault:
        return 1, str(fault)
    return 0, ""


def plain(text: str) -> str:
    """A reply with line ends of one kind and without invisible characters."""
    return _INVISIBLE.sub("", with_lines(text))


def with_lines(text: str) -> str:
    """A reply with line ends of one kind, and nothing invisible about the marks around its code.

    In the code itself they stay: a string may hold them, and elsewhere it does not parse.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    if "\n" not in text:
        text = text.replace("\u2028", "\n").replace("\u2029", "\n")
    text = _COLOURS.sub("", text)
    lines = text.split("\n")
    for number, line in enumerate(lines):
        bare = _INVISIBLE.sub("", line)
        if bare != line and _STRUCTURE.match(bare):
            lines[number] = bare
    return "\n".join(lines)


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
    """Without HTML's entities, where they cannot be meant: not in the strings of code that is whole
    without. `a &lt; b` is Python too, but only where somebody defines `lt`.
    """
    for _ in range(_ESCAPED_MOST):
        tree = parses(code)
        if not _ENTITY.search(code) or (tree is not None and not _entities(tree)):
            break
        code = html.unescape(code)
    return code


_ESCAPED_MOST = 3
"""Times that a text is taken to be escaped; ours: a page in a page in a page."""


def _entities(tree: ast.Module) -> set[str]:
    """Names of entities that the code reads and never defines."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    defined = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    defined |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return {node.id for node in names} & {"lt", "gt", "amp", "quot", "apos"} - defined


_HTML = Repair(code="html", says="HTML's entities became characters")


def _dedented(code: str) -> str:
    return textwrap.dedent(_spaced(code, 4))


def _spaced(code: str, width: int) -> str:
    """With blanks for the tabs that lines begin with; those inside of a line are text."""
    lines = code.split("\n")
    indents = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    pairs = zip(lines, indents, strict=True)
    return "\n".join(indent.expandtabs(width) + line[len(indent) :] for line, indent in pairs)


_LINES_MOST = 40
"""Lines that are put right one by one; ours. Of a text with more of them each is."""


def _where_wrong(*tables: dict[int, str]) -> Callable[[str], str]:
    """A change of characters that leaves alone the lines that need none: a string may hold them.

    The first table that mends a line is taken; the last one makes the whole text's change where
    lines alone do not help.
    """

    def change(code: str) -> str:
        lines = code.split("\n")
        for _ in range(_LINES_MOST):
            at, _why = fault_line("\n".join(lines))
            if not at:
                return "\n".join(lines)
            better = next((m for table in tables if (m := _mended_line(lines, at, table))), None)
            if better is None:
                break
            lines[at - 1] = better
        return code.translate(tables[-1])

    return change


def _mended_line(lines: list[str], at: int, table: dict[int, str]) -> str:
    """The line with its characters changed, when that takes the fault away from it; else empty."""
    if at > len(lines):
        return ""
    changed = lines[at - 1].translate(table)
    later, _ = fault_line("\n".join([*lines[: at - 1], changed, *lines[at:]]))
    return changed if changed != lines[at - 1] and (later == 0 or later > at) else ""


def _spelt_out(code: str) -> str:
    """A file whose line ends were written as `\\n`, all of them."""
    if "\n" in code.strip() or "\\n" not in code:
        return code
    signs = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "\\": "\\"}
    return re.sub(r"\\([ntr\"'\\])", lambda found: signs[found[1]], code.strip())


def _unquoted(code: str) -> str:
    """Without a mark that every line begins with, as quoting and diffs put there."""
    lines = [line for line in code.split("\n") if line.strip()]
    for mark in ("> ", ">>> ", "+", "| ", ">"):
        if lines and all(line.startswith(mark) or line == mark.rstrip() for line in lines):
            cut = (line[len(mark) :] if line.startswith(mark) else "" for line in code.split("\n"))
            return "\n".join(cut)
    return code


def unquoted(text: str) -> tuple[str, tuple[Repair, ...]]:
    """A reply that was quoted as a whole, as mail and chat do it, without the marks."""
    changed = _unquoted(text) if text.lstrip("\n").startswith(">") else text
    return changed, (() if changed == text else (_QUOTED,))


def _unnumbered(code: str) -> str:
    """Without line numbers, when every line has one and they count up by one."""
    lines = code.strip("\n").split("\n")
    found = [_NUMBERED.match(line) or re.match(r"^ *(\d+)()$", line) for line in lines]
    numbers = [int(match.group(1)) for match in found if match]
    if len(numbers) < 3 or len(numbers) != len(lines):
        return code
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return code
    rests = [match.group(2) for match in found if match]
    apart = all(rest.startswith(" ") for rest in rests if rest.strip())
    return "\n".join(rest[1:] if apart else rest for rest in rests)


def _untabbed(code: str) -> str:
    """Tabs as blanks, when every width that parses means the same; unchanged otherwise."""
    readings = [text for width in (4, 8, 2) if parses(text := _spaced(code, width)) is not None]
    trees = {ast.dump(tree) for text in readings if (tree := parses(text)) is not None}
    return readings[0] if len(trees) == 1 else code


def unescaped_marks(text: str) -> tuple[str, tuple[Repair, ...]]:
    """A reply whose marks of search and replace stand in it as HTML writes them."""
    return (html.unescape(text), (_HTML,)) if _MARKED.search(text) else (text, ())


def _unmarked(code: str) -> str:
    """Without Markdown's escapes, and with the underscores that it reads as bold type."""
    return _BOLD.sub(r"__\1__", _ESCAPE.sub(r"\1", code))


_QUOTED = Repair(code="quoting", says="a mark before every line was removed")
_CHANGES: tuple[tuple[Repair, Callable[[str], str]], ...] = (
    (
        Repair(code="invisible", says="invisible characters were removed"),
        lambda code: _INVISIBLE.sub("", code),
    ),
    (
        Repair(code="smart-quotes", says="typographic quotes became plain ones"),
        _where_wrong(*_QUOTES),
    ),
    (
        Repair(code="blanks", says="blanks of other kinds became plain ones"),
        _where_wrong(_BLANKS),
    ),
    (
        Repair(code="signs", says="typographic signs became plain ones"),
        _where_wrong(_SIGNS),
    ),
    (_HTML, _unescaped),
    (_QUOTED, _unquoted),
    (Repair(code="escaped", says="written-out line ends became line ends"), _spelt_out),
    (Repair(code="line-numbers", says="line numbers were removed"), _unnumbered),
    (Repair(code="markdown", says="Markdown's escapes were removed"), _unmarked),
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
    r"^[A-Za-z_][\w.]*(: [\w.\[\], ]+)? = .*[^\s.:,;!?]$"
    r"|^\s*((import|from) [\w.]+( import .*| as \w+)?$|(class|def) \w+.*[:(,]$|@\w[\w.]*(\(.*)?$"
    r"|return\b.*[\w)\]]$|(tl|torch|triton)\.\w+)",
    re.MULTILINE,
)


def looks_like_code(prose: str) -> bool:
    """Whether a text beside the code holds lines of code, so that cutting it off is not safe."""
    return _CODE.search(prose) is not None


def belongs(part: str, after: str) -> bool:
    """Whether what stands behind code goes on with its last block, so that it is not prose."""
    follows = next((line for line in after.split("\n") if line.strip()), "")
    last = part.rstrip().rpartition("\n")[2]
    return last[:1] in {" ", "\t"} and follows[:1] in {" ", "\t"}
