"""Generalizes a change that no edit makes to a sketch that can be followed in other kernels.

KLineage's carriers are diffs that a model lifts from transitions. Ours are computed: the changed
lines of all instances, in a normalized form, are aligned; what they share stays, what differs is
left open, and a kernel's names are replaced by their roles. A name or number of the sketch stands
for the same thing throughout an instance (anti-unification, Plotkin 1970).
"""

import ast
import difflib
import io
import keyword
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from msgspec import Struct

from workbench.kernels.source import Source, read_source
from workbench.kernels.source_flow import is_bare_constant
from workbench.kernels.source_kernel import JitKernel

MOST_LINES = 60
"""Longest sketch (ours): a longer one describes another kernel rather than a step."""

_ROLES = {
    "kernel": "a GPU function",
    "ptr": "a pointer parameter",
    "SIZE": "a compile-time parameter",
    "arg": "another parameter",
    "x": "a value in a GPU function",
    "h": "a value of the host",
    "N": "a number",
}
_HOLE = re.compile(rf"\b({'|'.join(_ROLES)})\d+\b")
_FORM = frozenset({"ModelNew", "forward", "self", "__init__", "Model"})
"""Names that the problem's form prescribes."""
_GAP = "..."
_SIGNS = {"+", "-"}
_ALIKE = 0.6
"""Least share of words that two lines must have in common to be merged (ours)."""


class Sketch(Struct, frozen=True, kw_only=True):
    """The generalized change."""

    text: str
    """Lines that begin with `+`, `-` or a space; `...` where instances differ."""
    of: int
    """Number of instances that share it. Instances without a changed line in common with the
    others are left out."""


@dataclass(frozen=True)
class _Word:
    text: str
    role: str = ""
    """Empty for a word that means the same in every kernel."""
    spaced: bool = False

    @property
    def shape(self) -> str:
        return self.role or self.text


@dataclass(frozen=True)
class _Line:
    sign: str
    """`+`, `-`, a space, or `@` where a hunk begins."""
    indent: int = 0
    words: tuple[_Word, ...] = ()

    @property
    def shape(self) -> tuple[str, ...]:
        return (self.sign, *(word.shape for word in self.words))


Row = tuple[_Line, ...]
"""One line in all instances, the best instance first."""


def generalized(changes: Sequence[tuple[str, str]]) -> Sketch:
    """The sketch of changes, each a pair of sources (before, after), the best instance first.

    Raises ValueError without changes, or when the first one changes nothing.
    """
    first, *others = ([*_changed(*one)] for one in changes)
    if not first:
        raise ValueError("nothing was changed")
    rows: list[Row] = [(line,) for line in first]
    covered = 1
    for other in others:
        shared = _shared(rows, other)
        if any(row[0].sign in _SIGNS and row[0].words for row in shared):
            rows, covered = shared, covered + 1
    return Sketch(text=_text(_whole_hunks(rows)), of=covered)


def _changed(before: str, after: str) -> Iterator[_Line]:
    """The hunks of a change in normalized form, with one line of context."""
    old, new = _lines(before), _lines(after)
    one, other = ([line.indent * " " + _plain(line) for line in side] for side in (old, new))
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    for group in matcher.get_grouped_opcodes(1):
        yield _Line("@")
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from old[a:b]
                continue
            yield from (_Line("-", line.indent, line.words) for line in old[a:b])
            yield from (_Line("+", line.indent, line.words) for line in new[c:d])


