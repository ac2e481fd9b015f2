"""What a kernel may name: the interpreter runs kernels as Python, so they must not reach Python."""

import ast

from workbench.gate.policy.definitions import Definitions
from workbench.gate.policy.refusals import noted
from workbench.gate.policy.scopes import local_names
from workbench.gate.policy.tree import walk
from workbench.gate.policy.values import (
    EMPTY,
    Atom,
    Items,
    Kernel,
    Known,
    Nothing,
    Plain,
    Scope,
    Tuple,
    Unknown,
    Value,
)

_REFUSED = (
    ast.Import,
    ast.ImportFrom,
    ast.ClassDef,
    ast.AsyncFunctionDef,
    ast.Global,
    ast.Nonlocal,
    ast.Try,
    ast.Await,
    ast.FunctionDef,
    ast.Lambda,
)


class Kernels(Definitions):
    """Checks functions that Triton compiles."""

    def check_kernel(self, kernel: ast.FunctionDef, scope: Scope) -> None:
        """Refuse every name in a kernel's body that leads out of Triton."""
        self.reached.add(kernel)
        # A comprehension binds its names for itself alone; elsewhere they mean what is outside.
        inner = {
            n.id
            for c in walk(kernel)
            if isinstance(c, ast.comprehension)
            for n in walk(c.target)
            if isinstance(n, ast.Name)
        }
        bound = frozenset(
            n for n in local_names(kernel) if n not in inner or not self._resolve_outer(n, scope)
        )
        for statement in kernel.body:
            for node in walk(statement):
                self.step()
                match node:
                    case ast.Name(ctx=ast.Load()) if node.id not in bound:
                        self._check_name(node, self._resolve(node.id, scope))
                    case ast.Attribute():
                        self._check_attribute(node, bound, scope)
                    case _ if isinstance(node, _REFUSED):
                        self.refuse("policy.kernel-name", node)

    def _resolve_outer(self, name: str, scope: Scope) -> Value:
        outer: Scope | None = scope
        while outer is not None:
            if name in outer.ever:
                return outer.ever[name]
            outer = outer.parent
        return EMPTY

    def _resolve(self, name: str, scope: Scope) -> Value:
        return self._resolve_outer(name, scope) or frozenset({Known(f"builtins.{name}")})

    def _check_name(self, node: ast.Name, value: Value) -> None:
        if not all(self._harmless(atom) for atom in value):
            self.refuse("policy.kernel-name", node)

    def _harmless(self, atom: Atom) -> bool:
        match atom:
            case Plain() | Nothing() | Kernel() | Unknown():
                return True
            case Known(path):
                return self._triton(path)
            case Tuple(items):
                return all(self._harmless(inner) for item in items for inner in item)
            case Items():
                return all(self._harmless(inner) for inner in self.contents(atom).all() - {atom})
        return False

    def _triton(self, path: str) -> bool:
        first, _, rest = path.partition(".")
        if first == "builtins":
            return rest in self.allowed.kernel.builtins
        group = self.allowed.names.get(path)
        if group is not None:
            return group.returns == "constant" or (
                first in ("triton", "math") and group.returns in ("plain", "namespace")
            )
        return (
            self.is_language(path)
            or (first in ("triton", "math") and self.allowed.is_namespace(path))
            or (first == "torch" and self.allowed.is_namespace(path))
        )

    def _check_attribute(self, node: ast.Attribute, bound: frozenset[str], scope: Scope) -> None:
        if node.attr in self.allowed.kernel.recorded:
            self.notes.setdefault(node.attr, noted(node.attr, node.lineno))
        if node.attr.startswith("_") or node.attr in self.allowed.kernel.refused_members:
            self.refuse("policy.private-name", node)
            return
        path = _dotted(node)
        if path is None or path[0] in bound:
            return
        for atom in self._resolve(path[0], scope):
            if isinstance(atom, Known):
                full = ".".join((atom.path, *path[1:]))
                if not self._triton(full):
                    self.refuse("policy.kernel-name", node, full)


def _dotted(node: ast.expr) -> tuple[str, ...] | None:
    """A chain of members from a name: `tl.math.exp` is (tl, math, exp)."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=value, attr=attr):
            start = _dotted(value)
            return None if start is None else (*start, attr)
    return None
