"""Options of a loop: how its loads are pipelined, how far it is unrolled, whether it is flattened.

The options are those of `tl.range` (Triton 3.6 to 3.9).
"""

import ast
from collections.abc import Iterator

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel, Loop


def _ranged(kernel: JitKernel) -> list[Loop]:
    """Loops over a range that hold no other such loop, in the order of the text.

    Loops whose bounds are compile-time constants do not count: the compiler unrolls them itself.
    """
    constant = {id(loop.node) for loop in _constant(kernel)}
    ranges = [
        loop
        for loop in kernel.loops
        if loop.kind in {"range", "tl.range"} and id(loop.node) not in constant
    ]
    nodes = {id(loop.node) for loop in ranges}
    return [
        loop
        for loop in ranges
        if not any(id(n) in nodes for s in loop.node.body for n in ast.walk(s))
    ]


def _header(loop: Loop) -> ast.Call:
    node = loop.node
    if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
        raise EditRefused(f"the loop of line {loop.line} is not over a range")
    return node.iter


def _option(loop: Loop, name: str) -> ast.expr | None:
    return next((k.value for k in _header(loop).keywords if k.arg == name), None)


def _set(splice: Splice, loop: Loop, option: str, text: str) -> None:
    call = _header(loop)
    if loop.kind == "range":
        splice.replace(call.func, spelled(splice.source, "tl.range"))
    splice.set_keyword(call, option, text)


def _loads_in(kernel: JitKernel, loop: Loop) -> bool:
    return any(loop in a.loops for a in kernel.loads)


