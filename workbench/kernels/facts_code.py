"""Facts that follow from the text of a kernel alone."""

import ast
from collections.abc import Iterator

from workbench.kernels.edits.blocks import tunable
from workbench.kernels.edits.dimensions import plain_dimensions
from workbench.kernels.edits.hoist import invariant_loads
from workbench.kernels.edits.order import tile_order
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import Access, JitKernel, Loop

Row = tuple[str, bool | int | float | str | tuple[str, ...] | None, str]
"""Name, value, evidence."""


def code_facts(source: Source, kernel: JitKernel) -> Iterator[Row]:
    """The catalogue's facts `code.*`."""
    yield "code.kernel_count", len(source.launched), ", ".join(source.launched)
    launches = source.launches_of(kernel.name)
    yield "code.launch_count", len(launches), _lines(s.line for s in launches)
    family = _with_helpers(source, kernel)
    yield from _loops(kernel, family)
    yield from _accesses(family)
    yield from _arithmetic(kernel, family)
    yield "code.tile_order", tile_order(kernel), ""
    walks = list(_persistent(kernel))
    yield "code.is_persistent", bool(walks), _lines(loop.line for loop in walks)
    yield "code.is_autotuned", source.autotuned(kernel), ""
    yield "code.block_parameters", kernel.blocks, ""
    blocks = tunable(source, kernel)
    yield "code.tunable_blocks", len(blocks), ", ".join(blocks)
    held = invariant_loads(kernel)
    elsewhere = any(k.loads for k in family[1:])
    count = None if elsewhere else len(held)
    yield "code.invariant_loads", count, _lines(a.line for a in held)
    passed = plain_dimensions(kernel)
    yield "code.passed_dims", len(passed), ", ".join(passed)


def _lines(lines: Iterator[int]) -> str:
    numbers = sorted(set(lines))
    word = "line" if len(numbers) == 1 else "lines"
    return f"{word} {', '.join(map(str, numbers))}" if numbers else ""


def _loops(kernel: JitKernel, family: list[JitKernel]) -> Iterator[Row]:
    """Loops of helpers count; where helpers load, what loops read is not told by the text."""
    loops = [loop for k in family for loop in k.loops]
    yield "code.loop_count", len(loops), _lines(loop.line for loop in loops)
    depth = max((loop.depth + 1 for loop in kernel.loops), default=0)
    yield "code.loop_depth", None if len(loops) > len(kernel.loops) else depth, ""
    readers: dict[str, set[tuple[Loop, ...]]] = {}
    for access in kernel.loads:
        if access.loops and access.base:
            readers.setdefault(access.base, set()).add(access.loops)
    passes = [{chain[-1].line for chain in _ends(chains)} for chains in readers.values()]
    most: set[int] = max(passes, key=len, default=set())
    elsewhere = any(k.loads for k in family[1:])
    yield "code.passes_over_input", None if elsewhere else len(most), _lines(iter(most))
    again = len(most) > 1
    yield "code.rereads_input", again or (None if elsewhere else False), _lines(iter(most)) * again


def _ends(chains: set[tuple[Loop, ...]]) -> Iterator[tuple[Loop, ...]]:
    """Nests of loops that are no part of another: what they read, they read one after another."""
    for chain in chains:
        if not any(other != chain and other[: len(chain)] == chain for other in chains):
            yield chain


def _accesses(family: list[JitKernel]) -> Iterator[Row]:
    every = [a for k in family for a in k.accesses]
    by_kind: dict[str, list[Access]] = {"load": [], "store": [], "atomic": []}
    for access in every:
        by_kind[access.kind].append(access)
    for kind, found in by_kind.items():
        yield f"code.{kind}_count", len(found), _lines(a.line for a in found)
    masked = [a for a in every if a.mask is not None]
    yield "code.has_mask", bool(masked), _lines(a.line for a in masked)
    inside = [a for a in masked if a.kind == "load" and a.loops]
    maybe = any(a.kind == "load" and a not in inside for k in family[1:] for a in k.accesses)
    told = bool(inside) or (None if maybe and len(masked) > len(inside) else False)
    yield "code.mask_in_loop", told, _lines(a.line for a in inside)
    described = any(
        k.calls("make_tensor_descriptor", "make_block_ptr") or any(map(k.by_descriptor, k.accesses))
        for k in family
    )
    yield "code.uses_descriptors", described, ""
    stated = [a for a in every if a.option("eviction_policy") or a.option("cache_modifier")]
    yield "code.has_eviction_policy", bool(stated), _lines(a.line for a in stated)
    wrapped = [a for k in family for a in k.accesses if _has_modulo(k, a.pointer)]
    yield "code.has_modulo_offsets", bool(wrapped), _lines(a.line for a in wrapped)
    wide = [n for k in family for n in ast.walk(k.node) if k.names.dotted(n) == "tl.int64"]
    yield "code.has_wide_offsets", bool(wide), ""


