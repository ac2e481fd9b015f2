"""Which of a kernel's parameters it may store through, from its text and its helpers'.

A sample of programs shows what those programs store; others may store through any parameter named
here. So this errs on the side of more parameters.
"""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from workbench.kernels.untyped import Untyped

_DEEPEST = 8
"""Depth of helper calls; beyond it every pointer counts as stored through (ours)."""


def stored_parameters(function: Callable[..., Any]) -> frozenset[str]:
    """Names of the parameters whose memory one launch of the kernel may change."""
    return _stored(function, _DEEPEST)


def uses_updates(function: Callable[..., Any]) -> bool:
    """Whether the kernel uses the results of atomic updates: a ticket, a lock."""
    return _uses_updates(function, _DEEPEST)


@cache
def _uses_updates(function: Callable[..., Any], depth: int) -> bool:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return True
    return not depth or _Reading(function, tree, depth).uses_updates(tree)


@cache
def _stored(function: Callable[..., Any], depth: int) -> frozenset[str]:
    names = tuple(inspect.signature(function).parameters)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return frozenset(names)
    reading = _Reading(function, tree, depth)
    return frozenset(name for name in names if reading.reaches(name))


class _Reading:
    """Data flow of one function's text, and what is stored through."""

    def __init__(self, function: Callable[..., Any], tree: ast.Module, depth: int) -> None:
        self._globals: dict[str, Any] = getattr(function, "__globals__", {})
        self._depth = depth
        self._flows: list[tuple[frozenset[str], frozenset[str]]] = []
        self._through: set[str] = set()
        for node in ast.walk(tree):
            self._flow(node)
            if isinstance(node, ast.Call):
                self._through |= self._stored_by(node)

    def reaches(self, parameter: str) -> bool:
        """Whether a pointer made from the parameter is stored through."""
        derived = {parameter}
        before = 0
        while len(derived) > before:
            before = len(derived)
            for targets, sources in self._flows:
                if derived & sources:
                    derived |= targets
        return bool(derived & self._through)

    def uses_updates(self, tree: ast.Module) -> bool:
        """Whether the result of an atomic update is used, here or in a helper."""
        dropped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            if self._operation(node).startswith("atomic") and id(node) not in dropped:
                return True
            helper: Untyped = getattr(self._resolved(node.func), "fn", None)
            own = isinstance(helper, FunctionType) and not _is_pure(helper)
            if own and _uses_updates(helper, self._depth - 1):
                return True
        return False

    def _flow(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                into = [name for target in targets for name in _names(target)]
            case (
                ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ):
                into = list(_names(target))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                into = list(_names(target))
            case ast.For(target=target, iter=value):
                into = list(_names(target))
            case _:
                return
        self._flows.append((frozenset(into), frozenset(self._pointers(value))))

    def _pointers(self, node: ast.AST) -> Iterator[str]:
        """Names in an expression that a pointer may come from, not those it was loaded by."""
        if isinstance(node, ast.Call) and self._operation(node) in {"load", "load_tensor"}:
            return
        if isinstance(node, ast.Name):
            yield node.id
        for child in ast.iter_child_nodes(node):
            yield from self._pointers(child)

    def _operation(self, call: ast.Call) -> str:
        """Name of the function of the language, or of the method, that a call calls; else empty.

        By name, because the interpreter replaces the functions.
        """
        if isinstance(call.func, ast.Attribute):
            owner = self._resolved(call.func.value)
            if isinstance(owner, ModuleType) and owner.__name__.startswith("triton.language"):
                return call.func.attr
        called = self._resolved(call.func)
        if called is None:
            return call.func.attr if isinstance(call.func, ast.Attribute) else ""
        own: Untyped = getattr(called, "fn", called)
        module = getattr(own, "__module__", "") or ""
        return own.__name__ if module.startswith("triton.language") else ""

    def _stored_by(self, call: ast.Call) -> set[str]:
        """Names through which a call may store."""
        operation = self._operation(call)
        if operation:
            if not operation.startswith(("store", "atomic")):
                return set()
            method = self._resolved(call.func) is None
            place: ast.AST = call.func if method else _argument(call, 0, ("pointer", "desc"))
            return set(self._pointers(place))
        called = self._resolved(call.func)
        helper: Untyped = getattr(called, "fn", called)
        if helper is None or _is_pure(helper):
            return set()
        if not isinstance(helper, FunctionType) or not self._depth:
            return {name for part in _given(call) for name in self._pointers(part)}
        return self._stored_by_helper(call, helper)

    def _stored_by_helper(self, call: ast.Call, helper: FunctionType) -> set[str]:
        stored = _stored(helper, self._depth - 1)
        parameters = tuple(inspect.signature(helper).parameters)
        if not stored:
            return set()
        if any(isinstance(part, ast.Starred) for part in call.args) or any(
            keyword.arg is None for keyword in call.keywords
        ):
            return {name for part in _given(call) for name in self._pointers(part)}
        bound = dict(zip(parameters, call.args, strict=False))
        bound |= {k.arg: k.value for k in call.keywords if k.arg is not None}
        parts = [part for name, part in bound.items() if name in stored]
        return {name for part in parts for name in self._pointers(part)}

    def _resolved(self, node: ast.AST) -> object:
        """The object that a dotted name means in the kernel's module; None for anything else."""
        if isinstance(node, ast.Name):
            return self._globals.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            owner = self._resolved(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        return None


def _is_pure(called: object) -> bool:
    """Whether it is a function of Python's, or a host function of Triton's, that stores nothing."""
    module = getattr(called, "__module__", None) or ""
    return module == "builtins" or module.startswith("triton") or isinstance(called, type)


def _given(call: ast.Call) -> Iterator[ast.AST]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _argument(call: ast.Call, place: int, names: tuple[str, ...]) -> ast.AST:
    """A call's argument by position or name; the whole call where there is neither."""
    for keyword in call.keywords:
        if keyword.arg in names:
            return keyword.value
    return call.args[place] if len(call.args) > place else call


def _names(target: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
