"""What the compiler may know of dimensions: constants for arguments, offsets that never wrap."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.even import Pair, add_flags, check_passed
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel


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


@dataclass(frozen=True, eq=False)
class _Wrapped:
    """`(pid * BLOCK + tl.arange(0, BLOCK)) % DIMENSION`, maybe behind a name."""

    node: ast.BinOp
    pair: Pair
    start: ast.expr
    """`pid * BLOCK`: a multiple of the block."""
    arange: ast.expr


def _wrapped(kernel: JitKernel) -> list[_Wrapped]:
    """Blocks that wrap only between two of them where the dimension is a multiple of the block."""
    found = []
    for node in (n for s in kernel.node.body for n in ast.walk(s)):
        match node:
            case ast.BinOp(left=left, op=ast.Mod(), right=ast.Name(id=dimension)) if (
                dimension in kernel.flow.parameters
                and dimension not in kernel.flow.definitions
                and not _stated(kernel, node)
            ):
                found += [_Wrapped(node, (dimension, *of), *at) for of, at in _begun(kernel, left)]
            case _:
                pass
    return found


def _stated(kernel: JitKernel, node: ast.expr) -> bool:
    """Whether it is what remains for dimensions that are not even."""
    holder = kernel.parents[node]
    return isinstance(holder, ast.IfExp) and holder.orelse is node


def _begun(
    kernel: JitKernel, offsets: ast.expr
) -> Iterator[tuple[tuple[str], tuple[ast.expr, ast.expr]]]:
    """The block of `start + tl.arange(0, BLOCK)` with its two summands, if it begins evenly.

    Behind a name, the summands must still mean what they meant where it was bound.
    """
    match kernel.flow.resolve(offsets):
        case ast.BinOp(left=left, op=ast.Add(), right=right) as whole:
            pass
        case _:
            return
    for start, arange in ((left, right), (right, left)):
        match kernel.flow.arange(arange), kernel.flow.resolve(start):
            case ast.Name(id=block), ast.BinOp(left=one, op=ast.Mult(), right=other) if (
                block in kernel.constexprs
                and any(isinstance(n, ast.Name) and n.id == block for n in (one, other))
                and (whole is offsets or _lasting(kernel, start))
            ):
                yield (block,), (start, arange)
            case _:
                pass


def _lasting(kernel: JitKernel, node: ast.expr) -> bool:
    """Whether every name of an expression has one meaning from its binding on."""
    flow = kernel.flow
    return all(
        flow.single(name) is not None or name not in flow.definitions for name in names_in(node)
    )


def _find_wrapped(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _wrapped(kernel)
    if not found:
        raise EditRefused("no block of offsets is wrapped at a dimension")
    check_passed(source, kernel, (one.pair for one in found))
    lines = tuple(sorted({one.node.lineno for one in found}))
    return (Anchor(lines=lines, says=f"{len(found)} blocks of offsets wrapped with %"),)


def _change_wrapped(source: Source, kernel: JitKernel, _: dict[str, Parameter]) -> str:
    _find_wrapped(source, kernel)
    found = _wrapped(kernel)
    splice = Splice(source)
    flags = add_flags(splice, kernel, (one.pair for one in found))
    hint = spelled(source, "tl.max_contiguous"), spelled(source, "tl.multiple_of")
    for one in found:
        (dimension, block), start = one.pair, splice.text(one.start)
        begun = start if isinstance(one.start, ast.Name) else f"({start})"
        plain = f"{begun} % {dimension} + {splice.text(one.arange)}"
        hinted = f"{hint[0]}({hint[1]}({plain}, {block}), {block})"
        splice.replace(one.node, f"({hinted} if {flags[one.pair]} else {splice.text(one.node)})")
    return splice.result()


CONSTANT_DIMENSIONS = Edit(
    id="constant-dimensions",
    says="compile for the shape at hand: pass dimensions as compile-time constants",
    find=_find_constants,
    change=_change_constants,
)
CONTIGUOUS_OFFSETS = Edit(
    id="contiguous-offsets",
    says="wrap where a block of offsets begins, not each of them, where the dimension is even",
    find=_find_wrapped,
    change=_change_wrapped,
)
