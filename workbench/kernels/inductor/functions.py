"""Which plain Triton stands for Inductor's helper functions: a candidate may not depend on them."""

import ast
import inspect
import re
from collections.abc import Iterable

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
}
"""Calls that become an expression of their arguments."""

OURS = {
    "select_one": """
@triton.jit
def select_one(x, mask, dim, keep_dims=False):
    return tl.sum(tl.where(mask, x, 0), dim, keep_dims=keep_dims)
"""
} | {
    f"{which}_with_index": f"""
@triton.jit
def {which}_with_index(value, index, dim):
    best = tl.{which}(value, dim, keep_dims=True)
    places = tl.where((value == best) | (value != value), index, 0x7FFFFFFF)
    return tl.{which}(value, dim), tl.min(places, dim)
"""
    for which in ("max", "min")
}
"""What Inductor reduces with a function of its own, by reductions that Triton knows."""

_LIBRARY = re.compile(r"\b(?:libdevice|tl_math|math|triton_helpers)\.\w+$")


def plain_call(call: ast.Call) -> str | None:
    """The text that stands for a call into a library; None when it is plain Triton already."""
    name = ast.unparse(call.func)
    if not _LIBRARY.match(name):
        return None
    values = [ast.unparse(arg) for arg in call.args]
    if name in _CALLS:
        return _CALLS[name].format(*values, *(ast.unparse(k.value) for k in call.keywords))
    arguments = ", ".join([*values, *(ast.unparse(keyword) for keyword in call.keywords)])
    library, function = name.rsplit(".", 1)
    if library == "triton_helpers":
        return f"{function}({arguments})"
    if function in _IN_TRITON:
        return f"{_IN_TRITON[function]}({arguments})"
    return None if library == "libdevice" else f"libdevice.{function}({arguments})"


def is_library_call(node: ast.AST) -> bool:
    """Whether `plain_call` has something else for it."""
    return isinstance(node, ast.Call) and plain_call(node) is not None


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
