"""Two ways to write one computation, as texts with holes: found in a kernel and rewritten.

A form is a run of statements. A lower-case name in it stands for any one name, an upper-case one
for any expression, and an upper-case name that is a whole statement for any statements; what
stands for one thing is the same wherever it stands. `tl` is the language under whatever name the
file has it.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in, same, stored_names
from workbench.kernels.source_kernel import JitKernel
from workbench.kernels.source_names import Names

_LANGUAGE = re.compile(r"(?<![\w.])tl\.(\w+)")
_KEYWORDS = frozenset({"for", "in", "range", "while", "if", "else", "not", "None", "tl", "float"})


@dataclass(eq=False)
class Match:
    """Where a form stands in a kernel, and what fills its holes."""

    statements: list[ast.stmt]
    """The run, one after another in one body."""
    names: dict[str, str] = field(default_factory=dict)
    expressions: dict[str, ast.expr] = field(default_factory=dict)
    runs: dict[str, list[ast.stmt]] = field(default_factory=dict)


@lru_cache
def _parsed(form: str) -> tuple[ast.stmt, ...]:
    return tuple(ast.parse(form).body)


def find(kernel: JitKernel, form: str) -> Match:
    """The first place where a form stands. Raises EditRefused when it stands nowhere."""
    for found in finds(kernel, form):
        return found
    raise EditRefused("nothing in the kernel has the form it needs")


def finds(kernel: JitKernel, form: str) -> Iterator[Match]:
    """Every place where a form stands."""
    pattern = _parsed(form)
    for body in _bodies(kernel.node.body):
        for start in range(len(body) - len(pattern) + 1):
            found = Match([])
            end = _run(pattern, body[start:], found, kernel.names, whole=False)
            if end is not None:
                found.statements = body[start : start + end]
                yield found


def _bodies(body: list[ast.stmt]) -> list[list[ast.stmt]]:
    found = [body]
    for statement in body:
        for inner in ("body", "orelse"):
            held = getattr(statement, inner, [])
            found += _bodies(held) if held else []
    return found


def _run(
    pattern: Sequence[ast.stmt], body: list[ast.stmt], found: Match, names: Names, *, whole: bool
) -> int | None:
    """How many statements of a body a pattern covers, from its first on; None where it differs.

    A hole takes as few statements as it can.
    """
    if not pattern:
        return None if whole and body else 0
    hole = _statement_hole(pattern[0])
    if not hole:
        if not body or not _same(pattern[0], body[0], found, names):
            return None
        rest = _run(pattern[1:], body[1:], found, names, whole=whole)
        return None if rest is None else rest + 1
    for many in range(len(body) + 1):
        tried = Match([], dict(found.names), dict(found.expressions), dict(found.runs))
        tried.runs[hole] = body[:many]
        rest = _run(pattern[1:], body[many:], tried, names, whole=whole)
        if rest is not None:
            found.names, found.expressions, found.runs = tried.names, tried.expressions, tried.runs
            return rest + many
    return None


def _statement_hole(node: ast.stmt) -> str:
    match node:
        case ast.Expr(value=ast.Name(id=name)) if name.isupper():
            return name
        case _:
            return ""


def _same(wanted: object, node: object, found: Match, names: Names) -> bool:
    """Whether a node has the pattern's form; fills the holes on the way."""
    if isinstance(wanted, ast.Name):
        return _fits(wanted, node, found, names)
    if isinstance(wanted, ast.Attribute) and names_of_language(wanted):
        return isinstance(node, ast.expr) and names.dotted(node) == names_of_language(wanted)
    if isinstance(wanted, list):
        return isinstance(node, list) and _same_items(wanted, node, found, names)
    if isinstance(wanted, ast.AST):
        return type(wanted) is type(node) and all(
            _same(getattr(wanted, name, None), getattr(node, name, None), found, names)
            for name in wanted._fields
            if name not in {"ctx", "type_comment", "kind"}
        )
    return wanted == node


def _same_items(wanted: list[ast.AST], node: list[ast.AST], found: Match, names: Names) -> bool:
    statements = [one for one in wanted if isinstance(one, ast.stmt)]
    if statements:
        body = [one for one in node if isinstance(one, ast.stmt)]
        return _run(statements, body, found, names, whole=True) is not None
    pairs = zip(wanted, node, strict=False)
    return len(wanted) == len(node) and all(_same(a, b, found, names) for a, b in pairs)


