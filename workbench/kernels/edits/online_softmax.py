"""Finds a row's maximum and its sums of exponentials in one pass instead of two.

A sum is of the exponentials themselves, as in softmax, or of a product with them, as in attention.

Running sums are rescaled whenever the maximum grows: M. Milakov and N. Gimelshein, Online
normalizer calculation for softmax, 2018 (arXiv:1805.02867), algorithm 3, over blocks.
"""

import ast
from dataclasses import dataclass
from itertools import pairwise

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.fusing import dedented
from workbench.kernels.edits.least import LOWEST_FLOAT32, filled_with, is_minus_infinity
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.numbering import Numbering
from workbench.kernels.edits.online_sums import RunningSum, running_sums
from workbench.kernels.edits.ranks import rank
from workbench.kernels.edits.row_on_chip import check_straight, walk
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in, same, stored_names
from workbench.kernels.source_kernel import JitKernel, Loop, argument


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
    sums: tuple[RunningSum, ...]
    kept: tuple[ast.stmt, ...]
    """Statements of the second loop that the first does not have; its sums are among them."""
    start: ast.expr | None
    """The minus infinity that the maximum starts from, where the lowest float32 would do too."""


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
    if not _same_walk(kernel, first, second):
        raise EditRefused("the two loops do not walk the same dimension in the same blocks")
    if first.variable != second.variable:
        raise EditRefused("the two loops call their variables differently")
    check_straight(first)
    check_straight(second)
    update = first.node.body[-1]
    maximum, grown = _maximum(kernel, update)
    _check_plain(first.node.body[:-1])
    sums = running_sums(kernel, first, second, maximum)
    if any(maximum in names_in(s) for s in _between(kernel, first, second)):
        raise EditRefused(f"`{maximum}` is used between the loops")
    kept = _different(kernel, first, second, {s.statement for s in sums})
    for statement in kept:
        _check_kept(kernel, statement, first, sums, maximum)
    _check_not_carried([*first.node.body, *kept], {maximum, *(one.name for one in sums)})
    start = _replaceable_start(kernel, first, second, maximum)
    return _Found(first, second, update, maximum, grown, sums, kept, start)


def _same_walk(kernel: JitKernel, first: Loop, second: Loop) -> bool:
    """Whether two loops go through the same values: along one dimension, or, as up to a diagonal,
    in headers that are written alike, of names that nothing changes from the first loop on."""
    if walk(kernel, first) is not None:
        return walk(kernel, first) == walk(kernel, second)
    one, other = first.node, second.node
    if not isinstance(one, ast.For) or not isinstance(other, ast.For):
        return False
    body = kernel.node.body
    ahead = body[body.index(one) : body.index(other) + 1]
    changed = kernel.flow.assigned_in(ahead) - {first.variable}
    alike = ast.dump(one.iter) == ast.dump(other.iter)
    return alike and first.kind != "other" and not names_in(one.iter) & changed


def _replaceable_start(
    kernel: JitKernel, first: Loop, second: Loop, maximum: str
) -> ast.expr | None:
    """The minus infinity in `maximum = tl.full([...], -inf, tl.float32)`, read by the loops alone.

    From the lowest finite float32 no difference with the maximum is NaN, so that the loop needs
    no guard; a row of nothing but minus infinity then ends at that number instead.
    """
    body, loops = kernel.node.body, (first.node, second.node)
    before = body[: body.index(first.node)]
    match [d for d in kernel.flow.definitions[maximum] if d.statement in before]:
        case [start]:
            pass
        case _:
            return None
    outside = [s for s in body if s not in loops and s is not start.statement]
    if start.how != "assign" or any(maximum in names_in(s) for s in outside):
        return None
    value = filled_with(kernel, start.value)
    dtype = argument(start.value, 2, "dtype") if isinstance(start.value, ast.Call) else None
    is_float32 = isinstance(dtype, ast.Attribute) and kernel.names.dotted(dtype) == "tl.float32"
    return value if is_float32 and is_minus_infinity(value) else None


