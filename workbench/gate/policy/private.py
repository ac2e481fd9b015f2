"""Names with two underscores in classes: Python gives them the class's name before it looks."""

import ast
import re

from workbench.gate.policy.tree import children

_PRIVATE = re.compile(r"\b__\w*[^\W_]_?\b")
_FIELDS = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.alias: "asname",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}
"""Where a name stands that Python's compiler changes; not the names of keywords in calls."""


def name_privately(tree: ast.Module, source: str) -> None:
    """Rename in a tree what Python renames (reference, 6.2.1): `__x` in class A is `_A__x`."""
    if not _PRIVATE.search(source):
        return
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, owner = waiting.pop()
        outside: set[ast.AST] = set()
        if owner:
            _rename(node, owner)
        inner = owner
        if isinstance(node, ast.ClassDef):
            inner = _plain(node, owner).lstrip("_")
            outside = {*node.bases, *node.keywords, *node.decorator_list}
        waiting += [(child, owner if child in outside else inner) for child in children(node)]


def _plain(node: ast.ClassDef, owner: str) -> str:
    """The name of a class as it is written."""
    return node.name.removeprefix(f"_{owner}") if owner else node.name


def _rename(node: ast.AST, owner: str) -> None:
    field = _FIELDS.get(type(node))
    if isinstance(node, ast.alias) and node.asname is None and "." not in node.name:
        if _is_private(node.name):
            node.asname = f"_{owner}{node.name}"
    elif isinstance(node, ast.Global | ast.Nonlocal):
        node.names = [f"_{owner}{n}" if _is_private(n) else n for n in node.names]
    elif field is not None and _is_private(name := getattr(node, field)):
        setattr(node, field, f"_{owner}{name}")


def _is_private(name: str | None) -> bool:
    return name is not None and name.startswith("__") and not name.endswith("__")
