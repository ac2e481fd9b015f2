"""Rewrites kernel source so that running it as Python means what the compiler means.

Like triton's own rewriting, this makes assigned numbers tensors. Triton's leaves loop variables as
Python ints, which never overflow, and Python's `and`, `or`, `not`, `min`, `max` and chained
comparisons, which silently drop a mask or fail on blocks.
"""

import ast
import functools
from collections.abc import Callable, Iterator
from types import ModuleType

import triton.language as tl
from triton.language.semantic import TritonSemantic

from workbench.kernels.faults import CannotJudge
from workbench.kernels.trace_ahead import Ahead
from workbench.kernels.trace_launch import candidate_line
from workbench.kernels.untyped import Untyped

_INSTEAD = {"min": "builtin", "max": "builtin", "isinstance": "asked", "hasattr": "asked"}
_SEMANTIC = "interpreter_semantic"
"""A global that triton's interpreter gives every kernel it rewrites."""


SIZES = "sizes"
"""Attribute of a block's type: its shape as plain integers."""


class TracedSemantic(TritonSemantic):  # type: ignore[misc]  # triton is untyped
    """Triton's semantics plus the functions that rewritten source calls."""

    def assigned(self, value: Untyped) -> Untyped:
        """The value a name gets by an assignment: numbers become tensors, also within tuples."""
        value = value.value if isinstance(value, tl.constexpr) else value
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return tuple(self.assigned(item) for item in value)
        return self.to_tensor(value) if isinstance(value, bool | int | float) else value

    def broadcast_impl_value(self, lhs: Untyped, rhs: Untyped) -> Untyped:
        """Two operands in one shape.

        Of blocks of equal rank triton's own way wraps and compares every size: a third of the time
        of an interpreted program.
        """
        left, right = vars(lhs.type).get(SIZES), vars(rhs.type).get(SIZES)
        if left is not None and left == right:
            return lhs, rhs
        if left is None or right is None or len(left) != len(right):
            return super().broadcast_impl_value(lhs, rhs)
        if any(1 not in {n, m} and n != m for n, m in zip(left, right, strict=True)):
            return super().broadcast_impl_value(lhs, rhs)
        shape = [max(n, m) for n, m in zip(left, right, strict=True)]
        return self._stretched(lhs, left, shape), self._stretched(rhs, right, shape)

    def _stretched(self, block: Untyped, sizes: tuple[int, ...], shape: list[int]) -> Untyped:
        if list(sizes) == shape:
            return block
        kind = tl.block_type(block.type.scalar, shape)
        return self.tensor(self.builder.create_broadcast(block.handle, shape), kind)

    def both(self, first: Untyped, *rest: Callable[[], Untyped]) -> Untyped:
        """`and` of the language: elementwise on tensors, Python's otherwise."""
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

    def builtin(self, function: Untyped, *args: Untyped, **named: Untyped) -> Untyped:
        """`min` and `max` of the language: elementwise on tensors, where Python's would branch.

        `function` is what that name means in the kernel's scope: triton's library has its own.
        """
        if function not in (min, max) or not any(isinstance(a, tl.tensor) for a in args):
            return function(*args, **named)
        return functools.reduce(tl.maximum if function is max else tl.minimum, args)

    def asked(self, function: Untyped, value: Untyped, *rest: Untyped) -> Untyped:
        """`isinstance` and `hasattr` in a kernel: a constexpr is an object to the compiler only."""
        if function not in (isinstance, hasattr) or isinstance(value, tl.dtype | ModuleType):
            return function(value, *rest)
        return self._cannot(f"{function.__name__}, which tells it from the compiler")

    def _cannot(self, thing: str) -> None:
        raise CannotJudge(thing, kernel=self.builder.watch.kernel, line=candidate_line())

    def ranged(self, function: Untyped, *args: Untyped, **named: Untyped) -> Untyped:
        """A loop's range, recorded; where programs are tracked its variable is tracked in all of
        them.
        """
        if function not in (range, tl.range) or not 1 <= len(args) <= 3:
            return function(*args, **named)
        by = args[2] if len(args) == 3 else named.get("step") or 1
        start, stop = (0, args[0]) if len(args) == 1 else args[:2]
        if step := _whole(by):
            self.builder.watch.loops(len(range(_whole(start), _whole(stop), step)))
        trips = getattr(self.builder, "trips", None)
        first = None if trips is None else trips(start, stop, by)
        turns = (
            function(*args, **named)
            if first is None
            else self._in_all(first, _whole(start), _whole(stop), _whole(by))
        )
        stages = _whole(named.get("num_stages") or 0)
        return self._pipelined(turns, stages) if stages > 1 else turns

    def _pipelined(self, turns: Untyped, stages: int) -> Iterator[Untyped]:
        """The turns of a loop whose loads are issued ahead, told to the watch."""
        loop, watch = Ahead(stages), self.builder.watch
        watch.ahead.append(loop)
        for value in turns:
            loop.turn()
            yield value
        watch.ahead.remove(loop)

    def _in_all(self, first: Untyped, start: int, stop: int, step: int) -> Iterator[Untyped]:
        for turn, value in enumerate(range(start, stop, step)):
            variable = self.to_tensor(value)
            everywhere = (first.low + turn * step).astype(variable.handle.data.dtype)
            variable.handle.spread = type(first)(everywhere, everywhere)
            yield variable

    def _joined(self, first: Untyped, second: Untyped, join: Untyped) -> Untyped:
        first = first if isinstance(first, tl.tensor) else self.to_tensor(bool(first))
        second = second if isinstance(second, tl.tensor) else self.to_tensor(bool(second))
        return join(first, second)


