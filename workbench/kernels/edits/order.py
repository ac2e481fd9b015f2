"""The order in which programs visit output tiles, and a grouped order that reuses the L2 cache.

Grouped order is the classical one of Triton's matrix multiplication tutorial: a column of
`GROUP_M` tiles is finished before the next, so that programs that run together share rows and
columns of the inputs.
"""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in, same, statements
from workbench.kernels.source_kernel import JitKernel, argument

_GROUP = "GROUP_M"


@dataclass(frozen=True, eq=False)
class Linear:
    """`pid // width` and `pid % width` of one program id: row-major order."""

    pid: str
    width: ast.expr
    rows: tuple[ast.expr, ...]
    """Every `pid // width`."""
    columns: tuple[ast.expr, ...]
    """Every `pid % width`."""


@dataclass(frozen=True, eq=False)
class Plane:
    """Tile coordinates that are two program ids of their own."""

    row: ast.Call
    column: ast.Call
    row_axis: int
    column_axis: int


def program_ids(kernel: JitKernel) -> dict[int, list[ast.Call]]:
    """The `tl.program_id` calls by axis; -1 for an axis that is not a literal."""
    found: dict[int, list[ast.Call]] = {}
    for call in kernel.calls("program_id"):
        match argument(call, 0, "axis"):
            case ast.Constant(value=int(axis)):
                found.setdefault(axis, []).append(call)
            case _:
                found.setdefault(-1, []).append(call)
    return found


def linear_order(kernel: JitKernel) -> Linear | None:
    """The row-major split of a one-dimensional program id, when there is exactly one."""
    ids = program_ids(kernel)
    rows: list[ast.BinOp] = []
    columns: list[ast.BinOp] = []
    for node in (n for s in kernel.node.body for n in ast.walk(s)):
        match node:
            case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod() as op) if _is_id(
                kernel, left, ids.get(0, [])
            ):
                (rows if isinstance(op, ast.FloorDiv) else columns).append(node)
            case _:
                pass
    if not rows or not columns:
        return None
    first = rows[0]
    if not isinstance(first.left, ast.Name):
        return None
    pid = first.left.id
    every = [*rows, *columns]
    if any(not same(n.right, first.right) or not same(n.left, first.left) for n in every):
        return None
    return Linear(pid, first.right, tuple(rows), tuple(columns))


def _is_id(kernel: JitKernel, node: ast.expr, calls: list[ast.Call]) -> bool:
    return isinstance(node, ast.Name) and kernel.flow.single(node.id) in calls


def plane_order(kernel: JitKernel) -> Plane | None:
    """Axes 0 and 1 as tile coordinates of a kernel with a product; None otherwise."""
    ids = program_ids(kernel)
    if not kernel.dots or set(ids) - {0, 1, 2} or len(ids.get(0, [])) != 1:
        return None
    if len(ids.get(1, [])) != 1:
        return None
    first, second = ids[0][0], ids[1][0]
    if not _tiles_output(kernel, first) or not _tiles_output(kernel, second):
        return None
    earlier = (first.lineno, first.col_offset) < (second.lineno, second.col_offset)
    return Plane(first, second, 0, 1) if earlier else Plane(second, first, 1, 0)


def _tiles_output(kernel: JitKernel, call: ast.Call) -> bool:
    """Whether a program id is multiplied by a block: `pid_m * BLOCK_M`."""
    names, blocks = _names_of(kernel, call), set(kernel.blocks)
    for node in ast.walk(kernel.node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = node.left, node.right
            for factor, other in (sides, sides[::-1]):
                direct = other is call or (isinstance(other, ast.Name) and other.id in names)
                if isinstance(factor, ast.Name) and factor.id in blocks and direct:
                    return True
    return False


def _names_of(kernel: JitKernel, call: ast.Call) -> set[str]:
    """What a program id is assigned to, and names that are given the same, cast or not."""
    statement = kernel.statement(call)
    every = [(name, d) for name, ds in kernel.flow.definitions.items() for d in ds]
    names = {name for name, d in every if d.statement is statement}
    for name, definition in sorted(every, key=lambda one: one[1].statement.lineno):
        value = definition.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func.value if value.func.attr == "to" else None
        if isinstance(value, ast.Name) and value.id in names:
            names.add(name)
    return names


def tile_order(kernel: JitKernel) -> str:
    """`grouped`, `row-major`, `grid-2d`, or `none` without an order of tiles."""
    if kernel.calls("swizzle2d") or _is_grouped(kernel):
        return "grouped"
    if kernel.dots and linear_order(kernel) is not None:
        return "row-major"
    return "grid-2d" if plane_order(kernel) is not None else "none"


def _is_grouped(kernel: JitKernel) -> bool:
    """Whether a program id is divided by a multiple of a tile count: a grouped order."""
    ids = program_ids(kernel).get(0, [])
    for node in ast.walk(kernel.node):
        match node:
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right) if kernel.flow.reaches(
                left
            ) and _reaches_id(kernel, left, ids):
                behind = kernel.flow.resolve(right)
                product = isinstance(behind, ast.BinOp) and isinstance(behind.op, ast.Mult)
                if product and names_in(behind) & set(kernel.constexprs):
                    return True
                if _times_tiles(kernel, behind):
                    return True
            case _:
                pass
    return False


def _times_tiles(kernel: JitKernel, node: ast.expr | None) -> bool:
    """Whether it is a written number of times a count of tiles."""
    match node:
        case ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=count):
            pass
        case ast.BinOp(left=count, op=ast.Mult(), right=ast.Constant()):
            pass
        case _:
            return False
    return kernel.names.op(kernel.flow.resolve(count)) == "cdiv"


