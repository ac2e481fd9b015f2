"""Prefix sums: element by element, or in one parallel scan.

The plain form adds each element to all places from its own on. A scan takes a logarithmic number of
steps (Blelloch, Prefix Sums and Their Applications, 1990).
"""

import ast

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.forms import Match
from workbench.kernels.edits.rewrites import Rewrite
from workbench.kernels.edits.sites import literal, parameter_sites
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel

_LONGEST = 256
"""Longest range, in elements, that is summed element by element (ours)."""


def _places(splice: Splice, kernel: JitKernel, found: Match) -> dict[str, str]:
    """The range that numbers the elements, and its length.

    The summed values must be made from this `arange` alone: sums over several ranges or over a
    block of two dimensions are refused, and so are long ones, whose loop would take the interpreter
    minutes. Raises EditRefused.
    """
    values = found.expressions["VALUES"]
    reached = sorted({*names_in(values), *kernel.flow.reaches(values)})
    made = {name: kernel.flow.single(name) for name in reached}
    lengths: dict[str, ast.expr] = {}
    for node in (n for one in (values, *made.values()) if one is not None for n in ast.walk(one)):
        match node:
            case ast.Call(args=[ast.Constant(value=0), length]) if _is_range(kernel, node):
                lengths[splice.text(length)] = length
            case ast.Call() if _is_range(kernel, node):
                raise EditRefused(f"the range of line {node.lineno} does not begin with 0")
            case _:
                pass
    named = [name for name, one in made.items() if _is_range(kernel, one)]
    if len(lengths) != 1 or not named:
        raise EditRefused("what is added up is not made from one range that has a name")
    ((text, length),) = lengths.items()
    if not all(value <= _LONGEST for value in _values(splice.source, kernel, length)):
        raise EditRefused(f"a range of more than {_LONGEST} is long to go through one by one")
    return {"places": named[0], "SIZE": text}


def _values(source: Source, kernel: JitKernel, length: ast.expr) -> list[int]:
    """The possible values of a length. Raises EditRefused if they are not written out."""
    values = [literal(length)]
    if isinstance(length, ast.Name):
        given = parameter_sites(source, kernel, length.id)
        values = [] if given.computed else list(given.values)
    found = [value for value in values if isinstance(value, int)]
    if not found or len(found) < len(values):
        raise EditRefused("the length of the range is not written out")
    return found


def _is_range(kernel: JitKernel, node: ast.AST | None) -> bool:
    return kernel.names.op(node) == "arange"


PREFIX_SCAN = Rewrite(
    edit="scan-prefixes",
    says="add up all prefixes in one parallel scan, not element by element",
    plain="""
running = tl.zeros_like(VALUES)
for i in range(SIZE):
    running += tl.where(places >= i, tl.sum(tl.where(places == i, VALUES, 0), axis=0), 0)
""",
    fast="""
running = tl.cumsum(VALUES, axis=0)
""",
    plainly=_places,
    every=True,
)
