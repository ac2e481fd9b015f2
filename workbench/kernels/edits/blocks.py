"""Block sizes: which compile-time parameters tile the work, and setting them where they are fed."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from workbench.kernels.edits.base import (
    Anchor,
    Edit,
    EditParameter,
    EditRefused,
    Parameter,
)
from workbench.kernels.edits.sites import Given, feeding, follow, literal, parameter_sites
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel, Loop

_LARGEST = 65536
"""Elements of one dimension of a block that are worth trying; more never fits a program."""


def tiled(kernel: JitKernel, block: str) -> bool:
    """Whether blocks of that extent are laid side by side, so that any size covers the work.

    An extent that covers a dimension alone (`tl.arange(0, HEAD_DIM)` and no more) is not tiled: a
    smaller one would leave elements out.
    """
    arranged = [c for c in kernel.calls("arange") if block in names_in(c)]
    if not arranged:
        stepped = any(_strides(loop, block) for loop in kernel.loops)
        return stepped or any(_is_product(kernel, p, block) for p in _coordinates(kernel))
    return all(_placed(kernel, c, block) for c in arranged)


def _coordinates(kernel: JitKernel) -> Iterator[ast.expr]:
    """Where blocks begin that descriptors move, a number an axis."""
    for access in kernel.accesses:
        places = access.call.args[0] if access.call.args else None
        if kernel.by_descriptor(access) and isinstance(places, ast.List | ast.Tuple):
            yield from places.elts


def _placed(kernel: JitKernel, arange: ast.Call, block: str) -> bool:
    """Whether an arange is moved along by multiples of its extent."""
    holder: ast.AST = arange
    while isinstance(kernel.parents[holder], ast.BinOp | ast.Subscript | ast.Call):
        holder = kernel.parents[holder]
        if isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.Add):
            other = holder.right if _holds(holder.left, arange) else holder.left
            if _steps(kernel, other, block):
                return True
    return _advanced(kernel, block)


def _holds(node: ast.AST, wanted: ast.AST) -> bool:
    return any(inner is wanted for inner in ast.walk(node))


def _steps(kernel: JitKernel, offset: ast.expr, block: str) -> bool:
    """Whether an offset moves in multiples of the block: `pid * BLOCK`, or a loop of that step."""
    if _is_product(kernel, offset, block):
        return True
    for name in kernel.flow.reaches(offset):
        if any(_strides(loop, block) for loop in kernel.loops if loop.variable == name):
            return True
        for definition in kernel.flow.definitions.get(name, []):
            if definition.value is not None and _is_product(kernel, definition.value, block):
                return True
    return False


def _strides(loop: Loop, block: str) -> bool:
    return loop.step is not None and block in names_in(loop.step)


def _is_product(kernel: JitKernel, node: ast.expr, block: str) -> bool:
    """Whether some part is `x * BLOCK` with an x that moves between programs or iterations."""
    for part in ast.walk(node):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult):
            sides = part.left, part.right
            for factor, other in (sides, sides[::-1]):
                is_block = isinstance(factor, ast.Name) and factor.id == block
                if is_block and moves(kernel, other):
                    return True
    return False


def moves(kernel: JitKernel, node: ast.expr) -> bool:
    """Whether an expression depends on the program's place or on a loop's variable."""
    reached = kernel.flow.reaches(node)
    return any(loop.variable in reached for loop in kernel.loops) or by_program(kernel, node)


def by_program(kernel: JitKernel, node: ast.expr) -> bool:
    """Whether an expression depends on the program's place in the grid."""
    roots: list[ast.expr | None] = [node]
    for name in kernel.flow.reaches(node):
        roots += [d.value for d in kernel.flow.definitions.get(name, [])]
    return any(
        kernel.names.op(inner) == "program_id"
        for root in roots
        if root is not None
        for inner in ast.walk(root)
    )


def _advanced(kernel: JitKernel, block: str) -> bool:
    """Whether pointers are advanced by the block, or a loop counts in it."""
    for definitions in kernel.flow.definitions.values():
        for definition in definitions:
            if definition.how == "augment" and block in kernel.flow.reaches(definition.value):
                return True
    return any(
        block in names_in(call) for loop in kernel.loops for call in _cdivs(kernel, loop.stop)
    )


def _cdivs(kernel: JitKernel, node: ast.expr | None) -> list[ast.Call]:
    behind = kernel.flow.resolve(node)
    if behind is None:
        return []
    return [
        inner
        for inner in ast.walk(behind)
        if isinstance(inner, ast.Call) and kernel.names.op(inner) == "cdiv"
    ]