def _reaches_id(kernel: JitKernel, node: ast.expr, calls: list[ast.Call]) -> bool:
    roots = [node]
    for name in kernel.flow.reaches(node):
        roots += [d.value for d in kernel.flow.definitions.get(name, []) if d.value is not None]
    return any(inner in calls for root in roots for inner in ast.walk(root))


def _find(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    if _is_grouped(kernel) or kernel.calls("swizzle2d"):
        raise EditRefused("the tiles are already visited in groups")
    linear = linear_order(kernel)
    if linear is not None and kernel.dots:
        lines = sorted({n.lineno for n in (*linear.rows, *linear.columns)})
        return (Anchor(lines=tuple(lines), says=f"{linear.pid} split row by row"),)
    plane = plane_order(kernel)
    if plane is None:
        raise EditRefused("no program id is split into a tile's row and column")
    lines = sorted({plane.row.lineno, plane.column.lineno})
    return (Anchor(lines=tuple(lines), says="a two-dimensional grid of tiles"),)


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    _find(source, kernel)
    height = int(parameters["group"])
    if not 2 <= height <= 64:
        raise EditRefused(f"a group of {height} is not from 2 to 64")
    splice, names = Splice(source), FreeNames(kernel)
    group = names.take(_GROUP)
    linear = linear_order(kernel)
    order = (
        _from_linear(splice, linear) if linear is not None else _from_plane(splice, names, kernel)
    )
    tile = _place_names(kernel, names, order.places)
    first = _first_statement(kernel, [n for nodes in order.places for n in nodes])
    splice.insert_before(first, *order.setup, *_grouped(source, names, tile, order, group))
    for nodes, name in zip(order.places, tile, strict=True):
        for node in nodes:
            if _plain_name(kernel, node) == name:
                splice.remove(kernel.statement(node))
            else:
                splice.replace_atom(node, name)
    splice.add_parameter(kernel, f"{group}: {spelled(source, 'tl.constexpr')} = {height}")
    return splice.result()


@dataclass(frozen=True, eq=False)
class _Order:
    """A linear order of tiles in the kernel's text."""

    setup: tuple[str, ...]
    """Lines that must come first."""
    pid: str
    rows: str
    """How many rows of tiles there are."""
    columns: str
    places: tuple[tuple[ast.expr, ...], tuple[ast.expr, ...]]
    """Where the tile's row and its column are computed now."""


def _from_linear(splice: Splice, linear: Linear) -> _Order:
    columns = splice.text(linear.width)
    programs = spelled(splice.source, "tl.num_programs")
    rows = f"{programs}(0) // {_tight(linear.width, columns)}"
    return _Order((), linear.pid, rows, columns, (linear.rows, linear.columns))


def _from_plane(splice: Splice, names: FreeNames, kernel: JitKernel) -> _Order:
    plane = plane_order(kernel)
    if plane is None:
        raise EditRefused("no program id is split into a tile's row and column")
    program = spelled(splice.source, "tl.program_id")
    programs = spelled(splice.source, "tl.num_programs")
    pid = names.take("pid")
    return _Order(
        (f"{pid} = {program}(0) + {program}(1) * {programs}(0)",),
        pid,
        f"{programs}({plane.row_axis})",
        f"{programs}({plane.column_axis})",
        ((plane.row,), (plane.column,)),
    )


def _grouped(
    source: Source, names: FreeNames, tile: tuple[str, str], order: _Order, group: str
) -> list[str]:
    """Lines that compute the tile's row and column in grouped order."""
    span, first, height = (names.take(n) for n in ("group_span", "first_m", "group_rows"))
    minimum, pid = spelled(source, "tl.minimum"), order.pid
    return [
        f"{span} = {group} * {order.columns}",
        f"{first} = {pid} // {span} * {group}",
        f"{height} = {minimum}({order.rows} - {first}, {group})",
        f"{tile[0]} = {first} + {pid} % {span} % {height}",
        f"{tile[1]} = {pid} % {span} // {height}",
    ]


def _plain_name(kernel: JitKernel, node: ast.expr) -> str:
    """The name that always holds an expression and nothing else, when there is one."""
    match kernel.statement(node):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is node:
            return name if kernel.flow.single(name) is node else ""
        case _:
            return ""


def _place_names(
    kernel: JitKernel, names: FreeNames, places: tuple[tuple[ast.expr, ...], ...]
) -> tuple[str, str]:
    """What to call the tile's row and column: the kernel's own names where it has them."""
    own = [_plain_name(kernel, nodes[0]) if len(nodes) == 1 else "" for nodes in places]
    return own[0] or names.take("tile_m"), own[1] or names.take("tile_n")


def _tight(node: ast.expr, text: str) -> str:
    return text if isinstance(node, ast.Name | ast.Call | ast.Attribute) else f"({text})"


def _first_statement(kernel: JitKernel, nodes: list[ast.expr]) -> ast.stmt:
    holders = {kernel.statement(node) for node in nodes}
    for statement in statements(kernel.node.body):
        if statement in holders:
            if statement not in kernel.node.body:
                raise EditRefused(f"line {statement.lineno} computes the tile inside a block")
            return statement
    raise EditRefused("the tile's coordinates are not in the kernel's body")


GROUP_ORDER = Edit(
    id="group-order",
    says="visit output tiles in groups of rows, so that programs that run together share inputs",
    parameters=(
        EditParameter(
            name="group",
            says="rows of tiles in a group",
            kind="int",
            default=8,
            grid=(8, 4, 16),
        ),
    ),
    find=_find,
    change=_change,
)
