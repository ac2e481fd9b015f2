"""Gives a program several neighbouring outputs as a dimension of its block: loads serve them all.

A kernel whose program id names one row or channel becomes one whose block has a column of them:
what does not depend on the id is loaded once for the whole column. The column's extent is the
largest power of two that divides the grid and every divisor of the id, worked out at each launch,
so that no mask is needed and a quotient of the id stays one number.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.blocks import in_grid
from workbench.kernels.edits.grids import Grid, grid_of
from workbench.kernels.edits.launch_options import put_options
from workbench.kernels.edits.launching import host_names, host_statement
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.order import program_ids
from workbench.kernels.edits.ranks import is_elementwise, rank
from workbench.kernels.edits.sites import literal
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel, argument

_REDUCING = frozenset({"sum", "max", "min"})
_PLAIN = frozenset({"program_id", "store", "arange", "zeros", "full", "cdiv"})


@dataclass(frozen=True, eq=False)
class _Use:
    """A place where the id, or a name that stands for it, is read."""

    node: ast.expr
    """The read itself with its casts around it."""
    how: str
    """`quotient`, `remainder` or `plain`."""
    whole: ast.expr
    """The quotient or remainder; the read itself when plain."""


@dataclass(eq=False)
class _Plan:
    """What has to change, found before anything is changed."""

    axis: int
    uses: dict[str, list[_Use]] = field(default_factory=dict)
    """By the name that holds the id; empty name for the calls themselves."""
    divisors: list[str] = field(default_factory=list)
    launches: list[tuple[LaunchSite, Grid]] = field(default_factory=list)


def _plan(source: Source, kernel: JitKernel, axis: int) -> _Plan:
    """How the program ids of one axis are used. Raises EditRefused for another form."""
    _check_form(kernel)
    found = _Plan(axis)
    ahead: list[tuple[str, list[ast.expr]]] = [("", list(program_ids(kernel).get(axis, [])))]
    while ahead:
        name, reads = ahead.pop()
        uses = [_use(kernel, read) for read in reads]
        found.uses[name] = uses
        for use in uses:
            if use.how != "plain":
                found.divisors.append(_divisor(use.whole))
            held = "" if use.how == "quotient" else _held(kernel, use.whole)
            if held and held not in found.uses:
                ahead.append((held, list(_reads(kernel, held))))
    for launch in source.launches_of(kernel.name):
        found.launches.append((launch, _grid(source, kernel, launch, found)))
    if not found.launches or source.autotuned(kernel):
        raise EditRefused("the kernel is autotuned, or not launched in a form that can be read")
    _check_moves(kernel, found)
    return found


def _check_form(kernel: JitKernel) -> None:
    """Refuse what is not straight work on rows: other ranks, branches, products, helpers."""
    for node in (n for s in kernel.node.body for n in ast.walk(s)):
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Return | ast.Subscript):
            raise EditRefused("the kernel is more than straight work on one row")
        if isinstance(node, ast.Call):
            _check_call(kernel, node)
    if kernel.calls("num_programs"):
        raise EditRefused("the kernel counts its programs")


def _check_call(kernel: JitKernel, call: ast.Call) -> None:
    op = kernel.names.op(call)
    if op in _REDUCING:
        axis = argument(call, 1, "axis")
        if axis is not None and literal(axis) != 0:
            raise EditRefused(f"line {call.lineno} reduces another axis than the first")
        return
    method = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
    plain = isinstance(call.func, ast.Name) and call.func.id in {"range", "float"}
    ranged = op in {"range", "static_range"}
    if not (is_elementwise(op) or op in _PLAIN or method or plain or ranged):
        raise EditRefused(f"line {call.lineno} is more than straight work on one row")
    if op in {"load", "store"} and (rank(kernel, argument(call, 0, "pointer")) or 0) > 1:
        raise EditRefused(f"line {call.lineno} moves a block of two dimensions")


def _use(kernel: JitKernel, read: ast.expr) -> _Use:
    node = read
    while True:
        holder = kernel.parents[node]
        match holder:
            case ast.Attribute(attr="to"):
                cast = kernel.parents[holder]
                if not isinstance(cast, ast.Call):
                    raise EditRefused(f"line {read.lineno} uses the program id in another way")
                node = cast
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.Name()) if left is node:
                return _Use(node, "quotient", holder)
            case ast.BinOp(left=left, op=ast.Mod(), right=ast.Name()) if left is node:
                return _Use(node, "remainder", holder)
            case ast.BinOp(op=ast.FloorDiv() | ast.Mod()):
                raise EditRefused(f"line {read.lineno} takes the program id apart in another way")
            case _:
                return _Use(node, "plain", node)


def _divisor(whole: ast.expr) -> str:
    if isinstance(whole, ast.BinOp) and isinstance(whole.right, ast.Name):
        return whole.right.id
    raise EditRefused(f"line {whole.lineno} takes the program id apart in another way")


def _held(kernel: JitKernel, whole: ast.expr) -> str:
    """The name that always holds an expression, casts looked through; empty when there is none."""
    while isinstance(kernel.parents[whole], ast.Attribute):
        cast = kernel.parents[kernel.parents[whole]]
        if not isinstance(cast, ast.Call):
            return ""
        whole = cast
    match kernel.parents[whole]:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is whole:
            return name if kernel.flow.single(name) is whole else ""
        case _:
            return ""


def _reads(kernel: JitKernel, name: str) -> Iterator[ast.Name]:
    for statement in kernel.node.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                yield node


def _grid(source: Source, kernel: JitKernel, launch: LaunchSite, found: _Plan) -> Grid:
    grid = grid_of(source, launch)
    if found.axis >= len(grid.extents):
        raise EditRefused(f"the grid of line {launch.line} has no axis {found.axis}")
    extent = grid.extents[found.axis]
    if grid.meta and grid.meta in names_in(extent):
        raise EditRefused(f"axis {found.axis} of the grid counts blocks, not rows")
    if launch.scope.function is None or launch.starred:
        raise EditRefused(f"line {launch.line} launches outside a function, or hides arguments")
    if not grid.meta and isinstance(launch.grid, ast.Name):
        raise EditRefused(f"the grid of line {launch.line} is made before the launch")
    for name in found.divisors:
        if launch.argument(kernel, name) is None:
            raise EditRefused(f"line {launch.line} does not show what `{name}` is")
    return grid


def _check_moves(kernel: JitKernel, found: _Plan) -> None:
    """Refuse unless every store moves with the id, and no loop bound does."""
    if any(in_grid(kernel, block) and _by(kernel, block, found) for block in kernel.blocks):
        raise EditRefused(f"axis {found.axis} of the grid counts blocks, not rows")
    moving = _moving(kernel, found)
    for store in kernel.stores:
        if not _direct(store.pointer, moving, found):
            raise EditRefused(f"line {store.line} stores to the same place for every output")
    if any(a.kind == "atomic" for a in kernel.accesses):
        raise EditRefused("the kernel adds with atomics")
    for loop in kernel.loops:
        for bound in (loop.start, loop.stop, loop.step):
            if bound is not None and _direct(bound, moving, found):
                raise EditRefused(f"the loop of line {loop.line} differs between outputs")
    shared = [a for a in kernel.loads if not _direct(a.pointer, moving, found)]
    if not shared:
        raise EditRefused("no load is the same for neighbouring outputs")


def _by(kernel: JitKernel, block: str, found: _Plan) -> bool:
    """Whether the id of our axis is what a block is multiplied by."""
    ours = {id(use.node) for uses in found.uses.values() for use in uses}
    for node in ast.walk(kernel.node):
        match node:
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                sides = [side for side in (left, right) if block not in names_in(side)]
                if len(sides) == 1 and any(id(n) in ours for n in ast.walk(sides[0])):
                    return True
            case _:
                pass
    return False


def _moving(kernel: JitKernel, found: _Plan) -> frozenset[str]:
    """Names that hold something else for each output of the column."""
    moving: set[str] = set()
    while True:
        grown = {
            d.name
            for ds in kernel.flow.definitions.values()
            for d in ds
            if d.value is not None and d.how != "loop"
            if _direct(d.value, moving, found)
        }
        if grown <= moving:
            return frozenset(moving)
        moving |= grown


def _direct(node: ast.expr, moving: set[str] | frozenset[str], found: _Plan) -> bool:
    """Whether an expression reads the id, or a name that moves with it, outside a quotient."""
    scalar = {
        id(inner)
        for uses in found.uses.values()
        for use in uses
        if use.how == "quotient"
        for inner in ast.walk(use.whole)
    }
    calls = {id(use.node) for use in found.uses[""]}
    for inner in ast.walk(node):
        if id(inner) in scalar:
            continue
        if id(inner) in calls or (isinstance(inner, ast.Name) and inner.id in moving):
            return True
    return False


def _axes(source: Source, kernel: JitKernel) -> dict[int, _Plan]:
    plans: dict[int, _Plan] = {}
    reasons = ["the kernel asks for no program id"]
    for axis in sorted(set(program_ids(kernel)) - {-1}):
        try:
            plans[axis] = _plan(source, kernel, axis)
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
    found = _plan(source, kernel, axis)
    splice, names = Splice(source), FreeNames(kernel)
    tile, first, lanes = names.take("OUTPUTS"), names.take("first"), names.take("lanes")
    splice.add_parameter(kernel, f"{tile}: {spelled(source, 'tl.constexpr')}{_default(kernel)}")
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


def _default(kernel: JitKernel) -> str:
    return " = 1" if kernel.parameters and kernel.parameters[-1].default is not None else ""


def _rewrite_ids(
    splice: Splice, kernel: JitKernel, found: _Plan, names: FreeNames, own: tuple[str, str]
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
            held = _held(kernel, use.whole)
            if held and bases.get(held):
                splice.insert_before(kernel.statement(use.whole), f"{bases[held]} = {text}")
                text = bases[held]
            splice.replace_atom(use.whole, f"({text} + {lanes})")


def _cast_text(splice: Splice, kernel: JitKernel, node: ast.expr, base: str) -> str:
    """The text of a read with its casts, around the first value instead."""
    inner = node
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        if inner.func.attr != "to" or kernel.names.op(inner) == "program_id":
            break
        inner = inner.func.value
    return splice.text_with(node, {inner: base}) if inner is not node else base


def _rewrite_shapes(splice: Splice, kernel: JitKernel, found: _Plan, tile: str) -> None:
    """Rows get a dimension in front; sums and starts of what moves with the id one of its own."""
    moving = _moving(kernel, found)
    for call in kernel.calls("arange"):
        splice.replace(call, f"{splice.text(call)}[None, :]")
    for call in kernel.calls("zeros", "full"):
        shape = argument(call, 0, "shape")
        if not isinstance(shape, ast.List | ast.Tuple) or len(shape.elts) != 1:
            raise EditRefused(f"line {call.lineno} makes a block of another shape")
        height = tile if _target(kernel, call) in moving else "1"
        splice.replace(shape, f"[{height}, {splice.text(shape.elts[0])}]")
    for call in kernel.calls(*sorted(_REDUCING)):
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
    found: _Plan,
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
        EditParameter(
            name="num_warps",
            says="warps per program; 0 leaves them as they are",
            kind="int",
            default=0,
            grid=(4, 8),
        ),
    ),
    find=_find,
    change=_change,
)
