"""Kernel source as the interpreter must run it so that Python's meaning is the compiler's.

Triton's own rewriting turns every assigned number into a tensor, which loses compile-time
constants, and leaves Python's `and`, `or`, `not` and chained comparisons, which silently drop a
mask. Here numbers stay constants until a loop carries them, as in the compiler.
"""

import ast
from collections.abc import Callable, Iterator
from typing import TypeGuard

import triton.language as tl
from triton.language.semantic import TritonSemantic

from workbench.kernels.untyped import Untyped

_SEMANTIC = "interpreter_semantic"
"""A name that triton's interpreter puts into the globals of every kernel it rewrites."""


class TracedSemantic(TritonSemantic):  # type: ignore[misc]
    """Triton's semantics plus what the rewritten source calls."""

    def carried(self, value: Untyped) -> Untyped:
        """A number that a loop carries is a tensor from there on; anything else is itself."""
        return self.to_tensor(value) if isinstance(value, bool | int | float) else value

    def both(self, first: Untyped, *rest: Callable[[], Untyped]) -> Untyped:
        """`and` of the language: lane by lane on tensors, Python's own otherwise."""
        for later in rest:
            if not isinstance(first, tl.tensor) and not first:
                return first
            second = later()
            if isinstance(first, tl.tensor) or isinstance(second, tl.tensor):
                first = self._joined(first, second, self.logical_and)
            else:
                first = second
        return first

    def either(self, first: Untyped, *rest: Callable[[], Untyped]) -> Untyped:
        """`or` of the language."""
        for later in rest:
            if not isinstance(first, tl.tensor) and first:
                return first
            second = later()
            if isinstance(first, tl.tensor) or isinstance(second, tl.tensor):
                first = self._joined(first, second, self.logical_or)
            else:
                first = second
        return first

    def negated(self, value: Untyped) -> Untyped:
        """`not` of the language."""
        return self.not_(value) if isinstance(value, tl.tensor) else not value

    def _joined(self, first: Untyped, second: Untyped, join: Untyped) -> Untyped:
        first = first if isinstance(first, tl.tensor) else self.to_tensor(bool(first))
        second = second if isinstance(second, tl.tensor) else self.to_tensor(bool(second))
        return join(first, second)


class KernelRewriter(ast.NodeTransformer):
    """Stands in for triton's `ASTTransformer`."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """`a and b` becomes `interpreter_semantic.both(a, lambda: b)`."""
        self.generic_visit(node)
        name = "both" if isinstance(node.op, ast.And) else "either"
        later = [_lambda(value) for value in node.values[1:]]
        return ast.copy_location(_call(name, node.values[0], *later), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """`not a` becomes `interpreter_semantic.negated(a)`."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.copy_location(_call("negated", node.operand), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`a < b < c` becomes the `both` of its two halves."""
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        left = [node.left, *node.comparators[:-1]]
        pairs = [
            ast.copy_location(ast.Compare(left=a, ops=[op], comparators=[b]), node)
            for a, op, b in zip(left, node.ops, node.comparators, strict=True)
        ]
        later = [_lambda(pair) for pair in pairs[1:]]
        return ast.copy_location(_call("both", pairs[0], *later), node)

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """The loop variable of a run-time range and what the body assigns become tensors."""
        self.generic_visit(node)
        if not _is_range(node.iter):
            return [node]
        targets = [t.id for t in ast.walk(node.target) if isinstance(t, ast.Name)]
        node.body = [*(_promote(name, node) for name in targets), *node.body]
        return [*_promotions(node), node]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        """What the body assigns becomes a tensor before the loop."""
        self.generic_visit(node)
        return [*_promotions(node), node]


def _is_range(call: ast.expr) -> bool:
    if not isinstance(call, ast.Call):
        return False
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "range"


def _promotions(loop: ast.For | ast.While) -> list[ast.stmt]:
    """`try: x = carried(x)` for each name that the body assigns; it need not exist before."""
    return [_attempt(_promote(name, loop), loop) for name in sorted(set(_assigned(loop.body)))]


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        for node in ast.walk(statement):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AugAssign):
                targets = [node.target]
            for target in targets:
                yield from (n.id for n in ast.walk(target) if _is_store(n))


def _is_store(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _promote(name: str, at: ast.stmt) -> ast.stmt:
    target = ast.Name(id=name, ctx=ast.Store())
    value = _call("carried", ast.Name(id=name, ctx=ast.Load()))
    return ast.copy_location(ast.Assign(targets=[target], value=value), at)


def _attempt(statement: ast.stmt, at: ast.stmt) -> ast.stmt:
    handler = ast.ExceptHandler(
        type=ast.Name(id="NameError", ctx=ast.Load()), name=None, body=[ast.Pass()]
    )
    attempt = ast.Try(body=[statement], handlers=[handler], orelse=[], finalbody=[])
    return ast.copy_location(attempt, at)


def _call(name: str, *args: ast.expr) -> ast.Call:
    semantic = ast.Name(id=_SEMANTIC, ctx=ast.Load())
    function = ast.Attribute(value=semantic, attr=name, ctx=ast.Load())
    return ast.Call(func=function, args=list(args), keywords=[])


def _lambda(body: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(args=nothing, body=body), body)