def _find_stages(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    loops = _staged(kernel)
    if not loops:
        raise EditRefused("no innermost loop over a range loads, and nothing that it may store")
    return tuple(_anchors(loops, "num_stages", "value"))


def _anchors(loops: list[Loop], option: str, parameter: str) -> Iterator[Anchor]:
    """All loops at once: they are passes over the same data more often than not."""
    said = {v.value for loop in loops if isinstance(v := _option(loop, option), ast.Constant)}
    current = said.pop() if len(said) == 1 and all(_option(x, option) for x in loops) else None
    yield Anchor(
        lines=tuple(loop.line for loop in loops),
        says=f"{len(loops)} loops" if len(loops) > 1 else f"the loop of line {loops[0].line}",
        current={parameter: current} if isinstance(current, int) else {},
    )


def _change_stages(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    stages = int(parameters["value"])
    if not 1 <= stages <= 16:
        raise EditRefused(f"{stages} stages are not from 1 to 16")
    _find_stages(source, kernel)
    splice = Splice(source)
    for loop in _staged(kernel):
        _set(splice, loop, "num_stages", str(stages))
    return splice.result()


def _staged(kernel: JitKernel) -> list[Loop]:
    """Innermost loops that load, and nothing that they may have stored: a pipelined load does not
    wait for the store of an earlier turn (`kernels.trace_ahead`).
    """
    return [
        loop
        for loop in _ranged(kernel)
        if _loads_in(kernel, loop) and not _stores_what_it_loads(kernel, loop)
    ]


def _stores_what_it_loads(kernel: JitKernel, loop: Loop) -> bool:
    inside = [access for access in kernel.accesses if loop in access.loops]
    loaded = {access.base for access in inside if access.kind == "load"}
    return any(a.base in loaded or not a.base for a in inside if a.kind != "load")


def _find_unroll(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    loops = _ranged(kernel)
    if not loops:
        raise EditRefused("no innermost loop runs over a range")
    return tuple(_anchors(loops, "loop_unroll_factor", "value"))


def _change_unroll(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    factor = int(parameters["value"])
    if not 1 <= factor <= 64:
        raise EditRefused(f"a factor of {factor} is not from 1 to 64")
    splice = Splice(source)
    for loop in _ranged(kernel):
        _set(splice, loop, "loop_unroll_factor", str(factor))
    return splice.result()


def _constant(kernel: JitKernel) -> list[Loop]:
    """Loops whose bounds are all known at compile time, and which are not unrolled yet."""
    known = set(kernel.constexprs)
    found = []
    for loop in kernel.loops:
        bounds = [b for b in (loop.start, loop.stop, loop.step) if b is not None]
        fixed = all(kernel.flow.reaches(b) <= known for b in bounds)
        if loop.kind == "range" and fixed and not any(isinstance(b, ast.Call) for b in bounds):
            found.append(loop)
    return found


def _find_static(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    loops = _constant(kernel)
    if not loops:
        raise EditRefused("no loop has bounds that are known at compile time")
    lines = tuple(loop.line for loop in loops)
    return (Anchor(lines=lines, says=f"{len(loops)} loops with constant bounds"),)


def _change_static(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    _find_static(source, kernel)
    splice = Splice(source)
    for loop in _constant(kernel):
        splice.replace(_header(loop).func, spelled(source, "tl.static_range"))
    return splice.result()


def _find_flatten(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    loops = _outer(kernel)
    if not loops:
        raise EditRefused("no loop over a range holds just one other loop")
    return tuple(_anchors(loops, "flatten", "_"))


def _outer(kernel: JitKernel) -> list[Loop]:
    """Loops over a range whose body holds exactly one loop."""
    found = []
    for loop in kernel.loops:
        inner = [n for s in loop.node.body for n in ast.walk(s) if isinstance(n, ast.For)]
        if loop.kind in {"range", "tl.range"} and len(inner) == 1:
            found.append(loop)
    return found


def _change_flatten(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    _find_flatten(source, kernel)
    splice = Splice(source)
    for loop in _outer(kernel):
        _set(splice, loop, "flatten", "True")
    return splice.result()


def _fed(kernel: JitKernel) -> list[Loop]:
    """Innermost loops whose products are fed by descriptors.

    On pointer loads the option brings the compiler of Triton 3.6 and 3.9 down for sm_90.
    """
    by_descriptor = [a for a in kernel.loads if kernel.by_descriptor(a)]
    multiplying = {id(x.node) for dot in kernel.dots for x in kernel.loops_of(dot)}
    return [
        loop
        for loop in _ranged(kernel)
        if id(loop.node) in multiplying
        and any(loop in a.loops for a in by_descriptor)
        and all(kernel.by_descriptor(a) for a in kernel.loads if loop in a.loops)
    ]


def _find_specialize(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    loops = _fed(kernel)
    if not loops:
        raise EditRefused("no loop of a product loads through descriptors alone")
    return tuple(_anchors(loops, "warp_specialize", "_"))


def _change_specialize(source: Source, kernel: JitKernel, _: dict[str, Parameter]) -> str:
    _find_specialize(source, kernel)
    splice = Splice(source)
    for loop in _fed(kernel):
        _set(splice, loop, "warp_specialize", "True")
    return splice.result()


LOOP_STAGES = Edit(
    id="loop-stages",
    says="pipeline the loads of a loop over stages of its own",
    parameters=(
        EditParameter(name="value", says="stages", kind="int", default=3, grid=(3, 4, 2, 5)),
    ),
    find=_find_stages,
    change=_change_stages,
)
LOOP_UNROLL = Edit(
    id="loop-unroll",
    says="unroll the innermost loop, so that independent loads are issued together",
    parameters=(
        EditParameter(name="value", says="iterations", kind="int", default=4, grid=(4, 2, 8)),
    ),
    find=_find_unroll,
    change=_change_unroll,
)
STATIC_LOOPS = Edit(
    id="static-loops",
    says="unroll at compile time the loops whose bounds are known then",
    find=_find_static,
    change=_change_static,
)
LOOP_FLATTEN = Edit(
    id="loop-flatten",
    says="let the compiler merge a loop with the loop inside it, so that the pipeline never drains",
    find=_find_flatten,
    change=_change_flatten,
)
WARP_SPECIALIZE = Edit(
    id="warp-specialize",
    says="let some warps load what the others multiply",
    find=_find_specialize,
    change=_change_specialize,
)
