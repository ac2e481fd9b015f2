"""How a kernel uses a program id, and what of that differs between neighbouring programs."""

import ast
from dataclasses import dataclass, field

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.blocks import in_grid
from workbench.kernels.edits.grids import Grid, grid_of
from workbench.kernels.edits.order import program_ids
from workbench.kernels.edits.ranks import is_elementwise, rank
from workbench.kernels.edits.sites import literal
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel, argument

REDUCING = frozenset({"sum", "max", "min"})
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
class Uses:
    """What has to change, found before anything is changed."""

    axis: int
    uses: dict[str, list[_Use]] = field(default_factory=dict)
    """Uses by the name that holds the id; the empty name stands for the calls themselves."""
    divisors: list[str] = field(default_factory=list)
    launches: list[tuple[LaunchSite, Grid]] = field(default_factory=list)


def uses_of(source: Source, kernel: JitKernel, axis: int) -> Uses:
    """How the program ids of one axis are used. Raises EditRefused for another form."""
    _check_form(kernel)
    found = Uses(axis)
    ahead: list[tuple[str, list[ast.expr]]] = [("", list(program_ids(kernel).get(axis, [])))]
    while ahead:
        name, reads = ahead.pop()
        uses = [_use(kernel, read) for read in reads]
        found.uses[name] = uses
        for use in uses:
            if use.how != "plain":
                found.divisors.append(_divisor(use.whole))
            name_held = "" if use.how == "quotient" else held(kernel, use.whole)
            if name_held and name_held not in found.uses:
                ahead.append((name_held, list(kernel.reads(name_held))))
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
    if op in REDUCING:
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


def held(kernel: JitKernel, whole: ast.expr) -> str:
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


def _grid(source: Source, kernel: JitKernel, launch: LaunchSite, found: Uses) -> Grid:
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


def _check_moves(kernel: JitKernel, found: Uses) -> None:
    """Refuse unless every store moves with the id, and no loop bound does."""
    if any(in_grid(kernel, block) and _by(kernel, block, found) for block in kernel.blocks):
        raise EditRefused(f"axis {found.axis} of the grid counts blocks, not rows")
    moving = moving_names(kernel, found)
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


def _by(kernel: JitKernel, block: str, found: Uses) -> bool:
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


def moving_names(kernel: JitKernel, found: Uses) -> frozenset[str]:
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


def _direct(node: ast.expr, moving: set[str] | frozenset[str], found: Uses) -> bool:
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
