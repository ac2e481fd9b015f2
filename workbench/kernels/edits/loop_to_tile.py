"""Turns a loop over single indices into a dimension of the block, so that all of it is on chip.

`for c in range(C)` around elementwise work on a row becomes a column of indices `c` beside that
row: loads become two-dimensional, sums and maxima over the loop become reductions of axis 0.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.launch_options import put_options
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.ranks import is_elementwise, rank
from workbench.kernels.edits.row_on_chip import check_straight
from workbench.kernels.edits.share_loads import share_loads
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel, Loop

_NEUTRAL = {"sum": "0.0", "max": '-float("inf")', "min": 'float("inf")'}
_MERGES = {"maximum": "max", "minimum": "min"}


@dataclass(frozen=True, eq=False)
class _Fold:
    """`total += value` or `best = tl.maximum(best, value)`: what the loop carries along."""

    name: str
    reduction: str
    """`sum`, `max` or `min`."""
    value: ast.expr


@dataclass(frozen=True, eq=False)
class _Walks:
    dimension: str
    variable: str
    loops: tuple[Loop, ...]


def _walks(kernel: JitKernel) -> _Walks:
    """Loops of the top level that walk one dimension index by index, loading one argument."""
    groups: dict[tuple[str, str], list[Loop]] = {}
    for loop in kernel.loops:
        match loop:
            case Loop(
                kind="range" | "tl.range",
                start=ast.Constant(value=0),
                stop=ast.Name(id=dimension),
                step=None,
            ) if loop.node in kernel.node.body and dimension in kernel.flow.parameters:
                groups.setdefault((dimension, loop.variable), []).append(loop)
            case _:
                pass
    for (dimension, variable), loops in groups.items():
        read = [{a.base for a in kernel.loads if loop in a.loops and a.base} for loop in loops]
        again = any(read[i] & read[j] for i in range(len(read)) for j in range(i))
        if again and variable:
            return _Walks(dimension, variable, tuple(loops))
    raise EditRefused("no two loops walk one dimension of an argument index by index")


def _fold(kernel: JitKernel, statement: ast.stmt) -> _Fold | None:
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
            return _Fold(name, "sum", value)
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(left=ast.Name(id=again), op=ast.Add(), right=value),
        ) if again == name:
            return _Fold(name, "sum", value)
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=again), value]) as call
        ) if again == name and kernel.names.op(call) in _MERGES:
            return _Fold(name, _MERGES[kernel.names.op(call)], value)
        case _:
            return None


def _check_body(kernel: JitKernel, loop: Loop) -> None:
    """Refuse a body that is more than elementwise work, folds and stores."""
    check_straight(loop)
    bound: set[str] = set()
    carried = {f.name for s in loop.node.body if (f := _fold(kernel, s)) is not None}
    inside = kernel.flow.assigned_in(loop.node.body)
    for statement in loop.node.body:
        fold = _fold(kernel, statement)
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
            raise EditRefused(f"line {statement.lineno} is more than elementwise work")
        read = names_in(fold.value if fold is not None else _value(statement))
        early = (read & inside) - bound
        if early:
            raise EditRefused(f"`{min(early)}` goes from one iteration to the next")
        _check_elementwise(kernel, fold.value if fold is not None else _value(statement))
        if fold is None and isinstance(statement, ast.Assign):
            bound |= _targets(statement)
        elif fold is None and isinstance(statement, ast.AugAssign):
            raise EditRefused(f"line {statement.lineno} carries a value that is not a sum")
    if carried & bound:
        raise EditRefused(f"`{min(carried & bound)}` is both carried and set anew")
    _check_unused_after(kernel, loop, bound)


def _value(statement: ast.stmt) -> ast.expr:
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
        return statement.value
    raise EditRefused(f"line {statement.lineno} is more than elementwise work")


def _targets(statement: ast.Assign) -> set[str]:
    if len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return {statement.targets[0].id}
    raise EditRefused(f"line {statement.lineno} sets more than one plain name")


def _check_elementwise(kernel: JitKernel, node: ast.expr) -> None:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Subscript | ast.Lambda | ast.BoolOp | ast.IfExp):
            raise EditRefused(f"line {inner.lineno} is more than elementwise work")
        if not isinstance(inner, ast.Call):
            continue
        op = kernel.names.op(inner)
        method = isinstance(inner.func, ast.Attribute) and inner.func.attr == "to"
        plain = isinstance(inner.func, ast.Name) and inner.func.id == "float"
        if not (is_elementwise(op) or op in {"store", "arange"} or method or plain):
            raise EditRefused(f"line {inner.lineno} is more than elementwise work")


def _check_unused_after(kernel: JitKernel, loop: Loop, bound: set[str]) -> None:
    """Refuse when what the last iteration leaves behind is read later, before it is set again."""
    body = kernel.node.body
    for statement in body[body.index(loop.node) + 1 :]:
        if isinstance(statement, ast.For):
            first = statement.body[0]
            bound = bound - (_targets(first) if isinstance(first, ast.Assign) else set())
        used = names_in(statement) & bound
        rebound = kernel.flow.assigned_in([statement])
        if used - rebound:
            raise EditRefused(f"`{min(used - rebound)}` is read after the loop")


def _rows(kernel: JitKernel, loop: Loop) -> Iterator[ast.expr]:
    """Places in a body that stand for one row of the block and need a dimension in front."""
    inside = kernel.flow.assigned_in(loop.node.body) - _carried(kernel, loop)
    for statement in loop.node.body:
        for node in ast.walk(statement):
            if kernel.names.op(node) == "arange" and isinstance(node, ast.expr):
                yield node
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            if node.id in inside or node.id == loop.variable or _is_module(kernel, node.id):
                continue
            dimensions = rank(kernel, node)
            if dimensions is None or dimensions > 1:
                raise EditRefused(f"`{node.id}` of line {node.lineno} is not one row or number")
            if dimensions == 1 and not _is_folded(kernel, node):
                yield node


def _is_module(kernel: JitKernel, name: str) -> bool:
    return name not in kernel.flow.parameters and name not in kernel.flow.definitions


def _carried(kernel: JitKernel, loop: Loop) -> frozenset[str]:
    return frozenset(f.name for s in loop.node.body if (f := _fold(kernel, s)) is not None)


def _is_folded(kernel: JitKernel, node: ast.Name) -> bool:
    """Whether a name stands where its own fold reads it."""
    fold = _fold(kernel, kernel.statement(node))
    return fold is not None and fold.name == node.id


def _checked(kernel: JitKernel) -> _Walks:
    found = _walks(kernel)
    for loop in found.loops:
        _check_body(kernel, loop)
        list(_rows(kernel, loop))
    return found


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _checked(kernel)
    _check_launches(source, kernel, found)
    return (
        Anchor(
            lines=tuple(loop.line for loop in found.loops),
            says=f"{len(found.loops)} loops over {found.dimension}, one index at a time",
        ),
    )


def _check_launches(source: Source, kernel: JitKernel, found: _Walks) -> None:
    for launch in source.launches_of(kernel.name):
        if launch.starred or launch.argument(kernel, found.dimension) is None:
            raise EditRefused(f"line {launch.line} does not show what `{found.dimension}` is")


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    found = _checked(kernel)
    _check_launches(source, kernel, found)
    splice, names = Splice(source), FreeNames(kernel)
    block = names.take(f"{found.dimension.upper()}_BLOCK")
    variable = found.variable
    splice.insert_before(
        found.loops[0].node, f"{variable} = {spelled(source, 'tl.arange')}(0, {block})[:, None]"
    )
    for loop in found.loops:
        _unroll(splice, kernel, loop, f"{variable} < {found.dimension}")
    splice.add_parameter(kernel, f"{block}: {spelled(source, 'tl.constexpr')}")
    power = spelled(source, "triton.next_power_of_2")
    for launch in source.launches_of(kernel.name):
        length = launch.argument(kernel, found.dimension)
        if length is not None:
            splice.set_keyword(launch.call, block, f"{power}({splice.text(length)})")
    if int(parameters["num_warps"]):
        put_options(splice, kernel, {"num_warps": int(parameters["num_warps"])})
    return share_loads(splice.result(), kernel.name)


def _unroll(splice: Splice, kernel: JitKernel, loop: Loop, valid: str) -> None:
    source = splice.source
    where = spelled(source, "tl.where")
    for fold in filter(None, (_fold(kernel, s) for s in loop.node.body)):
        reduce = spelled(source, f"tl.{fold.reduction}")
        neutral = _NEUTRAL[fold.reduction]
        splice.surround(fold.value, f"{reduce}({where}({valid}, ", f", {neutral}), axis=0)")
    for access in kernel.accesses:
        if loop not in access.loops:
            continue
        if access.mask is None:
            splice.set_keyword(access.call, "mask", valid)
        elif isinstance(access.mask, ast.Name | ast.Call):
            splice.surround(access.mask, "", f" & ({valid})")
        else:
            splice.surround(access.mask, "(", f") & ({valid})")
    for node in _rows(kernel, loop):
        splice.replace(node, f"{splice.text(node)}[None, :]")
    splice.unwrap(loop.node)


LOOP_TO_TILE = Edit(
    id="loop-to-tile",
    says="hold every index of a loop at once as a dimension of the block, and read the data once",
    parameters=(
        EditParameter(
            name="num_warps",
            says="warps per program for the larger block; 0 leaves them as they are",
            kind="int",
            default=0,
            grid=(8, 16, 4),
        ),
    ),
    find=_find,
    change=_change,
)
