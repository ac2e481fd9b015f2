"""Recognises the start value of a running maximum: minus infinity or the lowest float32."""

import ast

from workbench.kernels.edits.sites import literal
from workbench.kernels.source_kernel import JitKernel, argument

LOWEST_FLOAT32 = "-3.4028234663852886e38"
"""-(2 - 2**-23) * 2**127, written so that Triton still makes a float32 of it."""


def is_minus_infinity(node: ast.AST | None) -> bool:
    """Whether an expression is `float("-inf")` or `-float("inf")`."""
    match node:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="-inf")]):
            return True
        case ast.UnaryOp(
            op=ast.USub(),
            operand=ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="inf")]),
        ):
            return True
        case _:
            return False


def is_least(node: ast.AST | None) -> bool:
    """Whether an expression is minus infinity or the lowest finite float32."""
    return is_minus_infinity(node) or literal(node) == float(LOWEST_FLOAT32)


def filled_with(kernel: JitKernel, node: ast.AST | None) -> ast.expr | None:
    """The value in `tl.full(shape, value, dtype)`; None for anything else."""
    if isinstance(node, ast.Call) and kernel.names.op(node) == "full":
        return argument(node, 1, "value")
    return None
