"""Which texts a computed key may be, by the source alone: `meta[name]`, `meta[f"BLOCK_{d}"]`."""

import ast
from collections.abc import Callable, Iterator

from workbench.gate.policy.tree import survey
from workbench.gate.policy.values import Arguments

Key = str | int | None
"""A key of a container that is written out; None where it is not."""

_BINDERS = (ast.arg, ast.alias, ast.FunctionDef, ast.ClassDef, ast.ExceptHandler)
_PATTERNS = (ast.MatchAs, ast.MatchStar, ast.MatchMapping)


def possible_keys(node: ast.expr, tree: ast.Module) -> Callable[[str], bool] | None:
    """A test that holds for every text that the expression may be; None where it may be any."""
    match node:
        case ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]):
            return lambda key: key.startswith(start)
        case ast.BinOp(left=ast.Constant(value=str(start)), op=ast.Add()):
            return lambda key: key.startswith(start)
        case ast.Name(id=name):
            texts = _texts_of(name, tree)
            return None if texts is None else lambda key: key in texts
    return None


def lists_places(node: ast.AST) -> str:
    """`a list` where a subscript is, or has in it, a list: a tensor then copies what it names."""
    if not isinstance(node, ast.Subscript):
        return ""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return "a list" if any(map(_is_list, parts)) else ""


def _is_list(node: ast.expr) -> bool:
    match node:
        case ast.List() | ast.ListComp():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in ("list", "range", "sorted")
    return False


def _texts_of(name: str, tree: ast.Module) -> frozenset[str] | None:
    """All that a name is bound to anywhere in the file, where all of it are literal texts."""
    found = survey(tree)
    stored = [n for n in found.of(ast.Name) if n.id == name and not isinstance(n.ctx, ast.Load)]
    others = (n for kind in (*_BINDERS, *_PATTERNS) for n in found.of(kind))
    if not stored or any(name in _bound(other) for other in others):
        return None
    texts: dict[ast.expr, frozenset[str]] = {}
    for target, value in _bindings(tree):
        literal = _literals(value)
        if literal is not None:
            texts[target] = literal
    if not all(node in texts for node in stored):
        return None
    return frozenset().union(*(texts[node] for node in stored))


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that a node binds otherwise than by assignment."""
    for field in ("arg", "name", "asname", "rest"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            yield value.partition(".")[0]


def _bindings(tree: ast.Module) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """Targets with the values that each may get."""
    found = survey(tree)
    for assign in found.of(ast.Assign):
        for target in assign.targets:
            yield target, [assign.value]
    loops: list[ast.For | ast.comprehension] = [*found.of(ast.For), *found.of(ast.comprehension)]
    for loop in loops:
        if isinstance(loop.iter, ast.Tuple | ast.List):
            yield loop.target, loop.iter.elts


def _literals(values: list[ast.expr]) -> frozenset[str] | None:
    found: set[str] = set()
    for value in values:
        match value:
            case ast.Constant(value=str(text)):
                found.add(text)
            case _:
                return None
    return frozenset(found)


def asked_key(node: ast.AST, given: Arguments) -> Key:
    """The key in `d.get("key")`; None where it may come from a partial or a star."""
    match node:
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *more]):
            return key if len(given.positional) == 1 + len(more) else None
    return None


def literal(node: ast.expr | None) -> int | str | None:
    """A bound of a slice where it is written out, `None` where there is none, else a text."""
    match node:
        case None:
            return None
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    return "computed"