def in_grid(kernel: JitKernel, block: str) -> bool:
    """Whether programs stand a block apart: a program id is multiplied by it."""
    for node in ast.walk(kernel.node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = node.left, node.right
            for factor, other in (sides, sides[::-1]):
                is_block = isinstance(factor, ast.Name) and factor.id == block
                loops = {loop.variable for loop in kernel.loops}
                if is_block and moves(kernel, other) and not kernel.flow.reaches(other) & loops:
                    return True
    return False


def tunable(source: Source, kernel: JitKernel) -> dict[str, Given]:
    """Block parameters that an edit can set, with where their values come from."""
    found = {}
    for block in kernel.blocks:
        try:
            found[block] = settable(source, kernel, block)
        except EditRefused:
            continue
    return found


@lru_cache(maxsize=256)
def settable(source: Source, kernel: JitKernel, block: str) -> Given:
    """Where a block's value is written out. Raises EditRefused when it cannot be changed alone."""
    if block not in kernel.blocks:
        raise EditRefused(f"`{block}` is not the extent of a block of `{kernel.name}`")
    if not tiled(kernel, block):
        raise EditRefused(f"`{block}` covers a dimension alone; another size would not")
    given = parameter_sites(source, kernel, block)
    if given.computed or not given.sites:
        raise EditRefused(f"the value of `{block}` is computed, not written out")
    if any(not isinstance(v, int) or isinstance(v, bool) for v in given.values):
        raise EditRefused(f"the value of `{block}` is not a whole number")
    for launch in source.launches_of(kernel.name):
        _check_host(source, kernel, launch, block, given)
    return given


def _check_host(
    source: Source, kernel: JitKernel, launch: LaunchSite, block: str, given: Given
) -> None:
    """Refuse when the grid or another argument repeats the value without following its name."""
    ours = {site.node for site in given.sites}
    arguments = [*launch.call.args, *(k.value for k in launch.call.keywords)]
    plain = {a: n for a in arguments if (n := _written(source, a, launch)) is not None}
    # A value that another parameter is given as it stands is that parameter's own.
    named = ours | set(plain.values())
    computed = [a for a in arguments if a not in plain]
    follows = False
    for root in (launch.grid, *computed):
        for part in feeding(source, root, launch.scope):
            follows = follows or (root is launch.grid and _reads(part, block, ours))
            for node in ast.walk(part):
                if not isinstance(node, ast.Constant) or node in named or node.value in {1, 2}:
                    continue
                if node.value in given.values:
                    raise EditRefused(
                        f"line {node.lineno} repeats the value of `{block}`; give it a name first"
                    )
    if in_grid(kernel, block) and not follows:
        raise EditRefused(f"the grid of line {launch.line} does not follow `{block}`")


def _written(source: Source, argument: ast.expr, launch: LaunchSite) -> ast.expr | None:
    """Where an argument's value is written out; None when it is worked out from something."""
    try:
        site = follow(source, argument, launch.scope)
    except EditRefused:
        return None
    return site.node if site.value is not None else None


def _reads(part: ast.expr, block: str, ours: set[ast.expr]) -> bool:
    """Whether a part of the grid is our value, or asks the launch for it by name."""
    if part in ours:
        return True
    return any(
        isinstance(node, ast.Subscript) and literal(node.slice) == block for node in ast.walk(part)
    ) or any(node in ours for node in ast.walk(part))


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    return tuple(
        Anchor(
            lines=tuple(sorted({site.node.lineno for site in given.sites})),
            says=f"{block} = {', '.join(map(str, given.values))}",
            parameters={"block": block},
            current={"value": given.values[0]} if len(given.values) == 1 else {},
        )
        for block, given in tunable(source, kernel).items()
    )


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    block, value = str(parameters["block"]), int(parameters["value"])
    if value < 1 or value & (value - 1) or value > _LARGEST:
        raise EditRefused(f"{value} is not a power of two up to {_LARGEST}")
    given = settable(source, kernel, block)
    splice = Splice(source)
    for site in given.sites:
        splice.replace(site.node, str(value))
    return splice.result()


BLOCK_SIZE = Edit(
    id="block-size",
    says="give a block dimension another size, where its value is written",
    parameters=(
        EditParameter(
            name="block", says="the compile-time parameter", kind="text", default="BLOCK"
        ),
        EditParameter(
            name="value",
            says="elements along that dimension, a power of two",
            kind="int",
            default=128,
            grid=(32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
        ),
    ),
    find=_find,
    change=_change,
)