class KernelRewriter(ast.NodeTransformer):
    """Replaces triton's `ASTTransformer`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`max(a, b)` becomes `interpreter_semantic.builtin(max, a, b)`."""
        self.generic_visit(node)
        name = _INSTEAD.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if name is None:
            return node
        call = _call(name, node.func, *node.args)
        call.keywords = node.keywords
        return ast.copy_location(call, node)

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

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """`x = a` becomes `x = interpreter_semantic.assigned(a)`."""
        self.generic_visit(node)
        node.value = ast.copy_location(_call("assigned", node.value), node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """`x += a` becomes `x = interpreter_semantic.assigned(x + a)`."""
        self.generic_visit(node)
        before = ast.parse(ast.unparse(node.target), mode="eval").body
        sum_ = ast.BinOp(left=before, op=node.op, right=node.value)
        value = _call("assigned", sum_)
        return ast.copy_location(ast.Assign(targets=[node.target], value=value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Like an assignment, unless the annotation says `constexpr`."""
        self.generic_visit(node)
        constant = ast.unparse(node.annotation).rsplit(".", 1)[-1] == "constexpr"
        if node.value is not None and not constant:
            node.value = ast.copy_location(_call("assigned", node.value), node.value)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        """The variable of a run-time range becomes a tensor."""
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call) and _is_range(node.iter):
            ranged = _call("ranged", node.iter.func, *node.iter.args)
            ranged.keywords = node.iter.keywords
            node.iter, was_range = ast.copy_location(ranged, node.iter), True
        else:
            was_range = False
        if was_range and isinstance(node.target, ast.Name):
            name = node.target.id
            value = _call("assigned", ast.Name(id=name, ctx=ast.Load()))
            first = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value)
            node.body = [ast.copy_location(first, node), *node.body]
        return node


def _whole(value: Untyped) -> int:
    """Number of the running program, read without deciding its path."""
    if isinstance(value, tl.tensor):
        return int(value.handle.data.reshape(-1)[0])
    return int(value.value if isinstance(value, tl.constexpr) else value)


def _is_range(call: ast.expr) -> bool:
    if not isinstance(call, ast.Call):
        return False
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "range"


def _call(name: str, *args: ast.expr) -> ast.Call:
    semantic = ast.Name(id=_SEMANTIC, ctx=ast.Load())
    function = ast.Attribute(value=semantic, attr=name, ctx=ast.Load())
    return ast.Call(func=function, args=list(args), keywords=[])


def _lambda(body: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(args=nothing, body=body), body)
