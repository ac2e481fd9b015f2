"""Finds a row's maximum and its sum of exponentials in one pass instead of two.

The running sum is rescaled whenever the maximum grows: M. Milakov and N. Gimelshein, Online
normalizer calculation for softmax, 2018 (arXiv:1805.02867), algorithm 3, over blocks.
"""

import ast
from dataclasses import dataclass
from itertools import pairwise

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.numbering import Numbering
from workbench.kernels.edits.row_on_chip import check_straight, walk
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel, Loop

_EXPONENTIALS = frozenset({"exp", "exp2"})


@dataclass(frozen=True, eq=False)
class _Sum:
    """`total += tl.sum(E(x - maximum))`, and what E is made of."""

    statement: ast.stmt
    name: str
    reduced: ast.expr
    """The reduction's whole call."""
    power: ast.Call
    """`tl.exp(x - maximum)` inside it."""


@dataclass(frozen=True, eq=False)
class _Found:
    """The canonical pair of loops."""

    first: Loop
    second: Loop
    update: ast.stmt
    """`maximum = tl.maximum(maximum, tl.max(x))`, last in the first loop."""
    maximum: str
    grown: ast.expr
    """The new maximum as the first loop computes it."""
    total: _Sum
    start: ast.Assign
    """`total = 0.0`, between the loops."""
    kept: tuple[ast.stmt, ...]
    """Statements of the second loop that the first does not have."""


def _match(kernel: JitKernel) -> _Found:
    """The pair of loops. Raises EditRefused naming what is missing."""
    body = kernel.node.body
    loops = {loop.node: loop for loop in kernel.loops if loop.node in body}
    ordered = [loops[s] for s in body if s in loops]
    reasons = []
    for first, second in pairwise(ordered):
        try:
            return _pair(kernel, first, second)
        except EditRefused as refused:
            reasons.append(refused.why)
    raise EditRefused(reasons[0] if reasons else "there are not two loops one after the other")


def _pair(kernel: JitKernel, first: Loop, second: Loop) -> _Found:
    if walk(kernel, first) is None or walk(kernel, first) != walk(kernel, second):
        raise EditRefused("the two loops do not walk the same dimension in the same blocks")
    if first.variable != second.variable:
        raise EditRefused("the two loops call their variables differently")
    check_straight(first)
    check_straight(second)
    update = first.node.body[-1]
    maximum, grown = _maximum(kernel, update)
    total = _sum(kernel, second, maximum)
    between = _between(kernel, first, second)
    start = [s for s in between if isinstance(s, ast.Assign) and _is_zero(s, total.name)]
    if len(start) != 1 or any(maximum in names_in(s) for s in between):
        raise EditRefused(f"`{total.name}` does not start at zero between the loops")
    kept = _different(kernel, first, second, total.statement)
    for statement in kept:
        _check_kept(kernel, statement, first, total, maximum)
    return _Found(first, second, update, maximum, grown, total, start[0], kept)


def _check_kept(
    kernel: JitKernel, statement: ast.stmt, first: Loop, total: _Sum, maximum: str
) -> None:
    """Refuse a statement of the second loop that cannot move into the first."""
    if statement.lineno != statement.end_lineno:
        raise EditRefused(f"line {statement.lineno} spans several lines")
    names = names_in(statement)
    holds_power = any(inner is total.power for inner in ast.walk(statement))
    if total.name in names or (maximum in names and not holds_power):
        raise EditRefused(f"line {statement.lineno} uses the maximum in another way")
    read = {a.base for a in kernel.loads if first in a.loops}
    again = [a for a in kernel.loads if kernel.statement(a.call) is statement and a.base in read]
    if again:
        raise EditRefused(f"line {statement.lineno} does not load as the first loop does")


def _between(kernel: JitKernel, first: Loop, second: Loop) -> list[ast.stmt]:
    body = kernel.node.body
    return body[body.index(first.node) + 1 : body.index(second.node)]


def _is_zero(statement: ast.Assign, name: str) -> bool:
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=target)], value=ast.Constant(value=int() | float() as v)
        ):
            return target == name and v == 0
        case _:
            return False


