"""The running sums of exponentials that `online_softmax` brings into the loop of the maximum."""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.ranks import rank
from workbench.kernels.edits.sites import literal
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel, Loop, argument

_EXPONENTIALS = frozenset({"exp", "exp2"})


@dataclass(frozen=True, eq=False)
class RunningSum:
    """`total += tl.sum(P)`, `acc += tl.dot(P, v)` or `acc = tl.dot(P, v, acc)`."""

    statement: ast.stmt
    name: str
    added: ast.expr
    """What is added; the whole product where it takes the sum as its start."""
    start: ast.expr | None
    """The running sum inside that product."""
    power: ast.Call
    """P: `tl.exp(x - maximum)`."""
    zero: ast.stmt
    """`total = 0.0`, in front of the loop."""


def running_sums(
    kernel: JitKernel, first: Loop, second: Loop, maximum: str
) -> tuple[RunningSum, ...]:
    """The running sums of the second loop, of exponentials less `maximum`.

    Raises EditRefused if there is none, or if one is used for anything else.
    """
    found = []
    for statement in second.node.body:
        added = _added(kernel, statement)
        if added is None:
            continue
        name, value, start = added
        power = _weighted(kernel, value, maximum)
        if power is None:
            raise EditRefused("the second loop does not sum exponentials of differences")
        zero = _zero(kernel, name, second)
        bound = [d.statement for d in kernel.flow.definitions[name]]
        uses = [s for s in (*first.node.body, *second.node.body) if name in names_in(s)]
        if uses != [statement] or set(bound) != {zero, statement}:
            raise EditRefused(f"`{name}` is used in another way than as a running sum")
        found.append(RunningSum(statement, name, value, start, power, zero))
    if not found:
        raise EditRefused("the second loop does not end by adding to a running sum")
    return tuple(found)


def _zero(kernel: JitKernel, name: str, second: Loop) -> ast.stmt:
    """The statement that starts a sum at zero, which nothing changes before the second loop."""
    inside = set(second.node.body)
    starts = [d for d in kernel.flow.definitions[name] if d.statement not in inside]
    match starts:
        case [start] if start.how == "assign" and start.statement in kernel.node.body:
            zero = isinstance(start.value, ast.Constant) and start.value.value == 0
            if zero or kernel.names.op(start.value) == "zeros":
                return start.statement
        case _:
            pass
    raise EditRefused(f"`{name}` does not start at zero in front of the loops")


def _added(kernel: JitKernel, statement: ast.stmt) -> tuple[str, ast.expr, ast.expr | None] | None:
    """(sum, what is added, the sum inside it); None for a statement that adds to nothing."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
            return name, value, None
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(left=ast.Name(id=again), op=ast.Add(), right=value),
        ) if again == name:
            return name, value, None
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if (
            kernel.names.op(call) == "dot"
        ):
            start = argument(call, 2, "acc")
            ours = isinstance(start, ast.Name) and start.id == name
            return (name, call, start) if ours else None
        case _:
            return None


def _weighted(kernel: JitKernel, value: ast.expr, maximum: str) -> ast.Call | None:
    """The exponentials that a sum, or the left side of a product, is made of."""
    match value:
        case ast.Call(args=[inner, *_]) if kernel.names.op(value) in {"sum", "dot"}:
            pass
        case _:
            return None
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        inner = inner.func.value if inner.func.attr == "to" else inner
    power = _power(kernel, kernel.flow.resolve(inner), maximum)
    if power is not None and not _along(kernel, value, power):
        raise EditRefused(f"line {value.lineno} sums another axis than the maximum is taken over")
    return power


def _along(kernel: JitKernel, value: ast.Call, power: ast.Call) -> bool:
    """Whether a sum runs along the axis that has one maximum."""
    difference = power.args[0]
    shifted = difference.right if isinstance(difference, ast.BinOp) else difference
    product = kernel.names.op(value) == "dot"
    match shifted:
        case ast.Name():
            return rank(kernel, shifted) == 0 and not product
        case ast.Subscript(slice=ast.Tuple(elts=[_, ast.Constant(value=None)])):
            return product or literal(argument(value, 1, "axis")) == 1
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Constant(value=None), _])):
            return not product and literal(argument(value, 1, "axis")) == 0
        case _:
            return False


def _power(kernel: JitKernel, node: ast.expr | None, maximum: str) -> ast.Call | None:
    """`exp(x - maximum)`, also as the kept side of a `tl.where(..., 0)`."""
    match node:
        case ast.Call(args=[ast.BinOp(op=ast.Sub(), left=left, right=right)]) if kernel.names.op(
            node
        ) in _EXPONENTIALS and _is_maximum(right, maximum):
            return node if maximum not in names_in(left) else None
        case ast.Call(args=[condition, kept, ast.Constant(value=0)]) if kernel.names.op(
            node
        ) == "where" and maximum not in names_in(condition):
            return _power(kernel, kept, maximum)
        case _:
            return None


def _is_maximum(node: ast.expr, maximum: str) -> bool:
    """`maximum`, or `maximum[:, None]`."""
    inner = node.value if isinstance(node, ast.Subscript) else node
    return isinstance(inner, ast.Name) and inner.id == maximum
