"""Splits a long reduction over several programs, which add their parts with atomics."""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.grids import Grid, grid_of
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.order import program_ids
from workbench.kernels.edits.row_on_chip import check_straight
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import Access, JitKernel, Loop, argument

_ZEROED = {
    "torch.empty": "zeros",
    "torch.empty_like": "zeros_like",
    "torch.zeros": "zeros",
    "torch.zeros_like": "zeros_like",
}


@dataclass(frozen=True, eq=False)
class Reduction:
    """A loop that only adds up, and the one store of what it added."""

    loop: Loop
    store: Access
    axis: int
    """The grid axis that is free."""
    outputs: tuple[tuple[LaunchSite, Grid, ast.Call], ...]
    """Each launch with its grid and the call that makes the output tensor."""


def reduction(source: Source, kernel: JitKernel) -> Reduction:
    """The one loop that adds up. Raises EditRefused for a kernel of another form."""
    top = [loop for loop in kernel.loops if loop.depth == 0]
    if len(top) != 1 or top[0].node not in kernel.node.body:
        raise EditRefused("the kernel is not one loop that adds up")
    loop = top[0]
    check_straight(loop)
    if loop.kind not in {"range", "tl.range"} or loop.step is None or not loop.variable:
        raise EditRefused("the loop does not step through its dimension in blocks")
    if not isinstance(loop.start, ast.Constant) or loop.start.value != 0:
        raise EditRefused("the loop does not start at zero")
    carried = _carried(kernel, loop)
    stores = [a for a in kernel.accesses if a.kind != "load"]
    if len(stores) != 1 or stores[0].kind != "store" or stores[0].loops:
        raise EditRefused("the kernel does not store exactly once, after its loop")
    store = stores[0]
    _check_linear(kernel, store.value, carried)
    axes = set(program_ids(kernel))
    if -1 in axes or len(axes) > 2 or axes != set(range(len(axes))):
        raise EditRefused("no axis of the grid is free")
    outputs = tuple(_output(source, kernel, s, store) for s in source.launches_of(kernel.name))
    if not outputs or any(len(grid.extents) != len(axes) for _, grid, _ in outputs):
        raise EditRefused("the grid does not have the axes that the kernel asks for")
    return Reduction(loop, store, len(axes), outputs)


def _carried(kernel: JitKernel, loop: Loop) -> frozenset[str]:
    """Names that the loop adds to. Raises EditRefused when it carries anything else along."""
    sums: set[str] = set()
    set_anew: set[str] = set()
    for statement in loop.node.body:
        match statement:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if (
                name not in names_in(value)
            ):
                sums.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if (
                kernel.names.op(call) == "dot" and _accumulates(call, name)
            ):
                sums.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                early = (names_in(value) & kernel.flow.assigned_in(loop.node.body)) - set_anew
                if early:
                    raise EditRefused(f"`{min(early)}` goes from one iteration to the next")
                set_anew.add(name)
            case _:
                raise EditRefused(f"line {statement.lineno} does more than add up")
    for name in sorted(sums):
        _check_starts_at_zero(kernel, loop, name)
    if not sums:
        raise EditRefused("the loop adds nothing up")
    return frozenset(sums)


def _accumulates(dot: ast.Call, name: str) -> bool:
    accumulator = argument(dot, 2, "acc")
    return isinstance(accumulator, ast.Name) and accumulator.id == name


def _check_starts_at_zero(kernel: JitKernel, loop: Loop, name: str) -> None:
    inside = set(loop.node.body)
    starts = [d for d in kernel.flow.definitions[name] if d.statement not in inside]
    match starts:
        case [start] if start.how == "assign":
            zero = isinstance(start.value, ast.Constant) and start.value.value == 0
            if zero or kernel.names.op(start.value) == "zeros":
                return
        case _:
            pass
    raise EditRefused(f"`{name}` does not start at zero, or changes after the loop")


def _check_linear(kernel: JitKernel, node: ast.expr | None, sums: frozenset[str]) -> None:
    """Refuse when the stored value is more than the sum itself, summed further or cast."""
    match node:
        case ast.Name(id=name) if name in sums:
            return
        case ast.Name():
            behind = kernel.flow.resolve(node)
            if behind is not node:
                _check_linear(kernel, behind, sums)
                return
        case ast.Call(func=ast.Attribute(value=inner, attr="to")):
            _check_linear(kernel, inner, sums)
            return
        case ast.Call() if kernel.names.op(node) == "sum":
            _check_linear(kernel, argument(node, 0, "input"), sums)
            return
        case _:
            pass
    raise EditRefused("what is stored is more than the sum of the loop")


def _output(
    source: Source, kernel: JitKernel, launch: LaunchSite, store: Access
) -> tuple[LaunchSite, Grid, ast.Call]:
    """The call that allocates what the kernel stores to."""
    given = launch.argument(kernel, store.base) if store.base else None
    flow = source.host_flow(launch.scope)
    made = None if flow is None else flow.resolve(given)
    if not isinstance(made, ast.Call) or source.names.dotted(made.func) not in _ZEROED:
        raise EditRefused(f"line {launch.line}: the output is not made by torch.empty beside it")
    return launch, grid_of(source, launch), made


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = reduction(source, kernel)
    return (
        Anchor(
            lines=(found.loop.line, found.store.line),
            says=f"the loop of line {found.loop.line}, added up and stored once",
        ),
    )


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    parts = int(parameters["parts"])
    if not 2 <= parts <= 1024:
        raise EditRefused(f"{parts} parts are not from 2 to 1024")
    found = reduction(source, kernel)
    splice = Splice(source)
    step, start = found.loop.step, found.loop.start
    if step is None or start is None:
        raise EditRefused("the loop does not step through its dimension in blocks")
    width = splice.text(step) if isinstance(step, ast.Name) else f"({splice.text(step)})"
    program, programs = spelled(source, "tl.program_id"), spelled(source, "tl.num_programs")
    splice.replace(start, f"{program}({found.axis}) * {width}")
    splice.replace(step, f"{programs}({found.axis}) * {width}")
    splice.replace(found.store.call.func, spelled(source, "tl.atomic_add"))
    for keyword in ("eviction_policy", "cache_modifier", "boundary_check"):
        if found.store.option(keyword) is not None:
            splice.drop_keyword(found.store.call, keyword)
    for made in {id(made): made for _, _, made in found.outputs}.values():
        name = _ZEROED[source.names.dotted(made.func)]
        splice.replace(made.func, spelled(source, f"torch.{name}"))
    for _, grid, _ in found.outputs:
        splice.append_item(grid.tuple, str(parts))
    return splice.result()


SPLIT_REDUCTION = Edit(
    id="split-reduction",
    says="let several programs share one long sum and add their parts with atomics",
    parameters=(
        EditParameter(
            name="parts",
            says="programs that share one sum",
            kind="int",
            default=4,
            grid=(4, 8, 2, 16),
        ),
    ),
    find=_find,
    change=_change,
)
