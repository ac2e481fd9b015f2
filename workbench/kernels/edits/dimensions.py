"""What the compiler may know of dimensions: constants for arguments, offsets that never wrap."""

import ast

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.even import Pair, add_flags, check_passed
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.sites import feeding, literal
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import same
from workbench.kernels.source_kernel import JitKernel

_CDIV = frozenset({"triton.cdiv", "tl.cdiv"})


def plain_dimensions(kernel: JitKernel) -> list[str]:
    """Parameters that are surely whole numbers and not yet constants: bounds of masks and loops."""
    plain = {p.name for p in kernel.parameters if not p.constexpr and p.argument.annotation is None}
    found: set[str] = set()
    for _, conjunct in kernel.masks():
        match conjunct:
            case ast.Compare(comparators=[limit]):
                bases = {a.base for a in kernel.accesses}
                found |= (kernel.flow.reaches(limit) & plain) - bases
            case _:
                pass
    for loop in kernel.loops:
        for bound in (loop.start, loop.stop, loop.step):
            found |= kernel.flow.reaches(bound) & plain
    for node in ast.walk(kernel.node):
        match node:
            case ast.BinOp(op=ast.FloorDiv() | ast.Mod(), right=ast.Name(id=name)) if name in plain:
                found.add(name)
            case _:
                pass
    return sorted(found)


def _find_constants(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = plain_dimensions(kernel)
    if not found:
        raise EditRefused("no dimension is passed as a plain argument")
    if any(launch.starred for launch in source.launches_of(kernel.name)):
        raise EditRefused("a launch hides its arguments behind a star")
    return (Anchor(lines=(kernel.line,), says=f"{', '.join(found)} as compile-time constants"),)


def _change_constants(source: Source, kernel: JitKernel, _: dict[str, Parameter]) -> str:
    _find_constants(source, kernel)
    splice = Splice(source)
    constexpr = spelled(source, "tl.constexpr")
    for name in plain_dimensions(kernel):
        parameter = kernel.parameter(name)
        if parameter is not None:
            splice.replace(parameter.argument, f"{name}: {constexpr}")
    return splice.result()


def _wrapped(kernel: JitKernel) -> list[tuple[ast.BinOp, Pair]]:
    """`(pid * BLOCK + tl.arange(0, BLOCK)) % DIMENSION`, with the dimension and its block."""
    found = []
    for node in (n for s in kernel.node.body for n in ast.walk(s)):
        match node:
            case ast.BinOp(left=left, op=ast.Mod(), right=ast.Name(id=dimension)) if (
                dimension in kernel.flow.parameters
            ):
                match kernel.flow.aranges(left):
                    case (ast.Name(id=block),) if block in kernel.constexprs:
                        found.append((node, (dimension, block)))
                    case _:
                        pass
            case _:
                pass
    return found


def _check_covered(source: Source, kernel: JitKernel, launch: LaunchSite, pair: Pair) -> None:
    """Refuse unless the grid has exactly as many blocks as the dimension.

    Otherwise `%` may be one half of taking an index apart, which is not a wrap at all.
    """
    dimension, block = (launch.argument(kernel, name) for name in pair)
    for part in feeding(source, launch.grid, launch.scope):
        for node in ast.walk(part):
            match node:
                case ast.Call(args=[length, size]) if source.names.dotted(node.func) in _CDIV:
                    by_name = isinstance(size, ast.Subscript) and literal(size.slice) == pair[1]
                    if same(length, dimension) and (by_name or same(size, block)):
                        return
                case _:
                    pass
    raise EditRefused(f"the grid of line {launch.line} does not cover `{pair[0]}` in `{pair[1]}`")


def _find_wrapped(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _wrapped(kernel)
    if not found:
        raise EditRefused("no block of offsets is wrapped at a dimension")
    for launch in source.launches_of(kernel.name):
        for _, pair in found:
            _check_covered(source, kernel, launch, pair)
    check_passed(source, kernel, (pair for _, pair in found))
    lines = tuple(sorted({node.lineno for node, _ in found}))
    return (Anchor(lines=lines, says=f"{len(found)} blocks of offsets wrapped with %"),)


def _change_wrapped(source: Source, kernel: JitKernel, _: dict[str, Parameter]) -> str:
    _find_wrapped(source, kernel)
    found = _wrapped(kernel)
    splice = Splice(source)
    flags = add_flags(splice, kernel, (pair for _, pair in found))
    hint = spelled(source, "tl.max_contiguous"), spelled(source, "tl.multiple_of")
    for node, pair in found:
        whole, block = splice.text(node), pair[1]
        plain = f"{hint[0]}({hint[1]}({splice.text(node.left)}, {block}), {block})"
        splice.replace(node, f"({plain} if {flags[pair]} else {whole})")
    return splice.result()


CONSTANT_DIMENSIONS = Edit(
    id="constant-dimensions",
    says="compile for the shape at hand: pass dimensions as compile-time constants",
    find=_find_constants,
    change=_change_constants,
)
CONTIGUOUS_OFFSETS = Edit(
    id="contiguous-offsets",
    says="state that offsets are contiguous, and do not wrap them, where the dimension is even",
    find=_find_wrapped,
    change=_change_wrapped,
)