def _check_plain(body: list[ast.stmt]) -> None:
    """Refuse statements that do more than name what this iteration computes."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name()]):
                pass
            case ast.If(body=chosen, orelse=[]):
                _check_plain(chosen)
            case _:
                raise EditRefused(f"line {statement.lineno} does more than compute")


def _check_not_carried(merged: list[ast.stmt], running: set[str]) -> None:
    """Refuse a name that one iteration leaves to the next, but for what is meant to run on."""
    bound = {name for s in merged for name in stored_names(s)} - running
    for statement in merged:
        reads = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
        early = [n.id for n in reads if isinstance(n.ctx, ast.Load) and n.id in bound]
        if early:
            raise EditRefused(f"`{early[0]}` goes from one iteration to the next")
        if not isinstance(statement, ast.If):
            bound -= set(stored_names(statement))


def _check_kept(
    kernel: JitKernel, statement: ast.stmt, first: Loop, sums: tuple[RunningSum, ...], maximum: str
) -> None:
    """Refuse a statement of the second loop that cannot move into the first."""
    names = names_in(statement)
    powers = [one.power for one in sums]
    reads = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == maximum]
    inside = {id(n) for power in powers for n in ast.walk(power)}
    if any(id(n) not in inside for n in reads):
        raise EditRefused(f"line {statement.lineno} uses the maximum in another way")
    if statement not in [one.statement for one in sums]:
        _check_plain([statement])
        if names & {one.name for one in sums}:
            raise EditRefused(f"line {statement.lineno} uses a running sum")
    read = {a.base for a in kernel.loads if first in a.loops}
    again = [a for a in kernel.loads if kernel.statement(a.call) is statement and a.base in read]
    if again:
        raise EditRefused(f"line {statement.lineno} does not load as the first loop does")


def _between(kernel: JitKernel, first: Loop, second: Loop) -> list[ast.stmt]:
    body = kernel.node.body
    return body[body.index(first.node) + 1 : body.index(second.node)]


def _maximum(kernel: JitKernel, update: ast.stmt) -> tuple[str, ast.expr]:
    """The running maximum's name and its new value, of the first loop's last statement."""
    match update:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[a, b]) as call) if (
            kernel.names.op(call) == "maximum"
        ):
            other = b if isinstance(a, ast.Name) and a.id == name else a
            mine = a if other is b else b
            reduced = is_maximum_of_block(kernel, other)
            if isinstance(mine, ast.Name) and mine.id == name and reduced:
                return name, call
        case _:
            pass
    raise EditRefused("the first loop does not end by raising a running maximum")


def is_maximum_of_block(kernel: JitKernel, node: ast.expr) -> bool:
    """`tl.max(x)`, or `tl.max(x) * scale` of a positive scale, as attention's is."""
    match kernel.flow.resolve(node):
        case ast.BinOp(left=left, op=ast.Mult(), right=ast.Name() as scale):
            return kernel.names.op(left) == "max" and _is_scale(kernel, scale)
        case behind:
            return kernel.names.op(behind) == "max"


def _is_scale(kernel: JitKernel, node: ast.expr) -> bool:
    """A parameter, or one times a positive number, as the scale to the base 2 is."""
    match kernel.flow.resolve(node):
        case ast.Name(id=name):
            return name in kernel.flow.parameters
        case ast.BinOp(left=ast.Name() as left, op=ast.Mult(), right=ast.Constant(value=factor)):
            positive = isinstance(factor, int | float) and factor > 0
            return positive and _is_scale(kernel, left)
        case _:
            return False