def _has_modulo(kernel: JitKernel, pointer: ast.expr) -> bool:
    """Whether an address is built from a block of offsets taken modulo something."""
    roots = [pointer]
    for name in kernel.flow.reaches(pointer):
        roots += [d.value for d in kernel.flow.definitions.get(name, []) if d.value is not None]
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mod)
        and bool(kernel.flow.aranges(node.left))
        for root in roots
        for node in ast.walk(root)
    )


def _arithmetic(kernel: JitKernel, family: list[JitKernel]) -> Iterator[Row]:
    dots = [d for k in family for d in k.dots]
    yield "code.dot_count", len(dots), _lines(d.lineno for d in dots)
    yield "code.dot_precision", _precision(dots), ""
    reductions = [r for k in family for r in k.reductions]
    yield "code.reduction_count", len(reductions), _lines(r.lineno for r in reductions)
    looped = [r for k in family for r in k.reductions if k.loops_of(r)]
    told = bool(looped) or (None if any(k.reductions for k in family[1:]) else False)
    yield "code.reduction_in_loop", told, _lines(r.lineno for r in looped)
    yield "code.scan_count", sum(len(k.scans) for k in family), ""
    special = [c for k in family for c in k.transcendentals]
    yield "code.special_count", len(special), _lines(c.lineno for c in special)
    divided = [
        n
        for k in family
        for n in ast.walk(k.node)
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)
    ]
    yield "code.division_count", len(divided), _lines(n.lineno for n in divided)
    dimensions = set(kernel.constexprs) - set(kernel.blocks)
    bounds = (kernel.bound(conjunct) for _, conjunct in kernel.masks())
    masked = {bound[0] for bound in bounds if bound is not None}
    stops = (loop.stop for loop in kernel.loops)
    walked = {stop.id for stop in stops if isinstance(stop, ast.Name)}
    constant = sorted(dimensions & (masked | walked))
    yield "code.has_constant_dims", bool(constant), ", ".join(constant)


def _with_helpers(source: Source, kernel: JitKernel) -> list[JitKernel]:
    """The kernel, first, and the jit functions that it calls, directly or not."""
    found: dict[str, JitKernel] = {}
    ahead = [kernel]
    while ahead:
        current = ahead.pop()
        if current.name in found:
            continue
        found[current.name] = current
        ahead += [k for n in sorted(current.helpers) if (k := source.kernel(n)) is not None]
    return list(found.values())


def _precision(dots: list[ast.Call]) -> str:
    stated = {_precision_of(d) for d in dots}
    if not stated:
        return "none"
    return stated.pop() if len(stated) == 1 else "mixed"


def _precision_of(dot: ast.Call) -> str:
    for keyword in dot.keywords:
        match keyword.arg, keyword.value:
            case "input_precision", ast.Constant(value=str(value)):
                return value
            case "allow_tf32", ast.Constant(value=bool(value)):
                return "tf32" if value else "ieee"
            case "input_precision" | "allow_tf32", _:
                return "mixed"
            case _:
                pass
    return "default"


def over_tiles(kernel: JitKernel, loop: Loop) -> bool:
    """Whether a loop takes tile after tile: it begins where the program's number says, or goes on
    by the grid's width, and what a round has computed is stored in it."""
    if not any(loop in access.loops for access in kernel.accesses if access.kind != "load"):
        return False
    walks = any(_names_the_grid(kernel, part) for part in _advances(loop))
    return walks or _calls(kernel, loop.start, "program_id")


def _persistent(kernel: JitKernel) -> Iterator[Loop]:
    """Loops over tiles that are a grid's width apart, or a number that the launch gives."""
    for loop in kernel.loops:
        if over_tiles(kernel, loop):
            step, start = loop.step, kernel.flow.resolve(loop.start)
            given = isinstance(step, ast.Name) and step.id in kernel.flow.parameters
            own = given and kernel.names.op(start) == "program_id"
            if own or any(_names_the_grid(kernel, part) for part in _advances(loop)):
                yield loop


def _advances(loop: Loop) -> Iterator[ast.expr]:
    """What a round adds: the step of a range, or what a `while` adds to a name."""
    if loop.step is not None:
        yield loop.step
    if loop.kind == "while":
        for node in ast.walk(loop.node):
            match node:
                case ast.AugAssign(op=ast.Add(), value=added):
                    yield added
                case ast.Assign(value=ast.BinOp(op=ast.Add()) as added):
                    yield added
                case _:
                    pass


def _names_the_grid(kernel: JitKernel, step: ast.expr) -> bool:
    return _calls(kernel, step, "num_programs")


def _calls(kernel: JitKernel, node: ast.expr | None, op: str) -> bool:
    """Whether an expression, or what its names stand for, calls an operation."""
    if node is None:
        return False
    roots = [node]
    for name in kernel.flow.reaches(node):
        roots += [d.value for d in kernel.flow.definitions.get(name, []) if d.value is not None]
    return any(kernel.names.op(inner) == op for root in roots for inner in ast.walk(root))