def _maximum(kernel: JitKernel, update: ast.stmt) -> tuple[str, ast.expr]:
    """The running maximum's name and its new value, of the first loop's last statement."""
    match update:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[a, b]) as call) if (
            kernel.names.op(call) == "maximum"
        ):
            other = b if isinstance(a, ast.Name) and a.id == name else a
            mine = a if other is b else b
            reduced = kernel.names.op(other) == "max"
            if isinstance(mine, ast.Name) and mine.id == name and reduced:
                return name, call
        case _:
            pass
    raise EditRefused("the first loop does not end by raising a running maximum")


def _sum(kernel: JitKernel, loop: Loop, maximum: str) -> _Sum:
    """The running sum of the second loop's last statement."""
    statement = loop.node.body[-1]
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
            pass
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(left=ast.Name(id=again), op=ast.Add(), right=value),
        ) if again == name:
            pass
        case _:
            raise EditRefused("the second loop does not end by adding to a running sum")
    if kernel.names.op(value) != "sum" or not isinstance(value, ast.Call) or not value.args:
        raise EditRefused("the second loop does not add a block's sum to one number")
    power = _power(kernel, kernel.flow.resolve(value.args[0]), maximum)
    if power is None:
        raise EditRefused("the second loop does not sum exponentials of differences")
    return _Sum(statement, name, value, power)


def _power(kernel: JitKernel, node: ast.expr | None, maximum: str) -> ast.Call | None:
    """`exp(x - maximum)`, also as the kept side of a `tl.where(..., 0)` or under a factor."""
    match node:
        case ast.Call(args=[ast.BinOp(op=ast.Sub(), left=left, right=ast.Name(id=name))]) if (
            kernel.names.op(node) in _EXPONENTIALS and name == maximum
        ):
            return node if maximum not in names_in(left) else None
        case ast.Call(args=[condition, kept, ast.Constant(value=0)]) if kernel.names.op(
            node
        ) == "where" and maximum not in names_in(condition):
            return _power(kernel, kept, maximum)
        case _:
            return None


def _different(
    kernel: JitKernel, first: Loop, second: Loop, last: ast.stmt
) -> tuple[ast.stmt, ...]:
    """Statements of the second loop, before its sum, that the first loop has not already done."""
    numbering = Numbering(kernel)
    for statement in first.node.body[:-1]:
        numbering.step(statement)
    kept = []
    for statement in second.node.body:
        if statement is last:
            continue
        if numbering.step(statement):
            kept.append(statement)
    return tuple(kept)


def _find(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _match(kernel)
    lines = (found.first.line, found.second.line)
    return (
        Anchor(lines=lines, says=f"{found.maximum} in one loop, {found.total.name} in the next"),
    )


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    found = _match(kernel)
    splice = Splice(source)
    where, power = spelled(source, "tl.where"), splice.text(found.total.power.func)
    names = FreeNames(kernel)
    grown, shift = names.take(f"new_{found.maximum}"), names.take("shift")
    shifted = _shifted(found, shift)
    # Where every element so far is -inf, a shift of zero keeps the exponentials at zero.
    splice.replace_statement(
        found.update,
        f"{grown} = {splice.text(found.grown)}",
        f'{shift} = {where}({grown} == -float("inf"), 0.0, {grown})',
        *(splice.text_with(s, _inside(s, shifted)) for s in found.kept),
        f"{found.total.name} = {found.total.name} * {power}({found.maximum} - {shift})"
        f" + {splice.text_with(found.total.reduced, _inside(found.total.reduced, shifted))}",
        f"{found.maximum} = {grown}",
    )
    splice.insert_before(found.first.node, splice.text(found.start))
    splice.remove(found.start)
    splice.remove(found.second.node, paragraph=True)
    return splice.result()


def _shifted(found: _Found, shift: str) -> dict[ast.AST, str]:
    """The maximum inside the exponential, to be written as the shift."""
    difference = found.total.power.args[0]
    return {difference.right: shift} if isinstance(difference, ast.BinOp) else {}


def _inside(node: ast.AST, replaced: dict[ast.AST, str]) -> dict[ast.AST, str]:
    held = set(ast.walk(node))
    return {inner: text for inner, text in replaced.items() if inner in held}


ONLINE_SOFTMAX = Edit(
    id="online-softmax",
    says="find a row's maximum and its sum of exponentials in one pass",
    find=_find,
    change=_change,
)
