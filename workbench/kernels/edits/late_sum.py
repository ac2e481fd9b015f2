"""Adds up a block element by element, and reduces it to one number once, behind the loop."""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.ranks import rank
from workbench.kernels.edits.row_on_chip import check_straight
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel, Loop, argument


@dataclass(frozen=True, eq=False)
class _Sum:
    """`total += tl.sum(value, axis=0)` in a loop of the kernel's body."""

    name: str
    call: ast.Call
    value: ast.expr
    block: str
    loop: Loop
    start: ast.expr
    """The zero above the loop."""


def _sums(kernel: JitKernel) -> list[_Sum]:
    found = []
    for loop in kernel.loops:
        if loop.node not in kernel.node.body:
            continue
        for statement in loop.node.body:
            match statement:
                case ast.AugAssign(
                    target=ast.Name(id=name), op=ast.Add(), value=ast.Call() as call
                ) if kernel.names.op(call) == "sum":
                    one = _sum(kernel, loop, name, call)
                    found += [] if one is None else [one]
                case _:
                    pass
    if not found:
        raise EditRefused("no loop reduces a block to one number in every iteration")
    for one in found:
        check_straight(one.loop)
    return found


def _sum(kernel: JitKernel, loop: Loop, name: str, call: ast.Call) -> _Sum | None:
    value, axis = argument(call, 0, "input"), argument(call, 1, "axis")
    whole = axis is None or (isinstance(axis, ast.Constant) and axis.value == 0)
    if value is None or not whole or len(call.args) + len(call.keywords) > 2:
        return None
    definitions = kernel.flow.definitions[name]
    starts = [d for d in definitions if d.statement not in loop.node.body]
    uses = sum(name in names_in(s) for s in loop.node.body)
    zero = len(starts) == 1 and starts[0].value
    is_zero = isinstance(zero, ast.Constant) and zero.value == 0
    if not is_zero or uses != 1 or len(definitions) != 2 or rank(kernel, value) != 1:
        return None
    match kernel.flow.aranges(value):
        case (ast.Name(id=block),) if isinstance(zero, ast.Constant):
            return _Sum(name, call, value, block, loop, zero)
        case _:
            return None


def _find(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _sums(kernel)
    lines = tuple(sorted({s.call.lineno for s in found}))
    return (Anchor(lines=lines, says=f"{', '.join(s.name for s in found)} reduced in a loop"),)


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    splice = Splice(source)
    zeros, kind = spelled(source, "tl.zeros"), spelled(source, "tl.float32")
    for one in _sums(kernel):
        splice.replace(one.start, f"{zeros}([{one.block}], dtype={kind})")
        splice.replace(one.call, splice.text(one.value))
        splice.insert_after(
            one.loop.node, f"{one.name} = {spelled(source, 'tl.sum')}({one.name}, axis=0)"
        )
    return splice.result()


LATE_SUM = Edit(
    id="late-sum",
    says="keep a block of partial sums in registers and reduce it once, behind the loop",
    find=_find,
    change=_change,
)
