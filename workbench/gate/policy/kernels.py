"""Which names a kernel may use: the interpreter runs kernels as Python, so they must not reach
Python.
"""

import ast
from dataclasses import dataclass

from workbench.gate.policy.definitions import Definitions
from workbench.gate.policy.names import Allowed
from workbench.gate.policy.refusals import noted
from workbench.gate.policy.scopes import local_names
from workbench.gate.policy.tree import survey, walk
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


_MODULES = frozenset(
    {"math", "torch", "triton", "triton.language", "triton.language.extra", "triton.language.math"}
    | {"triton.language.extra.cuda", "triton.language.extra.libdevice", "triton.language.standard"}
    | {"triton.language.extra.cuda.libdevice", "torch.cuda", "torch.nn", "torch.nn.functional"}
)


@dataclass(frozen=True, slots=True)
class _Body:
    """What a kernel's source alone shows, computed once."""

    count: int
    """Number of nodes of its statements."""
    asked: tuple[tuple[ast.AST, tuple[str, ...] | None], ...]
    """Nodes that may be refused, in order; names and members with the path from a name to them."""
    local: frozenset[str]
    inner: frozenset[str]
    """Names that a comprehension binds."""
    based: frozenset[ast.AST]
    """Names of which a member is read: there a namespace alone leads nowhere."""


class Kernels(Definitions):
    """The layer that checks functions which Triton compiles."""

    def __init__(self, allowed: Allowed, tree: ast.Module) -> None:
        super().__init__(allowed, tree)
        self._bodies: dict[ast.FunctionDef, _Body] = {}
        self._led_out: dict[tuple[Scope, tuple[str, ...]], tuple[str, ...]] = {}
        """Names outside of Triton, by where and how they are named, while kernels are checked."""

    def check_kernels(self) -> None:
        """Refuse every name in a kernel's body that refers to something outside of Triton."""
        self._led_out.clear()
        for kernel, scope in self.kernel_scopes.items():
            if kernel in self.wrappers:
                self.refuse("policy.kernel-text", kernel, kernel.name)
            self._check_kernel(kernel, scope)

    def _check_kernel(self, kernel: ast.FunctionDef, scope: Scope) -> None:
        self.reached.add(kernel)
        body = self._bodies.get(kernel)
        if body is None:
            comprehensions = bool(survey(self.tree).of(ast.comprehension))
            body = self._bodies[kernel] = _body(kernel, comprehensions=comprehensions)
        self.step(body.count)
        # A comprehension binds names for itself only; elsewhere they refer to the outer scope.
        bound = body.local - {n for n in body.inner if self._resolve_outer(n, scope)}
        for node, path in body.asked:
            if isinstance(node, ast.Attribute):
                self._check_attribute(node, path, bound, scope)
            elif path is None or (
                path[0] not in bound
                and (
                    self._leads_out(path, scope)
                    or (node not in body.based and self._is_module(path[0], scope))
                )
            ):
                self.refuse("policy.kernel-name", node)

    def _is_module(self, name: str, scope: Scope) -> bool:
        """Whether a name may refer to a whole module, which no other name may hide."""
        return any(
            isinstance(atom, Known) and atom.path in _MODULES for atom in self._resolve(name, scope)
        )

    def _resolve_outer(self, name: str, scope: Scope) -> Value:
        outer: Scope | None = scope
        while outer is not None:
            if name in outer.ever:
                return outer.ever[name]
            outer = outer.parent
        return EMPTY

    def _resolve(self, name: str, scope: Scope) -> Value:
        return self._resolve_outer(name, scope) or frozenset({Known(f"builtins.{name}")})

    def _leads_out(self, path: tuple[str, ...], scope: Scope) -> tuple[str, ...]:
        """Each full name outside of Triton that a name or a member of it may refer to."""
        key = scope, path
        known = self._led_out.get(key)
        if known is None:
            value = self._resolve(path[0], scope)
            if len(path) == 1:
                found = [path[0]] * any(not self._harmless(atom) for atom in value)
            else:
                names = [(a.path, *path[1:]) for a in value if isinstance(a, Known)]
                found = [full for full in map(".".join, names) if not self._triton(full)]
            known = self._led_out[key] = tuple(found)
        return known

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
            self.allowed.is_language(path)
            or (first in ("triton", "math") and self.allowed.is_namespace(path))
            or (first == "torch" and self.allowed.is_namespace(path))
        )

    def _check_attribute(
        self,
        node: ast.Attribute,
        path: tuple[str, ...] | None,
        bound: frozenset[str],
        scope: Scope,
    ) -> None:
        if node.attr in self.allowed.kernel.recorded:
            self.notes.setdefault(node.attr, noted(node.attr, node.lineno))
        if node.attr.startswith("_") or node.attr in self.allowed.kernel.refused_members:
            self.refuse("policy.private-name", node)
            return
        if path is None or path[0] in bound:
            return
        for full in self._leads_out(path, scope):
            self.refuse("policy.kernel-name", node, full)


def _body(kernel: ast.FunctionDef, *, comprehensions: bool) -> _Body:
    """`comprehensions`: whether there are any in the file, or none need be looked for."""
    asked: list[tuple[ast.AST, tuple[str, ...] | None]] = []
    count = 0
    for statement in kernel.body:
        nodes = walk(statement)
        count += len(nodes)
        for node in nodes:
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    asked.append((node, (node.id,)))
            elif isinstance(node, ast.Attribute):
                asked.append((node, _dotted(node)))
            elif isinstance(node, _REFUSED):
                asked.append((node, None))
    based = frozenset(node.value for node, _ in asked if isinstance(node, ast.Attribute))
    inner = frozenset(
        name.id
        for node in (walk(kernel) if comprehensions else ())
        if isinstance(node, ast.comprehension)
        for name in walk(node.target)
        if isinstance(name, ast.Name)
    )
    return _Body(count, tuple(asked), local_names(kernel), inner, based)


def _dotted(node: ast.expr) -> tuple[str, ...] | None:
    """A chain of members from a name: `tl.math.exp` is (tl, math, exp)."""
    members: list[str] = []
    while isinstance(node, ast.Attribute):
        members.append(node.attr)
        node = node.value
    return (node.id, *reversed(members)) if isinstance(node, ast.Name) else None
