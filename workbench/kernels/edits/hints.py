"""States what the compiler may not see: that a block of offsets is contiguous and begins evenly."""

import ast

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.row_on_chip import walk
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel, Loop


def _offsets(kernel: JitKernel) -> list[tuple[ast.BinOp, str]]:
    """`x * BLOCK + tl.arange(0, BLOCK)`, and the same behind a loop that steps by the block."""
    walked = {(loop.variable, step) for loop in kernel.loops if (step := _step(kernel, loop))}
    found = []
    for node in (n for s in kernel.node.body for n in ast.walk(s)):
        match node:
            case ast.BinOp(left=first, op=ast.Add(), right=arange):
                extent = kernel.flow.arange(arange)
            case _:
                continue
        if not isinstance(extent, ast.Name) or extent.id not in kernel.constexprs:
            continue
        match first:
            case ast.Name(id=name) if (name, extent.id) in walked:
                found.append((node, extent.id))
            case ast.BinOp(op=ast.Mult(), right=ast.Name(id=block)) if block == extent.id:
                found.append((node, block))
            case _:
                pass
    return [(n, b) for n, b in found if not _hinted(kernel, n)]


def _step(kernel: JitKernel, loop: Loop) -> str:
    """The block that a loop from zero steps by; empty for another loop."""
    found = walk(kernel, loop) if loop.step is not None else None
    return "" if found is None else found[1]


def _hinted(kernel: JitKernel, node: ast.AST) -> bool:
    return kernel.names.op(kernel.parents[node]) in {"multiple_of", "max_contiguous"}


def _find(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _offsets(kernel)
    if not found:
        raise EditRefused("no block of offsets begins at a multiple of its own extent")
    lines = tuple(sorted({node.lineno for node, _ in found}))
    return (Anchor(lines=lines, says=f"{len(found)} blocks of offsets"),)


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    _find(source, kernel)
    splice = Splice(source)
    contiguous, multiple = spelled(source, "tl.max_contiguous"), spelled(source, "tl.multiple_of")
    for node, block in _offsets(kernel):
        splice.replace(node, f"{contiguous}({multiple}({splice.text(node)}, {block}), {block})")
    return splice.result()


OFFSET_HINTS = Edit(
    id="offset-hints",
    says="state that a block of offsets is contiguous and begins at a multiple of its extent",
    find=_find,
    change=_change,
)
