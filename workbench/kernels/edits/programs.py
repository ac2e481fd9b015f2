"""How much work one program takes: several tiles a grid apart, or several neighbours."""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.grids import Grid, grid_of, in_kernel
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.order import program_ids
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_kernel import JitKernel


@dataclass(frozen=True, eq=False)
class _Loopable:
    """A kernel whose work follows from one program id, and can run for several ids in turn."""

    call: ast.Call
    """`tl.program_id(0)`."""
    first: ast.stmt
    """The first statement that depends on it; all before it stays outside the loop."""
    variable: str
    """The name that always holds the program id; empty when it is used in place."""
    cast: ast.Call | None
    """`tl.program_id(0).to(...)` around the call."""
    launches: tuple[tuple[LaunchSite, Grid], ...]


def _loopable(source: Source, kernel: JitKernel) -> _Loopable:
    ids = program_ids(kernel)
    if set(ids) != {0} or len(ids[0]) != 1:
        raise EditRefused("the kernel does not ask for its program id exactly once, on axis 0")
    if any(isinstance(n, ast.Return) for s in kernel.node.body for n in ast.walk(s)):
        raise EditRefused("the kernel returns early")
    call = ids[0][0]
    first = kernel.statement(call)
    if first not in kernel.node.body:
        raise EditRefused(f"line {call.lineno} asks for the program id inside a block")
    _check_own_names(kernel, first)
    launches = source.launches_of(kernel.name)
    if not launches or source.autotuned(kernel):
        raise EditRefused("the kernel is autotuned, or not launched in a form that can be read")
    grids = tuple((launch, grid_of(source, launch)) for launch in launches)
    if any(len(grid.extents) != 1 for _, grid in grids):
        raise EditRefused("the grid has more than one axis")
    variable = ""
    match first:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call:
            variable = name if kernel.flow.single(name) is call else ""
        case _:
            pass
    return _Loopable(call, first, variable, _cast(kernel, call), grids)


def _check_own_names(kernel: JitKernel, first: ast.stmt) -> None:
    """Refuse work that changes a name from outside of it: the next round would see the change."""
    place = kernel.node.body.index(first)
    before = kernel.flow.assigned_in(kernel.node.body[:place]) | set(kernel.flow.parameters)
    carried = kernel.flow.assigned_in(kernel.node.body[place:]) & before
    if carried:
        raise EditRefused(f"`{min(carried)}` is changed on the way and would carry over")


def _cast(kernel: JitKernel, call: ast.Call) -> ast.Call | None:
    holder = kernel.parents[call]
    cast = kernel.parents.get(holder)
    is_cast = isinstance(holder, ast.Attribute) and holder.attr == "to"
    return cast if is_cast and isinstance(cast, ast.Call) else None


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _loopable(source, kernel)
    _count(source, kernel, found)
    return (
        Anchor(
            lines=(found.call.lineno, *(launch.line for launch, _ in found.launches)),
            says=f"one program id, work of lines {found.first.lineno} and below",
        ),
    )


def _count(source: Source, kernel: JitKernel, found: _Loopable) -> str | None:
    """The number of programs in the kernel's terms; None when the launches must pass it."""
    said = set()
    for launch, grid in found.launches:
        try:
            said.add(in_kernel(source, kernel, launch, grid, grid.extents[0]))
        except EditRefused:
            if grid.meta or launch.starred:
                raise
            return None
    return said.pop() if len(said) == 1 else None


def _with_loop(
    splice: Splice, kernel: JitKernel, found: _Loopable, names: FreeNames, bounds: str
) -> None:
    """Put the work behind the program id into a loop over ids."""
    variable = found.variable or names.take("program")
    header = f"for {variable} in {bounds}:"
    body = kernel.node.body
    start = body.index(found.first)
    if found.variable:
        splice.replace_statement(found.first, header)
        moved = body[start + 1 :]
    else:
        splice.insert_before(found.first, header)
        moved = body[start:]
        if found.cast is not None:
            kind = splice.text(found.cast.args[0])
            splice.replace(found.cast, f"{spelled(splice.source, 'tl.cast')}({variable}, {kind})")
        else:
            splice.replace(found.call, variable)
    if not moved:
        raise EditRefused("nothing follows from the program id")
    unit = splice.indentation(kernel.node.body[0])[len(splice.indentation(kernel.node)) :]
    splice.indent(moved, unit)