def _lines(source: str) -> list[_Line]:
    """The lines of a source in normalized form: no comments or docstrings, words with roles."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and is_bare_constant(body[0]):
            del body[0]
    text = ast.unparse(tree)
    view = read_source(text)
    roles, shared = _roles(view), _parameters(view)
    found = []
    for number, tokens in groupby(_tokens(text), key=lambda token: token.start[0]):
        words = list(tokens)
        here = next((names for lines, names in roles if number in lines), {})
        read = tuple(_words(words, here, shared))
        found.append(_Line(" ", words[0].start[1], read))
    return found


def _parameters(view: Source) -> dict[str, str]:
    """Roles of the names that launches share with kernels: kernels and their parameters."""
    found = {kernel.name: "kernel" for kernel in view.kernels}
    for kernel in view.kernels:
        found = {**_parameters_of(kernel), **found}
    return found


def _parameters_of(kernel: JitKernel) -> dict[str, str]:
    bases = {access.base for access in kernel.accesses}
    return {
        one.name: "SIZE" if one.constexpr else "ptr" if one.name in bases else "arg"
        for one in kernel.parameters
    }


def _roles(view: Source) -> list[tuple[range, dict[str, str]]]:
    """The lines of every function, with the roles of the names that it defines."""
    kernels = {id(kernel.node): kernel for kernel in view.kernels}
    found = []
    for node in ast.walk(view.tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        role = "x" if id(node) in kernels else "h"
        names = {
            inner.id if isinstance(inner, ast.Name) else inner.arg: role
            for inner in ast.walk(node)
            if isinstance(inner, ast.arg)
            or (isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store))
        }
        if id(node) in kernels:
            names |= _parameters_of(kernels[id(node)])
        names = {name: role for name, role in names.items() if name not in _FORM}
        found.append((range(node.lineno, (node.end_lineno or node.lineno) + 1), names))
    return found


def _words(
    tokens: Sequence[tokenize.TokenInfo], here: Mapping[str, str], shared: Mapping[str, str]
) -> Iterator[_Word]:
    end = tokens[0].start[1]
    for place, token in enumerate(tokens):
        before = tokens[place - 1].string if place else ""
        after = tokens[place + 1].string if place + 1 < len(tokens) else ""
        text, role = token.string, ""
        if token.type == tokenize.NUMBER:
            role = "N"
        elif token.type == tokenize.STRING and text[1:-1] in shared:
            role = shared[text[1:-1]]
        elif token.type == tokenize.NAME and after == "=" and before in {"(", ","}:
            role = shared.get(text, "")  # an option of what is called, or a kernel's parameter
        elif token.type == tokenize.NAME and before != ".":
            role = here.get(text, "kernel" if shared.get(text) == "kernel" else "")
        yield _Word(text, role, spaced=token.start[1] > end)
        end = token.end[1]


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    skipped = {tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped and token.string.strip():
            yield token


def _plain(line: _Line) -> str:
    return "".join(f"{' ' if word.spaced else ''}{word.text}" for word in line.words)


def _shared(rows: Sequence[Row], other: Sequence[_Line]) -> list[Row]:
    """The rows extended by another instance; lines that differ are merged or left open."""
    matcher = difflib.SequenceMatcher(
        None, [row[0].shape for row in rows], [line.shape for line in other], autojunk=False
    )
    found: list[Row] = []
    a = b = 0
    for block in matcher.get_matching_blocks():
        found += _between(rows[a : block.a], other[b : block.b], len(rows[0]) + 1)
        for place in range(block.size):
            found.append((*rows[block.a + place], other[block.b + place]))
        a, b = block.a + block.size, block.b + block.size
    return found


def _between(rows: Sequence[Row], other: Sequence[_Line], width: int) -> Iterator[Row]:
    """What two sections without an equal line have in common."""
    left = list(other)
    for row in rows:
        met = ((place, _unified(row, line)) for place, line in enumerate(left))
        place, both = next(((p, u) for p, u in met if u is not None), (-1, None))
        if both is None:
            if row[0].sign in _SIGNS:
                yield (_Line(row[0].sign),) * width
            continue
        yield both
        left = left[place + 1 :]
    if any(line.sign in _SIGNS for line in left):
        yield (_Line(_GAP),) * width


def _unified(row: Row, line: _Line) -> Row | None:
    """A row merged with a line, with differences left open; None if they are too different."""
    ours, theirs = row[0], line
    matcher = difflib.SequenceMatcher(None, ours.shape, theirs.shape, autojunk=False)
    if ours.sign != theirs.sign or not ours.words or matcher.ratio() < _ALIKE:
        return None
    made: list[list[_Word]] = [[] for _ in (*row, line)]
    for tag, a, b, c, d in matcher.get_opcodes():
        # A shape begins with the sign.
        spans = [one.words[max(a - 1, 0) : b - 1] for one in row]
        spans.append(line.words[max(c - 1, 0) : d - 1])
        for words, span in zip(made, spans, strict=True):
            words.extend(span if tag == "equal" else [_Word(_GAP, spaced=bool(words))])
    return tuple(
        _Line(one.sign, one.indent, tuple(words))
        for one, words in zip((*row, line), made, strict=True)
    )


def _whole_hunks(rows: Sequence[Row]) -> list[Row]:
    """The rows of those hunks in which something is changed."""
    found: list[Row] = []
    hunk: list[Row] = []
    for row in [*rows, (_Line("@"),)]:
        if row[0].sign != "@":
            hunk.append(row)
            continue
        if any(one[0].sign in _SIGNS and one[0].words for one in hunk):
            found += [row, *hunk] if found else hunk
        hunk = []
    return found


def _text(rows: Sequence[Row]) -> str:
    names: dict[tuple[str, ...], str] = {}
    taken: Counter[str] = Counter()
    lines: list[str] = []
    for gap, group in groupby(rows, key=_is_gap):
        if gap:
            lines.append(_GAP)
            continue
        block = list(group)
        least = min(row[0].indent for row in block)
        for row in block:
            words = zip(*(line.words for line in row), strict=True)
            told = "".join(_named(word, names, taken) for word in words)
            lines.append(f"{row[0].sign} {' ' * (row[0].indent - least)}{told}")
    used = [role for role in _ROLES if taken[role]]
    legend = "; ".join(f"{role}1, ..: {_ROLES[role]}" for role in used)
    more = len(lines) - MOST_LINES
    cut = [f"{_GAP} and {more} lines more"] if more > 0 else []
    return "\n".join([*([f"# {legend}"] if legend else []), *lines[:MOST_LINES], *cut])


def _is_gap(row: Row) -> bool:
    return not row[0].words


def _named(word: tuple[_Word, ...], names: dict[tuple[str, ...], str], taken: Counter[str]) -> str:
    """A word that all instances share, or the name of the hole that stands for it."""
    first = word[0]
    blank = " " if first.spaced else ""
    quote = first.text[0] if first.text[0] in "'\"" else ""
    texts = tuple(one.text.strip("'\"") for one in word)
    if not first.role or (first.role == "N" and len(set(texts)) == 1):
        return f"{blank}{first.text}"
    key = (first.role, *texts)
    if key not in names:
        taken[first.role] += 1
        names[key] = f"{first.role}{taken[first.role]}"
    return f"{blank}{quote}{names[key]}{quote}"


# -- matching a kernel against a sketch ------------------------------------------------------------


def operations(source: str) -> Counter[str]:
    """How often a source names each operation, or option of one: `load`, `flatten`, ..."""
    return Counter(name for line in _lines(source) for name in _operations(line.words))


def _operations(words: Sequence[_Word]) -> Iterator[str]:
    """Names that mean the same in every kernel: what follows a dot, and options."""
    for place, word in enumerate(words):
        after = words[place + 1].text if place + 1 < len(words) else ""
        name = word.text.isidentifier() and not keyword.iskeyword(word.text)
        if name and not word.role and after != "." and word.text not in _FORM:
            yield word.text


def _read(sketch: str, sign: str) -> list[tuple[_Word, ...]]:
    """The lines of a sketch that begin with a sign, except those with gaps."""
    found = []
    for text in sketch.splitlines():
        if not text.startswith(f"{sign} ") or _GAP in text:
            continue
        roles = {m.group(): m.group(1) for m in _HOLE.finditer(text)}
        words = list(_line_tokens(text[2:].strip()))
        found.append(tuple(_words(words, roles, roles)))
    return found


def _line_tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """As `_tokens`, for one line that need not be a complete statement."""
    try:
        yield from _tokens(text)
    except (tokenize.TokenError, IndentationError):
        return  # every token of the line has come by then


def added(sketch: str) -> Counter[str]:
    """Operations that a sketch adds, beyond those that it removes."""
    put, gone = (
        Counter(name for words in _read(sketch, sign) for name in _operations(words))
        for sign in ("+", "-")
    )
    return put - gone


def needed(sketch: str) -> Counter[str]:
    """Operations that must be there before a sketch: those that it removes or keeps."""
    return Counter(
        name for sign in ("-", " ") for words in _read(sketch, sign) for name in _operations(words)
    )


def carried_out(sketch: str, before: str, after: str) -> bool:
    """Whether a change from `before` to `after` added what a sketch adds.

    At least half of the added operations must be new; if it adds none, of its lines' forms (ours).
    """
    if put := added(sketch):
        grown = operations(after) - operations(before)
        return 2 * sum(grown[name] > 0 for name in put) >= len(put)
    old, new = (Counter(line.shape[1:] for line in _lines(text)) for text in (before, after))
    lines = {sign: Counter(_shapes(_read(sketch, sign))) for sign in "+-"}
    # A sketch that only removes lines is recognised by their absence.
    wanted, changed = (lines["+"], new - old) if lines["+"] else (lines["-"], old - new)
    return bool(wanted) and 2 * (wanted & changed).total() >= wanted.total()


def _shapes(lines: Sequence[tuple[_Word, ...]]) -> Iterator[tuple[str, ...]]:
    return (tuple(word.shape for word in words) for words in lines)
