"""Masks that were dropped, put back: accesses that any size of a dimension can bear."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.kernels.edits.base import EditRefused, Parameter
from workbench.kernels.edits.grids import grid_of
from workbench.kernels.edits.masks import DROP_MASKS
from workbench.kernels.edits.splice import Splice
from workbench.kernels.inverses.base import Inverse, Removable, puts_back
from workbench.kernels.inverses.flags import drop_flags
from workbench.kernels.source import LaunchSite, Source, read_source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import Access, JitKernel


def _unmasked(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    flagged = [a for a in kernel.accesses if isinstance(a.mask, ast.IfExp)]
    lines = {a.line for a in flagged}
    splice = Splice(source)
    if flagged:
        _without_flags(splice, kernel, flagged)
        says = f"masks of {len(flagged)} accesses under compile-time flags"
    else:
        bare = list(_bare(source, kernel))
        lines = {access.line for access, _ in bare}
        for access, parts in bare:
            _put_mask(splice, access, parts)
        says = f"{len(bare)} accesses without the masks that a block's end needs"
    if not lines:
        raise EditRefused("no access goes without the mask that its block needs")
    without = splice.result()
    for parameters in _forward(without, kernel.name, lines):
        if puts_back(DROP_MASKS, without, kernel.name, parameters):
            return (
                Removable(
                    lines=tuple(sorted(lines)),
                    locus="masks",
                    says=says,
                    source=without,
                    parameters=parameters,
                ),
            )
    raise EditRefused("the masks would not come off again")


def _forward(text: str, name: str, lines: set[int]) -> Iterator[dict[str, Parameter]]:
    """Ways forward: the dimension whose masks are those that were put back, then all of them."""
    kernel = read_source(text).kernel(name)
    if kernel is None:
        return
    for anchor in DROP_MASKS.anchors(text, name):
        if len(anchor.lines) == len(lines) and anchor.parameters["dimension"] != "*":
            yield dict(anchor.parameters)
    yield {"dimension": "*"}


def _without_flags(splice: Splice, kernel: JitKernel, flagged: list[Access]) -> None:
    """Masks as they are where the flags are false, and no flag that nothing reads."""
    flags: set[str] = set()
    for access in flagged:
        for node in (access.mask, access.other):
            if isinstance(node, ast.IfExp):
                if not (isinstance(node.body, ast.Constant) and node.body.value is None):
                    raise EditRefused(f"line {access.line} chooses between two masks")
                flags |= names_in(node.test)
                splice.replace(node, splice.text(node.orelse))
    ours = {id(n) for a in flagged for node in (a.mask, a.other) if node for n in ast.walk(node)}
    for read in (n for s in kernel.node.body for n in ast.walk(s)):
        if isinstance(read, ast.Name) and read.id in flags and id(read) not in ours:
            flags.discard(read.id)
    drop_flags(splice, kernel, flags)


@dataclass(frozen=True, eq=False)
class _End:
    """An index of an address and the dimension that it must not leave."""

    text: str
    """The index as it stands in the address: `rows[:, None]`."""
    dimension: str


def _bare(source: Source, kernel: JitKernel) -> Iterator[tuple[Access, list[_End]]]:
    """Accesses without a mask, with the ends that the kernel's parameters know."""
    for access in kernel.accesses:
        if access.mask is None and not kernel.by_descriptor(access):
            ends = list(_ends(source, kernel, access))
            if ends:
                yield access, ends


def _ends(source: Source, kernel: JitKernel, access: Access) -> Iterator[_End]:
    seen: set[str] = set()
    for node in _index_terms(kernel, access.pointer):
        name = node if isinstance(node, ast.Name) else node.value
        if not isinstance(name, ast.Name):
            continue
        dimension = _dimension(source, kernel, kernel.flow.known(name.id))
        text = ast.unparse(node)
        if dimension and text not in seen:
            seen.add(text)
            yield _End(text, dimension)


