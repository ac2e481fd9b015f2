"""Which scope a name belongs to, by Python's rules: what a function's own body binds."""

import ast
import builtins
import re

from workbench.gate.policy.calls import Calls
from workbench.gate.policy.names import Allowed
from workbench.gate.policy.refusals import code_of_name
from workbench.gate.policy.state import Frame, Names
from workbench.gate.policy.tree import own_nodes, sure_names, survey
from workbench.gate.policy.values import (
    EMPTY,
    UNKNOWN,
    Atom,
    Function,
    Known,
    Scope,
    Value,
    has_tensor,
    join,
)

_SUNDER = re.compile(r"_[a-z0-9]\w*_")
"""Hooks of `enum`, whose calls are not visible in the source."""
SPECIAL_METHODS = frozenset(
    {"__call__", "__contains__", "__enter__", "__eq__", "__exit__", "__getitem__", "__hash__"}
    | {"__init__", "__iter__", "__len__", "__next__", "__post_init__", "__repr__", "__str__"}
)
"""Methods that Python calls by itself and that are evaluated here."""
_FREE_DUNDERS = frozenset(
    {"__all__", "__annotations__", "__author__", "__constants__", "__doc__", "__match_args__"}
    | {"__slots__", "__version__"}
)


_BINDING = (
    *(ast.arg, ast.FunctionDef, ast.ClassDef, ast.alias, ast.ExceptHandler),
    *(ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)
"""Nodes that may bind a name, beside names themselves."""


def declared_names(node: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
    """Names that a scope's own body declares global, and nonlocal."""
    declared = [n for n in own_nodes(node) if isinstance(n, ast.Global | ast.Nonlocal)]
    return (
        frozenset(name for n in declared if isinstance(n, ast.Global) for name in n.names),
        frozenset(name for n in declared if isinstance(n, ast.Nonlocal) for name in n.names),
    )


def local_names(node: ast.AST) -> frozenset[str]:
    """Names that a scope binds itself."""
    bound: set[str] = set()
    for inner in own_nodes(node):
        if isinstance(inner, ast.Name):
            if not isinstance(inner.ctx, ast.Load):
                bound.add(inner.id)
            continue
        if not isinstance(inner, _BINDING):
            continue
        match inner:
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=name, asname=alias):
                bound.add(alias or name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                bound.add(name)
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                bound.add(name)
    outer = declared_names(node)
    return frozenset(bound) - outer[0] - outer[1]


def join_names(branches: list[Names]) -> Names:
    """What each name may be where several paths join."""
    if len(branches) == 1:
        return branches[0]
    joined: Names = {}
    for branch in branches:
        for name, value in branch.items():
            joined[name] = joined.get(name, EMPTY) | value
    return joined


class Scopes(Calls):
    """The layer that looks names up and binds them."""

    def __init__(self, allowed: Allowed, tree: ast.Module) -> None:
        super().__init__(allowed)
        self.tree = tree
        self.module = Scope(None, tree)
        found = survey(tree)
        self.rebound = frozenset(
            name
            for nodes in (found.of(ast.Global), found.of(ast.Nonlocal))
            for node in nodes
            for name in node.names
        )
        """Names that some inner function rebinds: their values depend on when it ran."""
        self.catches = (
            any(node.handlers for node in found.of(ast.Try))
            or any(node.name == "__exit__" for node in found.of(ast.FunctionDef))
            or any(node.name == "contextlib" for node in found.of(ast.alias))
            or any(node.module == "contextlib" for node in found.of(ast.ImportFrom))
        )
        """Whether code of the file may catch an exception that other code raised."""
        self._may_lack: dict[ast.AST, frozenset[str]] = {}
        self._outer_names: dict[ast.AST, tuple[frozenset[str], frozenset[str]]] = {}

    def outer_names(self, node: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
        """Names that a scope's own body declares global, and nonlocal."""
        if not self.rebound:
            return frozenset(), frozenset()
        if node not in self._outer_names:
            self._outer_names[node] = declared_names(node)
        return self._outer_names[node]

    def look_up(self, name: str, node: ast.AST, frame: Frame) -> Value:
        """What a name may be here; refused where it is nothing that the policy knows."""
        found = self._find(name, frame)
        if found is not None:
            # Imports are checked where they are used: an unused one is harmless.
            if not any(isinstance(atom, Known) for atom in found):
                return found
            return join(
                self.known(atom.path, node) if isinstance(atom, Known) else frozenset({atom})
                for atom in found
            )
        path = f"builtins.{name}"
        if path in self.allowed.names:
            return self.known(path, node)
        if hasattr(builtins, name) or name.startswith("__"):
            self.refuse(code_of_name(path), node, name)
            return UNKNOWN
        self.refuse("policy.unresolved", node, name)
        return EMPTY

    def _find(self, name: str, frame: Frame) -> Value | None:
        """What a name may be here; where it may be unbound, also what outer scopes have."""
        sure = name not in self.rebound and name not in self._unsure(frame.scope.node)
        if sure and name in frame.names:
            return frame.names[name]
        found: Value | None = None
        scope: Scope | None = frame.scope
        while scope is not None:
            self.asked.add((scope, name))
            if name in scope.ever:
                found = (found or EMPTY) | scope.ever[name]
                if name not in self._unsure(scope.node):
                    return found
            scope = scope.parent
        if found is not None and hasattr(builtins, name):
            return found | {Known(f"builtins.{name}")}
        return found

    def _unsure(self, node: ast.AST) -> frozenset[str]:
        """Names of a module or class that may be unbound: then Python looks in outer scopes."""
        if not isinstance(node, ast.Module | ast.ClassDef):
            return frozenset()
        known = self._may_lack.get(node)
        if known is None:
            others = self.rebound if isinstance(node, ast.Module) else frozenset()
            known = self._may_lack[node] = (local_names(node) - sure_names(node)) | others
        return known

    def bind(self, name: str, value: Value, node: ast.AST, frame: Frame) -> None:
        """Bind a name here, where the function's own declarations say."""
        if name.startswith("__") and name.endswith("__") and name not in _FREE_DUNDERS:
            self._bind_dunder(name, value, node, frame)
        if frame.class_body is not None:
            if _SUNDER.fullmatch(name) and any(map(_of_enum, self.library_bases(frame.class_body))):
                self.refuse("policy.special-method", node, name)
            if has_tensor(value) and any(map(_of_enum, self.library_bases(frame.class_body))):
                self.refuse("policy.unresolved", node, name)
            owned = frozenset(_owned(atom, frame.class_body) for atom in value)
            self.set_member(frame.class_body, name, owned)
            value = owned
        to_module, to_outer = self.outer_names(frame.scope.node)
        if name in to_module or name in to_outer or self.is_resumed(frame):
            self.forget(value, node)
        if name in to_module:
            self.record(self.module, name, value)
        elif name in to_outer:
            self.record(self._outer(name, frame.scope), name, value)
        else:
            frame.names[name] = self.narrow(value, node)
            self.record(frame.scope, name, value)

    def is_resumed(self, frame: Frame) -> bool:
        """Whether the frame is a generator's, whose names persist between calls."""
        return frame.function is not None and self.generates(frame.function.node)

    def _bind_dunder(self, name: str, value: Value, node: ast.AST, frame: Frame) -> None:
        if frame.class_body is None or not any(isinstance(atom, Function) for atom in value):
            self.refuse("policy.patches-object", node, name)
        elif name not in SPECIAL_METHODS:
            self.refuse("policy.special-method", node, name)

    def _outer(self, name: str, scope: Scope) -> Scope:
        outer = scope.parent
        while outer is not None and name not in local_names(outer.node):
            outer = outer.parent
        return outer or self.module


def _of_enum(path: str) -> bool:
    return path.startswith("enum.")


def _owned(atom: Atom, owner: ast.ClassDef) -> Atom:
    """A function found in a class body becomes a method of that class."""
    if isinstance(atom, Function) and atom.owner is None:
        return Function(atom.node, atom.scope, atom.cached, owner)
    return atom