def _different(
    kernel: JitKernel, first: Loop, second: Loop, sums: set[ast.stmt]
) -> tuple[ast.stmt, ...]:
    """Statements of the second loop that the first loop has not already done, sums among them."""
    numbering = Numbering(kernel)
    for statement in first.node.body[:-1]:
        numbering.step(statement)
    rest = second.node.body[_common(first.node.body[:-1], second.node.body) :]
    return tuple(s for s in rest if numbering.step(s) or s in sums)


def _common(done: list[ast.stmt], again: list[ast.stmt]) -> int:
    """How many first statements two loops share; none when the first loop changes their names."""
    pairs = zip(done, again, strict=False)
    count = next(
        (i for i, (a, b) in enumerate(pairs) if not same(a, b)), min(len(done), len(again))
    )
    bound = [
        {name for s in part for name in stored_names(s)} for part in (done[:count], done[count:])
    ]
    return 0 if bound[0] & bound[1] else count


def _find(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _match(kernel)
    lines = (found.first.line, found.second.line)
    names = ", ".join(one.name for one in found.sums)
    return (Anchor(lines=lines, says=f"{found.maximum} in one loop, {names} in the next"),)


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    found = _match(kernel)
    splice, names = Splice(source), FreeNames(kernel)
    grown = shift = names.take(f"new_{found.maximum}")
    lines = dedented(splice, found.update, f"{grown} = {splice.text(found.grown)}")
    if found.start is not None:
        splice.replace(found.start, LOWEST_FLOAT32)
    else:
        shift, where = names.take("shift"), spelled(source, "tl.where")
        # Where every element so far is -inf, a shift of zero keeps the exponentials at zero.
        lines.append(f'{shift} = {where}({grown} == -float("inf"), 0.0, {grown})')
    power = splice.text(found.sums[0].power.func)
    factor = f"{power}({found.maximum} - {shift})"
    if len(found.sums) > 1:
        shrink = names.take("shrink")
        lines.append(f"{shrink} = {factor}")
        factor = shrink
    sums = {one.statement: one for one in found.sums}
    for statement in found.kept:
        shifted = _shifted(found, statement, shift)
        text = (
            _scaled(splice, kernel, found.maximum, sums[statement], shifted, factor)
            if statement in sums
            else splice.text_with(statement, shifted)
        )
        lines += dedented(splice, statement, text)
    splice.replace_statement(found.update, *lines, f"{found.maximum} = {grown}")
    body = kernel.node.body
    for one in found.sums:
        if body.index(one.zero) > body.index(found.first.node):
            lines = dedented(splice, one.zero, splice.text(one.zero))
            splice.insert_before(found.first.node, *lines)
            splice.remove(one.zero)
    splice.remove(found.second.node, paragraph=True)
    return splice.result()


def _scaled(
    splice: Splice,
    kernel: JitKernel,
    maximum: str,
    one: RunningSum,
    shifted: dict[ast.AST, str],
    factor: str,
) -> str:
    """A running sum that is brought to the new maximum before more is added to it."""
    name = ast.Name(id=maximum, ctx=ast.Load())
    columns = rank(kernel, name) == 1 and kernel.names.op(one.added) == "dot"
    before = f"{one.name} * {factor}{'[:, None]' if columns else ''}"
    if one.start is not None:
        return f"{one.name} = {splice.text_with(one.added, {**shifted, one.start: before})}"
    inside = {n: t for n, t in shifted.items() if n in set(ast.walk(one.added))}
    return f"{one.name} = {before} + {splice.text_with(one.added, inside)}"


def _shifted(found: _Found, statement: ast.stmt, shift: str) -> dict[ast.AST, str]:
    """The maximum inside the exponentials of a statement, to be written as the shift."""
    powers = {id(n) for one in found.sums for n in ast.walk(one.power)}
    return {
        node: shift
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and node.id == found.maximum and id(node) in powers
    }


ONLINE_SOFTMAX = Edit(
    id="online-softmax",
    says="find a row's maximum and its sums of exponentials in one pass",
    find=_find,
    change=_change,
)
