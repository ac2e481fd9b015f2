"""A syntax tree's nodes, each one's children found once: the policy asks for them a dozen times."""

import ast

_KEY = "_workbench_children"


def children(node: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes below this one, but for `Load`, `Store` and `Del`, which say nothing more."""
    known: tuple[ast.AST, ...] | None = node.__dict__.get(_KEY)
    if known is None:
        found: list[ast.AST] = []
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [child for child in value if isinstance(child, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
        known = node.__dict__[_KEY] = tuple(found)
    return known


_OWN = "_workbench_own"
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def own_nodes(node: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a scope that is not inside an inner function or class."""
    known: tuple[ast.AST, ...] | None = node.__dict__.get(_OWN)
    if known is None:
        found: list[ast.AST] = []
        waiting = list(children(node))
        while waiting:
            inner = waiting.pop()
            found.append(inner)
            if not isinstance(inner, _SCOPES):
                waiting.extend(children(inner))
        known = node.__dict__[_OWN] = tuple(found)
    return known


def walk(node: ast.AST) -> list[ast.AST]:
    """This node and all below it, level by level as `ast.walk` goes."""
    found = [node]
    for inner in found:
        found += children(inner)
    return found
