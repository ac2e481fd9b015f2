"""Divides once where a block is divided by one number: multiplies by the reciprocal instead.

A product with a rounded reciprocal differs from the quotient by at most one more rounding
(N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.4).
"""

import ast

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel

_REDUCING = frozenset({"sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum"})


def _is_block(kernel: JitKernel, node: ast.AST) -> bool:
    """Whether a value has as many elements as a block: it depends on a block unreduced."""
    seen: set[str] = set()
    ahead: list[ast.AST] = [node]
    while ahead:
        current = ahead.pop()
        op = kernel.names.op(current)
        if op in _REDUCING:
            continue
        if op in {"arange", "zeros", "full"}:
            return True
        if isinstance(current, ast.Name) and current.id not in seen:
            seen.add(current.id)
            ahead += [
                d.value
                for d in kernel.flow.definitions.get(current.id, [])
                if d.value is not None and d.how != "loop"
            ]
        ahead += ast.iter_child_nodes(current)
    return False


def _quotients(kernel: JitKernel) -> list[ast.BinOp]:
    """Divisions of a block by what has fewer elements, worth one reciprocal."""
    found = []
    for node in (n for s in kernel.node.body for n in ast.walk(s)):
        match node:
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                plain = isinstance(right, ast.Name | ast.Subscript)
                constant = isinstance(left, ast.Constant)
                if plain and not constant and _is_block(kernel, left) and _fewer(kernel, right):
                    found.append(node)
            case _:
                pass
    return found


def _fewer(kernel: JitKernel, divisor: ast.expr) -> bool:
    """One number, or a column or row that is spread over a block: `total[:, None]`."""
    return isinstance(divisor, ast.Subscript) or not _is_block(kernel, divisor)


def _find(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _quotients(kernel)
    if not found:
        raise EditRefused("no block is divided by one number")
    lines = tuple(sorted({n.lineno for n in found}))
    return (Anchor(lines=lines, says=f"{len(found)} divisions of a block by one number"),)


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    found = _quotients(kernel)
    if not found:
        raise EditRefused("no block is divided by one number")
    splice = Splice(source)
    for node in found:
        splice.replace_operator(node, "*")
        splice.replace(node.right, f"(1.0 / {splice.text(node.right)})")
    return splice.result()


DIVIDE_ONCE = Edit(
    id="divide-once",
    says="multiply a block by the reciprocal of a number instead of dividing every element",
    find=_find,
    change=_change,
)
