"""Mechanisms of loads: moved in front of a loop, or stated to be contiguous; taken back."""

import ast

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.hints import OFFSET_HINTS
from workbench.kernels.edits.hoist import HOIST_LOADS
from workbench.kernels.edits.splice import Splice
from workbench.kernels.inverses.base import Inverse, Removable, puts_back
from workbench.kernels.source import Source
from workbench.kernels.source_flow import reads_of
from workbench.kernels.source_kernel import Access, JitKernel, Loop

_HINTS = ("multiple_of", "max_contiguous", "max_constancy")


def _hoisted(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    splice = Splice(source)
    moved: list[Access] = []
    for access in kernel.loads:
        loop = _served(kernel, access)
        if loop is None:
            continue
        statement = kernel.statement(access.call)
        splice.insert_before(loop.node.body[0], splice.text(statement))
        splice.remove(statement)
        moved.append(access)
    if not moved:
        raise EditRefused("no load in front of a loop serves that loop alone")
    without = splice.result()
    if not puts_back(HOIST_LOADS, without, kernel.name, {}):
        raise EditRefused("the load would not come out of the loop again")
    return (
        Removable(
            lines=tuple(a.line for a in moved),
            locus="loads",
            says=f"{', '.join(a.base for a in moved)} loaded in front of the loop",
            source=without,
        ),
    )


def _served(kernel: JitKernel, access: Access) -> Loop | None:
    """The one loop that reads what a load in front of it gives to a name; else None."""
    statement = kernel.statement(access.call)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if statement.lineno == statement.end_lineno:
            pass
        case _:
            return None
    if kernel.flow.single(name) is None or not access.base or kernel.by_descriptor(access):
        return None
    around = len(access.loops)
    loops = {kernel.loops_of(read)[around : around + 1] for read in reads_of(name, kernel.node)}
    if len(loops) != 1 or not (found := loops.pop()):
        return None
    loop = found[0]
    written = {a.base for a in kernel.accesses if a.kind != "load" and loop in a.loops}
    changed = kernel.flow.assigned_in(loop.node.body) | {loop.variable}
    still = not kernel.flow.reaches(statement.value) & changed
    beside = kernel.parents[loop.node] is kernel.parents[statement]
    return loop if still and beside and access.base not in written and "" not in written else None


def _hinted(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    calls = kernel.calls(*_HINTS)
    outer = [c for c in calls if kernel.names.op(kernel.parents[c]) not in _HINTS]
    if not outer:
        raise EditRefused("no offset is hinted at")
    splice = Splice(source)
    for call in outer:
        inner: ast.expr = call
        while isinstance(inner, ast.Call) and kernel.names.op(inner) in _HINTS and inner.args:
            inner = inner.args[0]
        if isinstance(kernel.parents[call], ast.Assign) or not isinstance(inner, ast.BinOp):
            splice.replace(call, splice.text(inner))
        else:
            splice.replace_atom(call, f"({splice.text(inner)})")
    without = splice.result()
    if not puts_back(OFFSET_HINTS, without, kernel.name, {}):
        raise EditRefused("the hints are not about blocks of offsets")
    return (
        Removable(
            lines=tuple(sorted({c.lineno for c in outer})),
            locus="offsets",
            says=f"{len(outer)} hints on offsets",
            source=without,
        ),
    )


HOISTED_LOADS = Inverse(
    category="hoisted-loads",
    edit=HOIST_LOADS.id,
    says="a load that every iteration repeats, where one in front of the loop served all",
    find=_hoisted,
)
OFFSET_HINT = Inverse(
    category="offset-hints",
    edit=OFFSET_HINTS.id,
    says="offsets whose order the compiler has to find out",
    find=_hinted,
)
