"""How fp32 operands of a matrix product are rounded on their way to the tensor cores."""

import ast

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel

_KNOWN = ("ieee", "bf16x6", "tf32x3", "bf16x3", "tf32")
"""Triton's `input_precision`, from the closest to fp32 on."""


def _stated(dot: ast.Call) -> str:
    """What a product says of its precision; empty when it says nothing that can be read."""
    for keyword in dot.keywords:
        match keyword.arg, keyword.value:
            case "input_precision", ast.Constant(value=str(value)):
                return value
            case "allow_tf32", ast.Constant(value=bool(value)):
                return "tf32" if value else "ieee"
            case _:
                pass
    return ""


def _products(source: Source, kernel: JitKernel) -> list[ast.Call]:
    """`tl.dot` in the kernel and in the jit functions that it calls."""
    found: dict[str, JitKernel] = {}
    ahead = [kernel]
    while ahead:
        current = ahead.pop()
        if current.name not in found:
            found[current.name] = current
            ahead += [k for n in sorted(current.helpers) if (k := source.kernel(n)) is not None]
    return [d for k in found.values() for d in k.calls("dot")]


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    dots = _products(source, kernel)
    if not dots:
        raise EditRefused("the kernel has no matrix product")
    stated = {_stated(d) for d in dots}
    said = stated.pop() if len(stated) == 1 else ""
    return (
        Anchor(
            lines=tuple(sorted({d.lineno for d in dots})),
            says=f"{len(dots)} products, input precision {said or 'not stated alike'}",
            current={"precision": said} if said else {},
        ),
    )


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    precision = str(parameters["precision"])
    if precision not in _KNOWN:
        raise EditRefused(f"`{precision}` is not one of {', '.join(_KNOWN)}")
    splice = Splice(source)
    dots = _products(source, kernel)
    if not dots:
        raise EditRefused("the kernel has no matrix product")
    for dot in dots:
        old = next((k for k in dot.keywords if k.arg == "allow_tf32"), None)
        if old is None:
            splice.set_keyword(dot, "input_precision", f'"{precision}"')
        else:
            splice.replace(old, f'input_precision="{precision}"')
    return splice.result()


DOT_PRECISION = Edit(
    id="dot-precision",
    says="multiply fp32 operands on the tensor cores, in one, three or six rounded products",
    parameters=(
        EditParameter(
            name="precision",
            says="ieee, bf16x6 (six bf16 products) or tf32x3 (three), both nearly fp32, bf16x3"
            " (three, of 16-bit mantissas) or tf32 (one, of 10 bits)",
            kind="text",
            default="tf32x3",
            grid=("tf32x3", "bf16x3", "bf16x6", "tf32"),
        ),
    ),
    find=_find,
    change=_change,
)
