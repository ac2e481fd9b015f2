"""Mechanisms in the order of work: persistent programs and grouped tiles, taken back."""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import EditRefused, Parameter
from workbench.kernels.edits.dead import without_unread
from workbench.kernels.edits.grids import grid_of
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.order import GROUP_ORDER, program_ids
from workbench.kernels.edits.programs import PERSISTENT
from workbench.kernels.edits.sites import literal, parameter_sites
from workbench.kernels.edits.splice import Splice
from workbench.kernels.inverses.base import Inverse, Removable
from workbench.kernels.inverses.flags import drop_choice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in, reads_of
from workbench.kernels.source_kernel import JitKernel, Loop


def _persistent(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    loop = _tile_loop(kernel)
    if loop is None:
        raise EditRefused("no loop strides over tiles by the number of programs")
    call = loop.node.iter if isinstance(loop.node, ast.For) else None
    if not isinstance(call, ast.Call):
        raise EditRefused("the loop over tiles is not over a range")
    splice = Splice(source)
    start = splice.text(call.args[0])
    splice.unwrap(loop.node, f"{loop.variable} = {start}")
    programs: set[Parameter] = set()
    for launch in source.launches_of(kernel.name):
        extents = grid_of(source, launch).extents
        if len(extents) != 1:
            raise EditRefused("the grid has more than one axis")
        wave, tiles = _wave(source, extents[0])
        programs.add(wave)
        splice.replace(extents[0], splice.text(tiles))
    if len(programs) != 1:
        raise EditRefused("the kernel is not launched in one way")
    return (
        Removable(
            lines=(loop.line,),
            locus="grid",
            says="a wave of programs that take tile after tile",
            source=splice.result(),
            parameters={"programs": programs.pop()},
        ),
    )


def _tile_loop(kernel: JitKernel) -> Loop | None:
    """`for t in range(tl.program_id(0), tiles, tl.num_programs(0))`, outermost and alone."""
    outer = [loop for loop in kernel.loops if loop.depth == 0]
    for loop in outer:
        start = kernel.flow.resolve(loop.start)
        step = kernel.flow.resolve(loop.step)
        if start in program_ids(kernel).get(0, []) and kernel.names.op(step) == "num_programs":
            rest = kernel.node.body[kernel.node.body.index(loop.node) + 1 :]
            if rest:
                raise EditRefused(f"work follows the loop of line {loop.line}")
            return loop
    return None


def _wave(source: Source, extent: ast.expr) -> tuple[Parameter, ast.expr]:
    """(programs, tiles) of `min(programs, tiles)`, either way round."""
    match extent:
        case ast.Call(func=ast.Name(id="min"), args=[first, second], keywords=[]):
            for one, other in ((first, second), (second, first)):
                value = literal(one)
                if value is None and isinstance(one, ast.Name):
                    value = literal(source.module_value(one.id))
                if isinstance(value, int):
                    return value, other
        case _:
            pass
    raise EditRefused("the grid is not written as `min(programs, tiles)`")


@dataclass(frozen=True, eq=False)
class _Grouped:
    """The lines of a grouped order, and what they are made of."""

    pid: ast.expr
    group: str
    """The parameter that is the height of a group."""
    columns: ast.expr
    """Number of tiles in a row."""
    row: ast.Assign
    column: ast.Assign
    helpers: tuple[ast.Assign, ...]
    """Assignments that serve nothing else."""


def _grouped(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    found = _grouped_order(kernel)
    given = parameter_sites(source, kernel, found.group)
    if len(given.values) != 1 or given.computed:
        raise EditRefused(f"the value of `{found.group}` is not written out")
    splice = Splice(source)
    names = [t.id for s in (found.row, found.column) for t in s.targets if isinstance(t, ast.Name)]
    places = _plane(splice, kernel, found) or _line(splice, found)
    splice.replace_statement(found.row, f"{names[0]} = {places[0]}")
    splice.replace_statement(found.column, f"{names[1]} = {places[1]}")
    for helper in found.helpers:
        splice.remove(helper)
    if not _read_elsewhere(kernel, found.group, {found.row, found.column, *found.helpers}):
        splice.drop_parameter(kernel, found.group)
        for launch in source.launches_of(kernel.name):
            if launch.keyword(found.group) is not None:
                splice.drop_keyword(launch.call, found.group)
        drop_choice(splice, kernel, found.group)
    return (
        Removable(
            lines=tuple(sorted({s.lineno for s in (*found.helpers, found.row, found.column)})),
            locus="grid",
            says=f"tiles in groups of {given.values[0]} rows",
            source=without_unread(splice.result(), kernel.name),
            parameters={"group": given.values[0]},
        ),
    )


def _line(splice: Splice, found: _Grouped) -> tuple[str, str]:
    """A tile's row and column where tiles are counted row by row."""
    columns, pid = splice.text(found.columns), splice.text(found.pid)
    tight = columns if isinstance(found.columns, ast.Name) else f"({columns})"
    return f"{pid} // {tight}", f"{pid} % {tight}"


def _plane(splice: Splice, kernel: JitKernel, found: _Grouped) -> tuple[str, str] | None:
    """A tile's row and column where the grid has an axis for each; else None."""
    columns = kernel.flow.resolve(found.columns)
    counted = kernel.names.op(columns) == "num_programs" and isinstance(columns, ast.Call)
    if not counted or not _numbered(kernel, kernel.flow.resolve(found.pid)):
        return None
    axis = literal(columns.args[0]) if isinstance(columns, ast.Call) and columns.args else None
    if axis not in {0, 1}:
        return None
    program = spelled(splice.source, "tl.program_id")
    return f"{program}({1 - int(axis)})", f"{program}({axis})"


def _numbered(kernel: JitKernel, node: ast.expr | None) -> bool:
    """Whether a number is `program_id(0) + program_id(1) * num_programs(0)`."""
    match node:
        case ast.BinOp(left=first, op=ast.Add(), right=ast.BinOp(left=second, op=ast.Mult())):
            ids = program_ids(kernel)
            return ids.get(0, []) == [first] and ids.get(1, []) == [second]
        case _:
            return False


def _grouped_order(kernel: JitKernel) -> _Grouped:
    """The order of Triton's matrix multiplication tutorial, in any names.

    `span = group * columns`, `first = pid // span * group`, `height = min(rows - first, group)`,
    `row = first + pid % span % height` or `first + pid % height`, and
    `column = pid % span // height`.
    """
    for name, definitions in kernel.flow.definitions.items():
        value = kernel.flow.single(name)
        match value:
            case ast.BinOp(
                left=ast.BinOp(left=pid, op=ast.Mod(), right=span), op=ast.FloorDiv(), right=height
            ):
                pass
            case _:
                continue
        column = definitions[0].statement
        if not isinstance(column, ast.Assign) or not isinstance(span, ast.Name):
            continue
        group, columns = _span(kernel, span.id)
        row = _row_beside(kernel, column, height)
        still = kernel.flow.reaches(pid) | kernel.flow.reaches(columns)
        served = {span.id, *names_in(height), *names_in(row.value)} - still
        helpers = _serving(kernel, (row, column), served, still)
        return _Grouped(pid, group, columns, row, column, helpers)
    raise EditRefused("no tile's column is `pid % span // height`")


def _span(kernel: JitKernel, name: str) -> tuple[str, ast.expr]:
    """(group, columns) of `span = group * columns`, either way round."""
    match kernel.flow.single(name):
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, ast.Name) and one.id in kernel.constexprs:
                    return one.id, other
        case _:
            pass
    raise EditRefused(f"`{name}` is not a group's height times the columns")


def _row_beside(kernel: JitKernel, column: ast.Assign, height: ast.expr) -> ast.Assign:
    """The assignment of the tile's row, in the same body: `first + pid... % height`."""
    wanted = ast.dump(height)
    body = _body_of(kernel, column)
    for statement in body:
        match statement:
            case ast.Assign(
                targets=[ast.Name()],
                value=ast.BinOp(op=ast.Add(), right=ast.BinOp(op=ast.Mod(), right=limit)),
            ) if ast.dump(limit) == wanted:
                return statement
            case _:
                pass
    raise EditRefused("no tile's row is `first + pid % height`")


def _body_of(kernel: JitKernel, statement: ast.stmt) -> list[ast.stmt]:
    holder = kernel.parents[statement]
    for field in ("body", "orelse"):
        body = getattr(holder, field, [])
        if statement in body:
            return list(body)
    raise EditRefused(f"line {statement.lineno} stands in no block")


def _serving(
    kernel: JitKernel,
    kept: tuple[ast.Assign, ast.Assign],
    wanted: set[str],
    still: frozenset[str],
) -> tuple[ast.Assign, ...]:
    """Assignments of the wanted names, and of what only they read, that nothing `still` needs."""
    dropped: dict[str, ast.Assign] = {}
    ahead = sorted(wanted)
    while ahead:
        name = ahead.pop(0)
        statement = _only_assignment(kernel, name)
        if statement is None or name in dropped or statement in kept:
            continue
        if _read_elsewhere(kernel, name, {*kept, *dropped.values()}):
            continue
        dropped[name] = statement
        ahead += sorted(names_in(statement.value) - still)
    return tuple(dropped.values())


def _only_assignment(kernel: JitKernel, name: str) -> ast.Assign | None:
    found = kernel.flow.definitions.get(name, [])
    statement = found[0].statement if len(found) == 1 else None
    match statement:
        case ast.Assign(targets=[ast.Name()]):
            return statement
        case _:
            return None


def _read_elsewhere(kernel: JitKernel, name: str, allowed: set[ast.Assign]) -> bool:
    for node in reads_of(name, kernel.node):
        holder = kernel.statement(node)
        if holder not in allowed and not _inside_own(holder, name):
            return True
    return False


def _inside_own(holder: ast.stmt, name: str) -> bool:
    return isinstance(holder, ast.Assign) and any(
        isinstance(t, ast.Name) and t.id == name for t in holder.targets
    )


PERSISTENT_PROGRAMS = Inverse(
    category="persistent-programs",
    edit=PERSISTENT.id,
    says="a program for every tile, where a wave of programs took tile after tile",
    find=_persistent,
)
GROUPED_TILES = Inverse(
    category="grouped-tiles",
    edit=GROUP_ORDER.id,
    says="tiles row by row, where they were visited in groups",
    find=_grouped,
)
