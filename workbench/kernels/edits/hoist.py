"""Loads that a loop repeats without need: found, and moved in front of it."""

import ast

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import Access, JitKernel, Loop


def varying(kernel: JitKernel, loop: Loop) -> frozenset[str]:
    """Names that may hold another value in the next iteration of a loop."""
    bound = kernel.flow.assigned_in(loop.node.body)
    carried = {loop.variable} | {
        name
        for name in bound
        if any(
            d.how != "assign" or name in kernel.flow.reaches(d.value)
            for d in kernel.flow.definitions.get(name, [])
        )
    }
    return frozenset(carried | {name for name in bound if kernel.flow.closure(name) & carried})


def invariant_loads(kernel: JitKernel) -> tuple[Access, ...]:
    """Loads that give the same value in every iteration of their innermost loop."""
    changing = {
        loop: varying(kernel, loop) for loop in {a.loops[-1] for a in kernel.loads if a.loops}
    }
    return tuple(
        a for a in kernel.loads if a.loops and _is_invariant(kernel, a, changing[a.loops[-1]])
    )


def _is_invariant(kernel: JitKernel, access: Access, changing: frozenset[str]) -> bool:
    loop = access.loops[-1]
    # The whole call: a descriptor's offsets are not part of its pointer.
    if kernel.flow.reaches(access.call) & changing:
        return False
    written = {a.base for a in kernel.accesses if a.kind != "load" and loop in a.loops}
    return bool(access.base) and access.base not in written and "" not in written


def _movable(kernel: JitKernel, access: Access) -> ast.stmt | None:
    """The statement that may move in front of the loop whole, or None."""
    statement = kernel.statement(access.call)
    loop = access.loops[-1]
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            once = kernel.flow.single(name) is not None
            inside = kernel.flow.assigned_in(loop.node.body)
            apart = not kernel.flow.reaches(value) & inside
            return statement if once and apart and statement in loop.node.body else None
        case _:
            return None


def _find(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = [a for a in invariant_loads(kernel) if _movable(kernel, a) is not None]
    if not found:
        raise EditRefused("no load stands in a loop that it does not depend on")
    lines = tuple(sorted({a.line for a in found}))
    return (Anchor(lines=lines, says=f"{len(found)} loads repeat in their loop"),)


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    splice = Splice(source)
    moved: set[ast.stmt] = set()
    for access in invariant_loads(kernel):
        statement = _movable(kernel, access)
        if statement is None or statement in moved:
            continue
        moved.add(statement)
        if len(access.loops[-1].node.body) == 1:
            raise EditRefused(f"the loop of line {access.loops[-1].line} would be empty")
        text = splice.text(statement)
        if "\n" in text:
            raise EditRefused(f"the load of line {statement.lineno} spans several lines")
        splice.insert_before(access.loops[-1].node, text)
        splice.remove(statement)
    if not moved:
        raise EditRefused("no load stands in a loop that it does not depend on")
    return splice.result()


HOIST_LOADS = Edit(
    id="hoist-loads",
    says="load in front of a loop what every iteration loads again",
    find=_find,
    change=_change,
)