def _fits(wanted: ast.Name, node: object, found: Match, names: Names) -> bool:
    name = wanted.id
    if name in _KEYWORDS:
        return isinstance(node, ast.Name) and names.dotted(node) == name
    if name.isupper():
        if not isinstance(node, ast.expr):
            return False
        return same(found.expressions.setdefault(name, node), node)
    if not isinstance(node, ast.Name):
        return False
    taken = {held for other, held in found.names.items() if other != name}
    return node.id not in taken and found.names.setdefault(name, node.id) == node.id


def names_of_language(node: ast.Attribute) -> str:
    """`tl.sum` of a form's `tl.sum`; empty for another attribute."""
    match node:
        case ast.Attribute(value=ast.Name(id="tl"), attr=name):
            return f"tl.{name}"
        case _:
            return ""


def rewrite(
    source: Source,
    kernel: JitKernel,
    before: str,
    after: str,
    given: Mapping[str, str] | None = None,
) -> Splice:
    """The text with one form where the other stands; `given` fills holes that only `after` has.

    Raises EditRefused where the form is not there, or what it alone binds is read elsewhere.
    """
    found = find(kernel, before)
    _check_unread(kernel, found, after)
    splice = Splice(source)
    words = _words(splice, kernel, found, after) | dict(given or {})
    lines = _lines(splice, found, after, words)
    splice.replace_statement(found.statements[0], *lines)
    for statement in found.statements[1:]:
        splice.remove(statement)
    return splice


def _check_unread(kernel: JitKernel, found: Match, after: str) -> None:
    """Refuse where a name that goes away is read outside the run."""
    kept = {found.names.get(n, n) for s in _parsed(after) for n in stored_names(s)}
    inside = {id(n) for s in found.statements for n in ast.walk(s)}
    held = {id(n) for run in found.runs.values() for s in run for n in ast.walk(s)}
    gone = {n for s in found.statements for n in _stored_outside(s, held)} - kept
    for node in (n for s in kernel.node.body for n in ast.walk(s)):
        if not isinstance(node, ast.Name) or node.id not in gone:
            continue
        if isinstance(node.ctx, ast.Load) and (id(node) not in inside or id(node) in held):
            raise EditRefused(f"line {node.lineno} reads `{node.id}`, which would be gone")


def _stored_outside(statement: ast.stmt, held: set[int]) -> set[str]:
    return {
        n.id
        for n in ast.walk(statement)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in held
    }


def _words(splice: Splice, kernel: JitKernel, found: Match, after: str) -> dict[str, str]:
    """What stands for each name of the new form: what it matched, or a name that is free."""
    words = dict(found.names)
    for name, node in found.expressions.items():
        text = splice.text(node)
        atom = isinstance(node, ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript)
        words[name] = text if atom else f"({text})"
    free = FreeNames(kernel)
    for statement in _parsed(after):
        for name in sorted(names_in(statement)):
            if name not in words and name not in _KEYWORDS and not name.isupper():
                words[name] = free.take(name)
    return words


def _lines(splice: Splice, found: Match, after: str, words: Mapping[str, str]) -> list[str]:
    """The new form as lines, at the indentation of the run's first statement."""
    lines: list[str] = []
    for line in after.strip("\n").split("\n"):
        inner = line.strip()
        indentation = line[: len(line) - len(line.lstrip())]
        if _is_run(inner):
            lines += [
                indentation + one if one else "" for one in _held(splice, found.runs.get(inner, []))
            ]
        else:
            lines.append(_filled(splice.source, line, words))
    return lines


def _is_run(line: str) -> bool:
    return line.isupper() and line.isidentifier()


def _held(splice: Splice, run: Sequence[ast.stmt]) -> list[str]:
    """Statements as they stand, the comments between them too, without their indentation."""
    if not run:
        return []
    base = splice.indentation(run[0])
    last = run[-1].end_lineno or run[-1].lineno
    return [splice.line_text(n).removeprefix(base) for n in range(run[0].lineno, last + 1)]


def _filled(source: Source, line: str, words: Mapping[str, str]) -> str:
    """A line of a form with its holes filled."""
    out, at = [], 0
    for node in sorted(_holes(line, words), key=lambda n: n[0]):
        start, end, text = node
        out += [line[at:start], text]
        at = end
    text = "".join([*out, line[at:]])
    return _LANGUAGE.sub(lambda m: spelled(source, f"tl.{m.group(1)}"), text)


def _holes(line: str, words: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """(start, end, text) of every hole of a line; keywords of calls and attributes are none."""
    found = []
    for match in re.finditer(r"(?<![\w.])[A-Za-z_]\w*", line):
        word = match.group()
        behind = line[match.end() :]
        keyword = re.match(r"=(?!=)", behind) is not None
        if word in words and not keyword:
            found.append((match.start(), match.end(), words[word]))
    return found