def _tiles(splice: Splice, kernel: JitKernel, found: _Loopable, names: FreeNames) -> str:
    """The number of programs of the old grid, as the kernel can name it."""
    own = _count(splice.source, kernel, found)
    if own is not None:
        return own.removeprefix("(").removesuffix(")") if own.startswith("(") else own
    name = names.take("num_tiles")
    splice.add_parameter(kernel, name)
    for launch, grid in found.launches:
        splice.set_keyword(launch.call, name, splice.text(grid.extents[0]))
    return name


def _persist(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    programs = int(parameters["programs"])
    if not 1 <= programs <= 65536:
        raise EditRefused(f"{programs} programs are not from 1 to 65536")
    found = _loopable(source, kernel)
    splice, names = Splice(source), FreeNames(kernel)
    total = _tiles(splice, kernel, found, names)
    every = kernel.calls("num_programs")
    for call in every:
        splice.replace(call, total if total.isidentifier() else f"({total})")
    start, step = spelled(source, "tl.program_id"), spelled(source, "tl.num_programs")
    ranged, merged = spelled(source, "tl.range"), _merged(kernel, parameters)
    _with_loop(splice, kernel, found, names, f"{ranged}({start}(0), {total}, {step}(0){merged})")
    for _, grid in found.launches:
        extent = grid.extents[0]
        splice.replace(extent, f"min({programs}, {splice.text(extent)})")
    return splice.result()


def _merged(kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    """The option that lets the compiler merge the loop over tiles with the one inside it."""
    if not parameters["flatten"]:
        return ""
    if len(kernel.loops) != 1:
        raise EditRefused("the work is not one loop, with which a loop over tiles could be merged")
    return ", flatten=True"


def _chunk(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    rows = int(parameters["rows"])
    if not 2 <= rows <= 1024:
        raise EditRefused(f"{rows} is not from 2 to 1024")
    found = _loopable(source, kernel)
    if kernel.calls("num_programs"):
        raise EditRefused("the kernel counts its programs")
    splice, names = Splice(source), FreeNames(kernel)
    total = _tiles(splice, kernel, found, names)
    block = names.take("ROWS")
    splice.add_parameter(kernel, f"{block}: {spelled(source, 'tl.constexpr')}")
    program, least = spelled(source, "tl.program_id"), spelled(source, "tl.minimum")
    first, ranged = f"{program}(0) * {block}", spelled(source, "tl.range")
    bounds = f"{ranged}({first}, {least}({first} + {block}, {total}))"
    _with_loop(splice, kernel, found, names, bounds)
    cdiv = spelled(source, "triton.cdiv")
    for launch, grid in found.launches:
        extent = grid.extents[0]
        splice.set_keyword(launch.call, block, str(rows))
        count = f'{grid.meta}["{block}"]' if grid.meta else str(rows)
        splice.replace(extent, f"{cdiv}({splice.text(extent)}, {count})")
    return splice.result()


PERSISTENT = Edit(
    id="persistent",
    says="launch as many programs as run at once, and let each take every so-manieth tile",
    parameters=(
        EditParameter(
            name="programs",
            says="programs in the grid",
            kind="int",
            default=132,
            grid=(132, 264, 528),
        ),
        EditParameter(
            name="flatten",
            says="merge the loop over tiles with the loop inside it",
            kind="flag",
            default=False,
            grid=(False, True),
        ),
    ),
    find=_find,
    change=_persist,
)
ROWS_PER_PROGRAM = Edit(
    id="rows-per-program",
    says="let one program take several neighbouring rows in turn",
    parameters=(
        EditParameter(
            name="rows", says="rows per program", kind="int", default=4, grid=(4, 8, 2, 16)
        ),
    ),
    find=_find,
    change=_chunk,
)
