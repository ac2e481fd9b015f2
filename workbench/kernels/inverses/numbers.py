"""Mechanisms of values: exponentials to the base 2, and ends of blocks that need no care."""

import ast

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.base_two import BASE_TWO, to_base_e
from workbench.kernels.edits.even_values import EVEN_VALUES
from workbench.kernels.edits.splice import Splice
from workbench.kernels.inverses.base import Inverse, Removable, puts_back
from workbench.kernels.inverses.flags import drop_flags
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel


def _base_two(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    without, lines = to_base_e(source, kernel)
    if not puts_back(BASE_TWO, without, kernel.name, {}):
        raise EditRefused("the exponentials would not be to the base 2 again")
    says = "exponentials to the base 2"
    return (Removable(lines=lines, locus="exponentials", says=says, source=without),)


def _even_values(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    splice = Splice(source)
    flags: set[str] = set()
    lines = []
    for node in (n for s in kernel.node.body for n in ast.walk(s)):
        match node:
            case ast.If(
                test=ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=flag)),
                body=[ast.Assign() as held],
                orelse=[],
            ) if flag in kernel.constexprs:
                splice.replace_statement(node, splice.text(held))
                flags.add(flag)
                lines.append(node.lineno)
            case _:
                pass
    if not flags:
        raise EditRefused("no value is replaced under a compile-time flag")
    kept = {
        n.id
        for s in kernel.node.body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and n.id in flags and n.lineno not in lines
    }
    drop_flags(splice, kernel, flags - kept)
    without = splice.result()
    if not puts_back(EVEN_VALUES, without, kernel.name, {}):
        raise EditRefused("the values would not be left out again")
    says = f"values beyond a block's end under {', '.join(sorted(flags))}"
    return (Removable(lines=tuple(lines), locus="values", says=says, source=without),)


POWERS_OF_TWO = Inverse(
    category="base-two",
    edit=BASE_TWO.id,
    says="exponentials to the base e, each with a product of its own",
    find=_base_two,
)
EVENLY_VALUED = Inverse(
    category="even-values",
    edit=EVEN_VALUES.id,
    says="values beyond a dimension's end replaced in every block",
    find=_even_values,
)