def _index_terms(kernel: JitKernel, pointer: ast.expr) -> Iterator[ast.Name | ast.Subscript]:
    """Names and `name[:, None]` of an address, also behind names that hold parts of it."""
    ahead: list[ast.AST] = [pointer]
    while ahead:
        node = ahead.pop(0)
        if isinstance(node, ast.Name):
            behind = kernel.flow.known(node.id)
            is_sum = isinstance(behind, ast.BinOp)
            extents = kernel.flow.arange(behind.right) if isinstance(behind, ast.BinOp) else None
            if is_sum and extents is None and behind is not None:
                ahead.append(behind)
            elif extents is not None:
                yield node
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            yield node
        else:
            ahead += ast.iter_child_nodes(node)


def _dimension(source: Source, kernel: JitKernel, index: ast.expr | None) -> str:
    """The parameter that bounds `first + tl.arange(0, BLOCK)`; empty where none is known."""
    match index:
        case ast.BinOp(left=first, op=ast.Add(), right=arange):
            extent = kernel.flow.arange(arange)
        case _:
            return ""
    if not isinstance(extent, ast.Name) or extent.id not in kernel.constexprs:
        return ""
    match first:
        case ast.Name(id=name):
            return _of_loop(kernel, name, extent.id)
        case ast.BinOp(left=ast.Call() | ast.Name(), op=ast.Mult(), right=ast.Name(id=block)) if (
            block == extent.id
        ):
            return _of_grid(source, kernel, first, block)
        case _:
            return ""


def _of_loop(kernel: JitKernel, variable: str, block: str) -> str:
    """The parameter N of `for variable in range(_, N, BLOCK)`."""
    for loop in kernel.loops:
        match loop.stop, loop.step:
            case ast.Name(id=stop), ast.Name(id=step) if (
                loop.variable == variable and step == block
            ):
                plain = kernel.parameter(stop)
                return stop if plain is not None and not plain.constexpr else ""
            case _:
                pass
    return ""


def _of_grid(source: Source, kernel: JitKernel, first: ast.BinOp, block: str) -> str:
    """The parameter N of a grid axis `cdiv(N, BLOCK)` whose program id is multiplied by BLOCK."""
    call = kernel.flow.resolve(first.left)
    while (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and (call.func.attr == "to")
    ):
        call = kernel.flow.resolve(call.func.value)
    if not isinstance(call, ast.Call) or kernel.names.op(call) != "program_id":
        return ""
    axis = call.args[0] if call.args else None
    found = set()
    for launch in source.launches_of(kernel.name):
        extents = grid_of(source, launch).extents
        place = axis.value if isinstance(axis, ast.Constant) else None
        if not isinstance(place, int) or place >= len(extents):
            return ""
        found.add(_counted(source, kernel, launch, extents[place], block))
    return found.pop() if len(found) == 1 else ""


def _counted(
    source: Source, kernel: JitKernel, launch: LaunchSite, extent: ast.expr, block: str
) -> str:
    match extent:
        case ast.Call(args=[length, by]) if source.names.dotted(extent.func) == "triton.cdiv":
            pass
        case ast.BinOp(left=length, op=ast.FloorDiv(), right=by):
            pass
        case _:
            return ""
    given = launch.argument(kernel, block)
    named = isinstance(by, ast.Subscript) and ast.unparse(by.slice) == repr(block)
    if not named and (given is None or ast.dump(given) != ast.dump(by)):
        return ""
    for parameter in kernel.parameters:
        passed = launch.argument(kernel, parameter.name)
        same = passed is not None and ast.dump(passed) == ast.dump(length)
        if same and not parameter.constexpr:
            return parameter.name
    return ""


def _put_mask(splice: Splice, access: Access, ends: list[_End]) -> None:
    parts = [f"{end.text} < {end.dimension}" for end in ends]
    mask = parts[0] if len(parts) == 1 else " & ".join(f"({part})" for part in parts)
    splice.set_keyword(access.call, "mask", mask)
    if access.kind == "load" and access.other is None:
        # Never seen where the block divides the dimension, which the expert relies on.
        splice.set_keyword(access.call, "other", "0.0")


UNMASKED = Inverse(
    category="dropped-masks",
    edit=DROP_MASKS.id,
    says="masks at the ends of blocks, where the sizes made them needless",
    find=_unmasked,
)
