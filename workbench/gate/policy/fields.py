"""Which fields a record class has, in the order in which its constructor takes them."""

import ast
import re
from collections.abc import Sequence

from workbench.gate.policy.tree import survey, walk

_MARKS = frozenset({"ClassVar", "InitVar", "KW_ONLY"})
"""Annotations that give a dataclass field another meaning."""
_SETTINGS = frozenset({"init", "kw_only"})
"""Settings of a field or a class that change the parameters of the constructor."""
_DECORATOR = frozenset({"dataclass"})


def field_names(owner: ast.ClassDef) -> list[str]:
    """Annotated names in a class body: the fields of a dataclass or NamedTuple."""
    return [name for name, _ in _declared(owner)]


def ordered_fields(lineage: Sequence[ast.ClassDef]) -> list[str]:
    """The fields of a class and its bases; `lineage` begins with the class itself."""
    names = (name for owner in reversed(lineage) for name in field_names(owner))
    return list(dict.fromkeys(names))


def dataclasses_in_order(lineage: Sequence[ast.ClassDef], tree: ast.Module) -> bool:
    """Whether these are dataclasses whose constructor takes their fields in order."""
    if len(lineage) != len(set(lineage)):
        return False
    marks, decorators = _standing_for(_MARKS, tree), _standing_for(_DECORATOR, tree)
    return all(
        any(_mentions(decorator, decorators) for decorator in owner.decorator_list)
        and not any(map(_sets, owner.decorator_list))
        and not any(
            _mentions(node.annotation, marks) or (node.value is not None and _sets(node.value))
            for _, node in _declared(owner)
        )
        for owner in lineage
    )


def may_be_dataclasses(lineage: Sequence[ast.ClassDef], tree: ast.Module) -> bool:
    """Whether a decorator, or a call somewhere, may have given one of these a constructor."""
    if any(owner.decorator_list for owner in lineage):
        return True
    names, found = _standing_for(_DECORATOR, tree), survey(tree)
    decorating = {
        inner
        for owner in found.of(ast.ClassDef)
        for written in owner.decorator_list
        for inner in walk(written)
    }
    written = (*found.of(ast.Name), *found.of(ast.Attribute), *found.of(ast.Constant))
    return any(node not in decorating and _means(node, names) for node in written)


def _means(node: ast.AST, names: frozenset[str]) -> bool:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.Constant(value=str(word)):
            return word in names
    return False


def _standing_for(words: frozenset[str], tree: ast.Module) -> frozenset[str]:
    """Every name of the file that may refer to one of these."""
    found = survey(tree)
    names = set(words)
    names |= {a.asname for a in found.of(ast.alias) if a.name in words and a.asname}
    for node in found.of(ast.Assign):
        if _mentions(node.value, names):
            inner = (n for target in node.targets for n in walk(target))
            names |= {n.id for n in inner if isinstance(n, ast.Name)}
    return frozenset(names)


def _declared(owner: ast.ClassDef) -> list[tuple[str, ast.AnnAssign]]:
    return [
        (node.target.id, node)
        for node in owner.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def _sets(node: ast.expr) -> bool:
    """Whether a call has one of the settings, or some that are not written out."""
    return isinstance(node, ast.Call) and any(
        keyword.arg is None or keyword.arg in _SETTINGS for keyword in node.keywords
    )


def _mentions(node: ast.AST, names: frozenset[str] | set[str]) -> bool:
    for inner in walk(node):
        match inner:
            case ast.Constant(value=str(text)):
                words = re.findall(r"\w+", text)
            case ast.Name(id=word) | ast.Attribute(attr=word):
                words = [word]
            case _:
                continue
        if not names.isdisjoint(words):
            return True
    return False
