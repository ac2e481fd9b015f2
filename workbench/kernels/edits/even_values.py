"""Values beyond the end of a dimension: replaced only where a block really ends beyond it.

`scores = tl.where(keys < L, scores, -inf)` does nothing where L is a multiple of the block; a flag
that `triton.heuristics` computes leaves it out there.
"""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.even import Pair, add_flags, check_passed
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import JitKernel, Loop


@dataclass(frozen=True, eq=False)
class _Guard:
    """`value = tl.where(index < dimension, value, other)` in a loop over the dimension."""

    statement: ast.Assign
    pair: Pair


def _guards(source: Source, kernel: JitKernel) -> list[_Guard]:
    found = []
    for loop in kernel.loops:
        for statement in loop.node.body:
            pair = _guarded(kernel, loop, statement)
            if pair is not None and isinstance(statement, ast.Assign):
                found.append(_Guard(statement, pair))
    if not found:
        raise EditRefused("no loop replaces what lies beyond the end of its dimension")
    check_passed(source, kernel, [g.pair for g in found])
    return found


def _guarded(kernel: JitKernel, loop: Loop, statement: ast.stmt) -> Pair | None:
    match statement, loop.stop, loop.step, loop.start:
        case (
            ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(args=[ast.Compare() as test, ast.Name(id=same), _]) as call,
            ),
            ast.Name(id=dimension),
            ast.Name(id=block),
            ast.Constant(value=0),
        ) if name == same and kernel.names.op(call) == "where" and block in kernel.constexprs:
            bound = kernel.bound(test)
        case _:
            return None
    # The index walks with the loop, a block at a time.
    if bound is None or bound[0] != dimension:
        return None
    reached = kernel.flow.reaches(bound[1]) | names_in(bound[1])
    return (dimension, block) if {loop.variable, block} <= reached else None


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _guards(source, kernel)
    lines = tuple(g.statement.lineno for g in found)
    return (Anchor(lines=lines, says=f"values beyond the end of {found[0].pair[0]}"),)


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    found, splice = _guards(source, kernel), Splice(source)
    flags = add_flags(splice, kernel, [g.pair for g in found])
    for guard in found:
        text = splice.text(guard.statement)
        splice.replace_statement(guard.statement, f"if not {flags[guard.pair]}:", f"    {text}")
    return splice.result()


EVEN_VALUES = Edit(
    id="even-values",
    says="leave out what replaces values beyond a dimension's end where its blocks end with it",
    find=_find,
    change=_change,
)
