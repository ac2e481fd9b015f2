"""Mechanisms that share out work: parts of a sum, rows of a program, configurations; taken back."""

import ast

from workbench.kernels.edits.base import EditRefused, Parameter
from workbench.kernels.edits.grids import Grid, grid_of
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.order import program_ids
from workbench.kernels.edits.programs import ROWS_PER_PROGRAM
from workbench.kernels.edits.sites import literal, parameter_sites
from workbench.kernels.edits.splice import Splice
from workbench.kernels.edits.split import SPLIT_REDUCTION
from workbench.kernels.edits.tuning import AUTOTUNE, PICK_CONFIG
from workbench.kernels.inverses.base import Inverse, Removable, puts_back
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel, Loop

_EMPTY = {"torch.zeros": "torch.empty", "torch.zeros_like": "torch.empty_like"}


# Parts of a sum.


def _split(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    loop, axis, width = _shared_loop(kernel)
    atomics = [a for a in kernel.accesses if a.kind == "atomic"]
    if len(atomics) != 1 or atomics[0].op != "atomic_add" or kernel.stores:
        raise EditRefused("the parts are not added by one atomic")
    splice = Splice(source)
    if loop.start is None or loop.step is None:
        raise EditRefused("the loop does not step from a start")
    splice.replace(loop.start, "0")
    splice.replace(loop.step, width)
    splice.replace(atomics[0].call.func, spelled(source, "tl.store"))
    parts: set[Parameter] = set()
    for launch in source.launches_of(kernel.name):
        grid = grid_of(source, launch)
        parts.add(_drop_axis(splice, grid, axis))
        _leave_unset(splice, kernel, launch, atomics[0].base)
    if len(parts) != 1:
        raise EditRefused("the kernel is not launched in one way")
    without, parameters = splice.result(), {"parts": parts.pop()}
    if not puts_back(SPLIT_REDUCTION, without, kernel.name, parameters):
        raise EditRefused("the sum would not be split again")
    return (
        Removable(
            lines=(loop.line, atomics[0].line),
            locus="loop",
            says=f"{parameters['parts']} programs that share one sum",
            source=without,
            parameters=parameters,
        ),
    )


def _shared_loop(kernel: JitKernel) -> tuple[Loop, int, str]:
    """(loop, axis, block) of `range(pid(axis) * B, K, num_programs(axis) * B)`."""
    ids = program_ids(kernel)
    for loop in kernel.loops:
        start, step = kernel.flow.resolve(loop.start), kernel.flow.resolve(loop.step)
        match start, step:
            case (
                ast.BinOp(left=first, op=ast.Mult(), right=ast.Name(id=block)),
                ast.BinOp(left=many, op=ast.Mult(), right=ast.Name(id=again)),
            ) if block == again:
                pass
            case _:
                continue
        program, count = kernel.flow.resolve(first), kernel.flow.resolve(many)
        for axis, calls in ids.items():
            if calls == [program] and kernel.names.op(count) == "num_programs":
                if axis != max(ids) or len(kernel.calls("num_programs")) != 1:
                    raise EditRefused("the axis of the parts does more, or is not the last")
                return loop, axis, block
    raise EditRefused("no loop is shared by several programs")


def _drop_axis(splice: Splice, grid: Grid, axis: int) -> Parameter:
    """Take the last axis out of a grid; how many parts it had."""
    if axis != len(grid.extents) - 1 or axis == 0:
        raise EditRefused("the grid does not end with the axis of the parts")
    parts = literal(grid.extents[axis])
    if not isinstance(parts, int):
        raise EditRefused("the number of parts is computed")
    kept = [splice.text(extent) for extent in grid.extents[:axis]]
    splice.replace(grid.tuple, f"({', '.join(kept)}{',' if len(kept) == 1 else ''})")
    return parts


def _leave_unset(splice: Splice, kernel: JitKernel, launch: LaunchSite, base: str) -> None:
    """The output needs no zeros when it is stored to instead of added to."""
    source = splice.source
    flow = source.host_flow(launch.scope)
    made = None if flow is None else flow.resolve(launch.argument(kernel, base))
    name = source.names.dotted(made.func) if isinstance(made, ast.Call) else ""
    if not isinstance(made, ast.Call) or name not in _EMPTY:
        raise EditRefused(f"line {launch.line}: the output is not made by torch.zeros beside it")
    splice.replace(made.func, spelled(source, _EMPTY[name]))


# Rows of a program.


def _rows(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    loop, rows = _row_loop(kernel)
    given = parameter_sites(source, kernel, rows)
    if len(given.values) != 1 or given.computed:
        raise EditRefused(f"the value of `{rows}` is not written out")
    if loop.node is not kernel.node.body[-1]:
        raise EditRefused(f"work follows the loop of line {loop.line}")
    splice = Splice(source)
    splice.unwrap(loop.node, f"{loop.variable} = {spelled(source, 'tl.program_id')}(0)")
    for launch in source.launches_of(kernel.name):
        _undivided(splice, kernel, launch, rows)
    # The header is unwrapped whole; a name that only it read goes with it.
    for name in sorted({rows, *names_in(loop.stop)} & _plain(kernel)):
        if not _read_beside(kernel, loop, name):
            _drop(splice, source, kernel, name)
    without, parameters = splice.result(), {"rows": given.values[0]}
    if not puts_back(ROWS_PER_PROGRAM, without, kernel.name, parameters):
        raise EditRefused("the rows would not be gathered again")
    return (
        Removable(
            lines=(loop.line,),
            locus="grid",
            says=f"{given.values[0]} rows to a program",
            source=without,
            parameters=parameters,
        ),
    )


def _row_loop(kernel: JitKernel) -> tuple[Loop, str]:
    """(loop, rows) of `range(pid * ROWS, min(pid * ROWS + ROWS, total))`, outermost."""
    calls = program_ids(kernel)
    for loop in kernel.loops:
        match kernel.flow.resolve(loop.start):
            case ast.BinOp(left=program, op=ast.Mult(), right=ast.Name(id=rows)) if (
                rows in kernel.constexprs and loop.depth == 0 and loop.step is None
            ):
                pass
            case _:
                continue
        named = kernel.flow.resolve(program) in calls.get(0, [])
        stop = kernel.flow.resolve(loop.stop)
        least = isinstance(stop, ast.Call) and kernel.names.op(stop) == "minimum"
        if named and least and set(calls) == {0} and rows in kernel.flow.reaches(stop):
            return loop, rows
    raise EditRefused("no loop goes through neighbouring rows of one program")


def _plain(kernel: JitKernel) -> set[str]:
    return {parameter.name for parameter in kernel.parameters}


def _read_beside(kernel: JitKernel, loop: Loop, name: str) -> bool:
    header = {id(n) for n in ast.walk(loop.node.iter)} if isinstance(loop.node, ast.For) else set()
    return any(
        isinstance(n, ast.Name) and n.id == name and id(n) not in header
        for s in kernel.node.body
        for n in ast.walk(s)
    )


def _drop(splice: Splice, source: Source, kernel: JitKernel, name: str) -> None:
    for launch in source.launches_of(kernel.name):
        if launch.keyword(name) is None and launch.argument(kernel, name) is not None:
            return
    splice.drop_parameter(kernel, name)
    for launch in source.launches_of(kernel.name):
        splice.drop_keyword(launch.call, name)


def _undivided(splice: Splice, kernel: JitKernel, launch: LaunchSite, rows: str) -> None:
    grid = grid_of(splice.source, launch)
    given = launch.argument(kernel, rows)
    match grid.extents:
        case [ast.Call(args=[every, by]) as extent] if (
            splice.source.names.dotted(extent.func) == "triton.cdiv"
        ):
            named = isinstance(by, ast.Subscript) and literal(by.slice) == rows
            if named or (given is not None and ast.dump(by) == ast.dump(given)):
                splice.replace(extent, splice.text(every))
                return
        case _:
            pass
    raise EditRefused(f"the grid of line {launch.line} does not divide by `{rows}`")


# Configurations.


def _tuned(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    PICK_CONFIG.find(source, kernel)
    configs = source.configs(kernel)
    without = PICK_CONFIG.apply(source.text, kernel.name, {"config": 0}).source
    stages = [literal(c.options["num_stages"]) for c in configs if "num_stages" in c.options]
    deepest = max((s for s in stages if isinstance(s, int)), default=4)
    parameters: dict[str, Parameter] = {"stages": min(max(deepest, 2), 6)}
    if not puts_back(AUTOTUNE, without, kernel.name, parameters):
        raise EditRefused("the autotuner would not be put back")
    return (
        Removable(
            lines=tuple(sorted({c.call.lineno for c in configs})),
            locus="launch",
            says=f"{len(configs)} configurations to choose from",
            source=without,
            parameters=parameters,
        ),
    )


SPLIT_SUM = Inverse(
    category="split-reduction",
    edit=SPLIT_REDUCTION.id,
    says="one program for a whole sum, where several shared it",
    find=_split,
)
ROWS_TOGETHER = Inverse(
    category="rows-per-program",
    edit=ROWS_PER_PROGRAM.id,
    says="a program for every row, where one took several in turn",
    find=_rows,
)
AUTOTUNED = Inverse(
    category="autotuned-options",
    edit=AUTOTUNE.id,
    says="the first configuration alone, where an autotuner chose",
    find=_tuned,
)
