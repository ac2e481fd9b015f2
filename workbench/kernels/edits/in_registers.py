"""Keeps in registers what a loop reads from memory, changes and writes back in every iteration."""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.hoist import varying
from workbench.kernels.edits.naming import FreeNames
from workbench.kernels.edits.row_on_chip import check_straight
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import same
from workbench.kernels.source_kernel import Access, JitKernel, Loop


@dataclass(frozen=True, eq=False)
class _Update:
    """A load and a store of the same elements in one iteration of a loop."""

    loop: Loop
    load: Access
    store: Access


def _updates(kernel: JitKernel) -> list[_Update]:
    """Raises EditRefused where there are none."""
    reasons = ["no loop loads, changes and stores the same elements"]
    found = []
    for store in (a for a in kernel.stores if a.loops):
        try:
            found.append(_update(kernel, store))
        except EditRefused as refused:
            reasons.append(refused.why)
    if not found:
        raise EditRefused(reasons[-1])
    return found


def _update(kernel: JitKernel, store: Access) -> _Update:
    loop = store.loops[-1]
    inside = [a for a in kernel.accesses if loop in a.loops and a.base in {store.base, ""}]
    loads = [a for a in inside if a.kind == "load" and a.loops == store.loops]
    if len(inside) != 2 or len(loads) != 1 or loads[0].line > store.line or not store.base:
        raise EditRefused(f"line {store.line} does not store what one line of its loop loads")
    (load,) = loads
    if not same(load.pointer, store.pointer) or not same(load.mask, store.mask):
        raise EditRefused(f"line {store.line} does not store where line {load.line} loads")
    parts = [load.pointer, *(p for p in (load.mask, load.other) if p is not None)]
    bound = kernel.flow.assigned_in(loop.node.body) | varying(kernel, loop)
    if any(kernel.flow.reaches(part) & bound for part in parts):
        raise EditRefused(f"line {store.line} stores elsewhere in every iteration")
    statements = [kernel.statement(a.call) for a in (load, store)]
    if any(s not in loop.node.body for s in statements) or not isinstance(statements[1], ast.Expr):
        raise EditRefused(f"line {store.line} stores in a branch")
    check_straight(loop)
    return _Update(loop, load, store)


def _barrier_after(loop: Loop, store: ast.stmt) -> ast.stmt | None:
    """The barrier that made the store seen by all threads, where one follows it in the loop."""
    after = loop.node.body[loop.node.body.index(store) + 1 :]
    match after[:1]:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(attr="debug_barrier"))) as barrier]:
            return barrier
    return None


def _find(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _updates(kernel)
    lines = {line for u in found for line in (u.load.line, u.store.line)}
    bases = ", ".join(u.store.base for u in found)
    return (Anchor(lines=tuple(sorted(lines)), says=f"{bases} updated in memory by a loop"),)


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    splice, names = Splice(source), FreeNames(kernel)
    for update in _updates(kernel):
        load, store = update.load, update.store
        statement, value = kernel.statement(store.call), store.value
        texts = [splice.text(load.call), splice.text(statement)]
        if value is None or any("\n" in text for text in texts):
            raise EditRefused(f"the access of line {store.line} spans several lines")
        held = names.take("held")
        splice.insert_before(update.loop.node, f"{held} = {texts[0]}")
        splice.replace(load.call, held)
        inner = splice.text(value)
        tight = inner if isinstance(value, ast.Name | ast.Call) else f"({inner})"
        # Rounded as memory rounded it: the sums stay the same to the bit.
        kind = f"{store.base}.dtype.element_ty"
        cast = inner.replace(" ", "").endswith(f".to({kind})")
        splice.replace_statement(statement, f"{held} = {inner if cast else f'{tight}.to({kind})'}")
        splice.insert_after(update.loop.node, splice.text_with(statement, {value: held}))
        if (barrier := _barrier_after(update.loop, statement)) is not None:
            splice.remove(barrier)
    return splice.result()


IN_REGISTERS = Edit(
    id="in-registers",
    says="keep in registers what a loop reads, changes and writes back every time",
    find=_find,
    change=_change,
)
