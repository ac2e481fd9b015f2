"""Gives a program several neighbouring outputs as a dimension of its block: loads serve them all.

A kernel whose program id names one row or channel becomes one whose block has a column of them:
what does not depend on the id is loaded once for the whole column. The column's extent is the
largest power of two that divides the grid and every divisor of the id, worked out at each launch,
so that no mask is needed and a quotient of the id stays one number.
"""

import ast

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.grids import Grid
from workbench.kernels.edits.launch_options import put_options, with_warps
from workbench.kernels.edits.launching import host_names, host_statement
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.order import program_ids
from workbench.kernels.edits.program_uses import REDUCING, Uses, held, moving_names, uses_of
from workbench.kernels.edits.ranks import rank
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_kernel import JitKernel, argument


def _axes(source: Source, kernel: JitKernel) -> dict[int, Uses]:
    plans: dict[int, Uses] = {}
    reasons = ["the kernel asks for no program id"]
    for axis in sorted(set(program_ids(kernel)) - {-1}):
        try:
            plans[axis] = uses_of(source, kernel, axis)
        except EditRefused as refused:
            reasons.append(refused.why)
    if not plans:
        raise EditRefused(reasons[-1])
    return plans


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    return tuple(
        Anchor(
            lines=tuple(sorted({use.node.lineno for use in plan.uses[""]})),
            says=f"one output a program on axis {axis}",
            parameters={"axis": axis},
        )
        for axis, plan in _axes(source, kernel).items()
    )


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    axis, outputs = int(parameters["axis"]), int(parameters["outputs"])
    if outputs not in {2, 4, 8, 16, 32}:
        raise EditRefused(f"{outputs} is not 2, 4, 8, 16 or 32")
    found = uses_of(source, kernel, axis)
    splice, names = Splice(source), FreeNames(kernel)
    tile, first, lanes = names.take("OUTPUTS"), names.take("first"), names.take("lanes")
    splice.add_parameter(kernel, f"{tile}: {spelled(source, 'tl.constexpr')}")
    program, arange = spelled(source, "tl.program_id"), spelled(source, "tl.arange")
    splice.insert_before(
        kernel.node.body[0],
        f"{first} = {program}({axis}) * {tile}",
        f"{lanes} = {arange}(0, {tile})[:, None]",
    )
    _rewrite_ids(splice, kernel, found, names, (first, lanes))
    _rewrite_shapes(splice, kernel, found, tile)
    for launch, grid in found.launches:
        _rewrite_launch(splice, kernel, found, launch, grid, (tile, outputs))
    if int(parameters["num_warps"]):
        put_options(splice, kernel, {"num_warps": int(parameters["num_warps"])})
    return splice.result()


def _rewrite_ids(
    splice: Splice, kernel: JitKernel, found: Uses, names: FreeNames, own: tuple[str, str]
) -> None:
    """The id's first value where one number is wanted, that and the lanes elsewhere."""
    first, lanes = own
    bases = {"": first}
    for name in found.uses:
        if name:
            wanted = any(use.how != "plain" for use in found.uses[name])
            bases[name] = names.take(f"first_{name}") if wanted else ""
    for name, uses in found.uses.items():
        for use in uses:
            scalar = _cast_text(splice, kernel, use.node, bases[name])
            if use.how == "quotient":
                splice.replace(use.node, scalar)
                continue
            if use.how == "plain" and name:
                continue
            text = scalar
            if use.how == "remainder" and isinstance(use.whole, ast.BinOp):
                text = f"{scalar} % {splice.text(use.whole.right)}"
            name_held = held(kernel, use.whole)
            if name_held and bases.get(name_held):
                splice.insert_before(kernel.statement(use.whole), f"{bases[name_held]} = {text}")
                text = bases[name_held]
            splice.replace_atom(use.whole, f"({text} + {lanes})")


def _cast_text(splice: Splice, kernel: JitKernel, node: ast.expr, base: str) -> str:
    """The text of a read with its casts, around the first value instead."""
    inner = node
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        if inner.func.attr != "to" or kernel.names.op(inner) == "program_id":
            break
        inner = inner.func.value
    return splice.text_with(node, {inner: base}) if inner is not node else base


def _rewrite_shapes(splice: Splice, kernel: JitKernel, found: Uses, tile: str) -> None:
    """Rows get a dimension in front; sums and starts of what moves with the id one of its own."""
    moving = moving_names(kernel, found)
    for call in kernel.calls("arange"):
        splice.replace(call, f"{splice.text(call)}[None, :]")
    for call in kernel.calls("zeros", "full"):
        shape = argument(call, 0, "shape")
        if not isinstance(shape, ast.List | ast.Tuple) or len(shape.elts) != 1:
            raise EditRefused(f"line {call.lineno} makes a block of another shape")
        height = tile if _target(kernel, call) in moving else "1"
        splice.replace(shape, f"[{height}, {splice.text(shape.elts[0])}]")
    for call in kernel.calls(*sorted(REDUCING)):
        axis = argument(call, 1, "axis")
        if axis is not None:
            splice.replace(axis, "1")
        else:
            splice.set_keyword(call, "axis", "1")
        splice.set_keyword(call, "keep_dims", "True")
    for loop in kernel.loops:
        for name in sorted(kernel.flow.assigned_in(loop.node.body) & moving):
            _widen_start(splice, kernel, name, loop.node, tile)


def _target(kernel: JitKernel, call: ast.Call) -> str:
    match kernel.statement(call):
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return ""


def _widen_start(splice: Splice, kernel: JitKernel, name: str, loop: ast.AST, tile: str) -> None:
    """A number that a loop carries on becomes one a row of the column."""
    inside = set(ast.walk(loop))
    for definition in kernel.flow.definitions[name]:
        value = definition.value
        if definition.statement in inside or value is None or rank(kernel, value) != 0:
            continue
        if name not in {d.name for d in kernel.flow.definitions[name] if d.statement in inside}:
            continue
        full, kind = spelled(splice.source, "tl.full"), spelled(splice.source, "tl.float32")
        splice.replace(value, f"{full}([{tile}, 1], {splice.text(value)}, dtype={kind})")


def _rewrite_launch(
    splice: Splice,
    kernel: JitKernel,
    found: Uses,
    launch: LaunchSite,
    grid: Grid,
    chosen: tuple[str, int],
) -> None:
    tile, outputs = chosen
    extent = grid.extents[found.axis]
    terms = [splice.text(extent)]
    for name in found.divisors:
        given = launch.argument(kernel, name)
        if given is not None:
            terms.append(splice.text(given))
    distinct = [t if t.isidentifier() else f"({t})" for t in dict.fromkeys(terms)]
    bits, height = host_names(splice.source, launch, "bits", "outputs")
    splice.insert_before(
        host_statement(launch),
        f"{bits} = {' | '.join([str(outputs), *distinct])}",
        f"{height} = {bits} & -{bits}  # the largest power of two that divides them all",
    )
    splice.set_keyword(launch.call, tile, height)
    splice.replace(extent, f"{distinct[0]} // {height}")


TILE_PROGRAMS = Edit(
    id="tile-programs",
    says="give a program several neighbouring outputs, which share what it loads",
    parameters=(
        EditParameter(
            name="axis", says="axis of the grid that counts outputs", kind="int", default=0
        ),
        EditParameter(
            name="outputs",
            says="outputs of a program, fewer where the shape does not divide",
            kind="int",
            default=8,
            grid=(16, 8, 4, 2),
        ),
        with_warps(4, 8),
    ),
    find=_find,
    change=_change,
)
