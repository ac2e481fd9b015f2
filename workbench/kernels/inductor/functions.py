"""Which plain Triton stands for the functions of libdevice and of Inductor's own helper library.

Triton's interpreter has no libdevice, and a candidate may not lean on Inductor.
"""

import ast
import inspect
import re
from collections.abc import Iterable

from workbench.kernels.inductor.records import LiftRefused

_IN_TRITON = {
    "abs": "tl.abs",
    "ceil": "tl.ceil",
    "cos": "tl.cos",
    "erf": "tl.erf",
    "exp": "tl.exp",
    "exp2": "tl.exp2",
    "floor": "tl.floor",
    "fma": "tl.fma",
    "log": "tl.log",
    "log2": "tl.log2",
    "rsqrt": "tl.rsqrt",
    "sin": "tl.sin",
    "sqrt": "tl.sqrt_rn",
}

_CALLS = {
    "triton_helpers.maximum": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "triton_helpers.minimum": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "triton_helpers.max2": "tl.max({0}, {1})",
    "triton_helpers.min2": "tl.min({0}, {1})",
    "triton_helpers.any": "(tl.max(({0}).to(tl.int32), {1}) != 0)",
    "libdevice.isnan": "(({0}) != ({0}))",
    "libdevice.isinf": "(tl.abs({0}) == float('inf'))",
    "libdevice.signbit": "(({0}).to(tl.int32, bitcast=True) < 0)",
}
"""Calls that become an expression of their arguments."""

OURS = {
    "tanh": """
@triton.jit
def tanh(x):
    # Near 0 the quotient of exponentials has no digits left: the polynomial of Cephes' tanhf.
    z = x * x
    p = -5.70498872745e-3 * z + 2.06390887954e-2
    p = (p * z - 5.37397155531e-2) * z + 1.33314422036e-1
    small = (p * z - 3.33332819422e-1) * z * x + x
    large = 1.0 - 2.0 / (tl.exp(2.0 * tl.abs(x)) + 1.0)
    return tl.where(tl.abs(x) < 0.625, small, tl.where(x < 0, -large, large))
""",
    "expm1": """
@triton.jit
def expm1(x):
    # Taylor below 0.35, where exp(x) - 1 would cancel; its next term is under half an ulp.
    p = x * (1.0 / 5040.0) + 1.0 / 720.0
    p = ((p * x + 1.0 / 120.0) * x + 1.0 / 24.0) * x + 1.0 / 6.0
    small = ((p * x + 0.5) * x) * x + x
    return tl.where(tl.abs(x) < 0.35, small, tl.exp(x) - 1.0)
""",
    "log1p": """
@triton.jit
def log1p(x):
    # Near 0, 2 artanh(x / (2 + x)) by its series: log(1 + x) would lose the digits of x.
    s = x / (2.0 + x)
    z = s * s
    series = ((z * (1.0 / 9.0) + 1.0 / 7.0) * z + 1.0 / 5.0) * z + 1.0 / 3.0
    near = 2.0 * s * (series * z + 1.0)
    return tl.where((x > -0.29) & (x < 0.41), near, tl.log(1.0 + x))
""",
    "pow": """
@triton.jit
def pow(x, y):
    size = tl.exp2(y * tl.log2(tl.abs(x)))
    whole = tl.floor(y) == y
    odd = whole & (tl.floor(y * 0.5) * 2.0 != y)
    size = tl.where(x == 0.0, tl.where(y < 0.0, float("inf"), 0.0), size)
    signed = tl.where(odd, -size, size)
    signed = tl.where((x < 0.0) & (whole == 0), float("nan"), tl.where(x < 0.0, signed, size))
    return tl.where(y == 0.0, 1.0, signed)
""",
    "trunc": """
@triton.jit
def trunc(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))
""",
    "nearbyint": """
@triton.jit
def nearbyint(x):
    # Adding 1.5 * 2**23 leaves no room for a fraction; the hardware rounds it half to even.
    return tl.where(tl.abs(x) < 4194304.0, (x + 12582912.0) - 12582912.0, x)
""",
}
"""fp32 functions that `triton.language` lacks, within a few ulp."""

_LIBRARY = re.compile(r"\b(?:libdevice|tl_math|math|triton_helpers)\.\w+$")


def plain_call(name: str, arguments: list[str]) -> str | None:
    """The text that stands for the call `name(arguments)`; None when it is plain Triton already.

    Raises LiftRefused for a function that nothing here stands for.
    """
    if not _LIBRARY.match(name):
        return None
    if name in _CALLS:
        return _CALLS[name].format(*arguments)
    library, function = name.rsplit(".", 1)
    if library == "triton_helpers":
        return f"{function}({', '.join(arguments)})"
    if function in _IN_TRITON:
        return f"{_IN_TRITON[function]}({', '.join(arguments)})"
    if function in OURS:
        return f"{function}({', '.join(arguments)})"
    raise LiftRefused(f"its kernel calls {name}, which Triton's interpreter cannot run")


def library_functions() -> dict[str, str]:
    """Name to text of Inductor's helper functions, decorator included."""
    from torch._inductor.runtime import triton_helpers

    text = inspect.getsource(triton_helpers)
    return {
        node.name: "@triton.jit\n" + (ast.get_source_segment(text, node) or "")
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(decorator) == "triton.jit" for decorator in node.decorator_list)
    }


def called(text: str) -> list[str]:
    """Plain names that the text calls or passes on, in order of appearance."""
    return [n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)]


def needed(texts: Iterable[str], known: dict[str, str]) -> list[str]:
    """Names in `known` that `texts` need, what they need themselves first."""
    ordered: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in known and name not in ordered:
            for inner in called(known[name]):
                if inner != name:
                    visit(inner)
            ordered[name] = None

    for text in texts:
        for name in called(text):
            visit(name)
    return list(ordered)
