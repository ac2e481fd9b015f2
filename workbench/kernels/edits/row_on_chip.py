"""Holds a whole row on the chip: loops that each walk the row become one pass over it."""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.blocks import in_grid
from workbench.kernels.edits.dead import drop_unused_local
from workbench.kernels.edits.launch_options import put_options
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.share_loads import share_loads
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import Access, JitKernel, Loop


@dataclass(frozen=True, eq=False)
class Passes:
    """Loops of a kernel's top level that each walk the same dimension in the same blocks."""

    dimension: str
    """The parameter that holds its length."""
    block: str
    loops: tuple[Loop, ...]


def walk(kernel: JitKernel, loop: Loop) -> tuple[str, str] | None:
    """(dimension, block) of a loop over a dimension in blocks, from its start; else None.

    `range(0, N, BLOCK)`, or `range(tl.cdiv(N, BLOCK))` with the variable counting blocks.
    """
    zero = isinstance(loop.start, ast.Constant) and loop.start.value == 0
    if not zero or not loop.variable or loop.kind not in {"range", "tl.range"}:
        return None
    match loop.stop, loop.step:
        case ast.Name(id=dimension), ast.Name(id=block):
            pass
        case stop, None:
            match kernel.flow.resolve(stop):
                case ast.Call(args=[ast.Name(id=dimension), ast.Name(id=block)]) as call if (
                    kernel.names.op(call) == "cdiv"
                ):
                    pass
                case _:
                    return None
        case _:
            return None
    known = kernel.parameter(dimension) is not None and block in kernel.blocks
    return (dimension, block) if known else None


def passes(kernel: JitKernel) -> Passes:
    """The loops that walk one row several times. Raises EditRefused when there are none."""
    groups: dict[tuple[str, str], list[Loop]] = {}
    top = set(kernel.node.body)
    for loop in kernel.loops:
        found = walk(kernel, loop) if loop.node in top else None
        if found is not None:
            groups.setdefault(found, []).append(loop)
    for (dimension, block), loops in groups.items():
        if len(loops) > 1 and _rereads(kernel, loops):
            return Passes(dimension, block, tuple(loops))
    raise EditRefused("no two loops walk the same dimension of the same argument")


def _rereads(kernel: JitKernel, loops: list[Loop]) -> bool:
    read = [{a.base for a in kernel.loads if loop in a.loops and a.base} for loop in loops]
    return any(read[i] & read[j] for i in range(len(read)) for j in range(i))


def check_passes(kernel: JitKernel, found: Passes) -> None:
    """Refuse loops whose bodies could not be told apart from one pass over a whole block."""
    if in_grid(kernel, found.block):
        raise EditRefused(f"programs stand `{found.block}` apart: they share a row")
    nodes = {loop.node for loop in found.loops}
    for loop in kernel.loops:
        if loop.node not in nodes and found.block in names_in(loop.node):
            raise EditRefused(f"the loop of line {loop.line} uses `{found.block}` otherwise")
    for loop in found.loops:
        check_straight(loop)
        for access in kernel.accesses:
            if loop in access.loops:
                _check_masked(kernel, access, loop, found)
        if any(loop in kernel.loops_of(dot) for dot in kernel.dots):
            raise EditRefused(f"the loop of line {loop.line} holds a product")


def check_straight(loop: Loop) -> None:
    """Refuse a loop that ends early or skips."""
    for node in ast.walk(loop.node):
        if isinstance(node, ast.Break | ast.Continue | ast.Return):
            raise EditRefused(f"line {node.lineno} leaves the loop early")


def _check_masked(kernel: JitKernel, access: Access, loop: Loop, found: Passes) -> None:
    """Refuse an access that moves with the loop and has no mask that ends at the dimension."""
    if loop.variable not in kernel.flow.reaches(access.pointer):
        return
    for owner, conjunct in kernel.masks():
        bound = kernel.bound(conjunct) if owner is access else None
        if bound is not None and bound[0] == found.dimension:
            return
    raise EditRefused(f"line {access.line} has no mask that ends at `{found.dimension}`")


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = passes(kernel)
    check_passes(kernel, found)
    return anchored(source, kernel, found)


def anchored(source: Source, kernel: JitKernel, found: Passes) -> tuple[Anchor, ...]:
    """The loops of the passes. Raises EditRefused where a launch does not tell the row's length."""
    for launch in source.launches_of(kernel.name):
        row_length(source, kernel, launch, found)
    return (
        Anchor(
            lines=tuple(loop.line for loop in found.loops),
            says=f"{len(found.loops)} loops over {found.dimension} in blocks of {found.block}",
        ),
    )


def row_length(source: Source, kernel: JitKernel, launch: LaunchSite, found: Passes) -> ast.expr:
    """What the launch passes for the row's length."""
    given = launch.argument(kernel, found.dimension)
    if given is None or launch.starred:
        raise EditRefused(f"line {launch.line} does not show what `{found.dimension}` is")
    if source.autotuned(kernel) or found.block in source.heuristics(kernel):
        raise EditRefused(f"`{found.block}` is chosen by the autotuner or by heuristics")
    return given


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    found = passes(kernel)
    check_passes(kernel, found)
    splice = Splice(source)
    for launch in source.launches_of(kernel.name):
        _feed_whole_row(splice, kernel, launch, found)
    warps = int(parameters["num_warps"])
    if warps:
        put_options(splice, kernel, {"num_warps": warps})
    for loop in found.loops:
        unroll_once(splice, kernel, loop)
    return share_loads(splice.result(), kernel.name)


def _feed_whole_row(splice: Splice, kernel: JitKernel, launch: LaunchSite, found: Passes) -> None:
    """Make the block the next power of two that holds the row."""
    power = spelled(splice.source, "triton.next_power_of_2")
    length = row_length(splice.source, kernel, launch, found)
    text = f"{power}({splice.text(length)})"
    given = launch.argument(kernel, found.block)
    if given is None:
        splice.set_keyword(launch.call, found.block, text)
        return
    splice.replace(given, text)
    drop_unused_local(splice, launch, given)


def unroll_once(splice: Splice, kernel: JitKernel, loop: Loop) -> None:
    """Keep a loop's body for its first iteration only, where the variable is zero."""
    uses = [
        n
        for s in loop.node.body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and n.id == loop.variable
    ]
    sums = [_zero_term(kernel, use) for use in uses]
    if None in sums or len({id(s[0]) for s in sums if s}) != len(sums):
        splice.unwrap(loop.node, f"{loop.variable} = 0")
        return
    splice.unwrap(loop.node)
    for found in sums:
        if found is not None:
            total, rest = found
            text = splice.text(rest)
            plain = isinstance(
                rest, ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.Constant | ast.BinOp
            )
            splice.replace(total, text if plain else f"({text})")


def _zero_term(kernel: JitKernel, use: ast.Name) -> tuple[ast.BinOp, ast.expr] | None:
    """(sum, rest) where a name, or a multiple of it, is a term of the sum; else None."""
    term: ast.expr = use
    holder = kernel.parents[use]
    if isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.Mult):
        term, holder = holder, kernel.parents[holder]
    if isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.Add):
        return holder, holder.right if holder.left is term else holder.left
    return None


ROW_ON_CHIP = Edit(
    id="row-on-chip",
    says="make the block as wide as the row, read the row once, and reuse it in every later step",
    parameters=(
        EditParameter(
            name="num_warps",
            says="warps per program for the wider block; 0 leaves them as they are",
            kind="int",
            default=0,
            grid=(8, 16, 4, 32),
        ),
    ),
    find=_find,
    change=_change,
)
