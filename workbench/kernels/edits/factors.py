"""Reads a matrix product whose two factors are blocks of rows that lie along its sum."""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.launching import host_statement
from workbench.kernels.edits.sites import literal
from workbench.kernels.source import Source
from workbench.kernels.source_flow import reads_of, spread, unspread
from workbench.kernels.source_kernel import Access, JitKernel, Loop, argument

_KNOWN = frozenset({"input", "other", "acc", "input_precision", "allow_tf32"})
_ALONG = {0: "[:, None]", 1: "[None, :]"}


@dataclass(frozen=True, eq=False)
class Factor:
    """One factor: a block of rows that lie along the sum."""

    operand: ast.expr
    used: ast.Name
    """The loaded block's name within `operand`."""
    load: Access
    made: ast.stmt
    base: ast.Name
    rows: str
    within: str
    """The dimension that the rows are masked by; empty when they are not."""
    along: str
    """How the rows lie in the sum: `[:, None]` or `[None, :]`."""


@dataclass(frozen=True, eq=False)
class Product:
    """One product in a loop, and the sum that it is added to."""

    loop: Loop
    statement: ast.stmt
    dot: ast.Call
    total: str
    start: ast.stmt
    zeros: ast.expr
    """`total = tl.zeros(...)` above the loop, and what stands right of it."""
    length: str
    """The dimension that the loop walks, which is also the length of a row of either factor."""
    factors: tuple[Factor, Factor]


def product(source: Source, kernel: JitKernel) -> Product:
    """The kernel's only product, in a loop that only adds it up. Raises EditRefused for others."""
    if len(kernel.dots) != 1 or kernel.names.op(kernel.dots[0]) != "dot":
        raise EditRefused("the kernel is not one matrix product")
    (dot,) = kernel.dots
    loops, statement = kernel.loops_of(dot), kernel.statement(dot)
    if len(loops) != 1 or loops[0].node not in kernel.node.body:
        raise EditRefused("the product is not in a loop of its own")
    (loop,) = loops
    if statement not in loop.node.body:
        raise EditRefused(f"line {statement.lineno} does not run in every round of the loop")
    length = _length(kernel, loop)
    total, start, zeros = _total(kernel, loop, statement, dot)
    first, second = (_operand(dot, i, name) for i, name in enumerate(("input", "other")))
    factors = (
        _factor(kernel, loop, length, first, 0),
        _factor(kernel, loop, length, second, 1),
    )
    if factors[0].base.id == factors[1].base.id:
        raise EditRefused("both factors are read from one tensor")
    _check_launches(source, kernel, factors, length)
    return Product(loop, statement, dot, total, start, zeros, length, factors)


def _length(kernel: JitKernel, loop: Loop) -> str:
    match loop.stop, loop.step:
        case ast.Name(id=stop), ast.Name(id=step) if (
            stop in kernel.flow.parameters and step in kernel.constexprs
        ):
            pass
        case _:
            raise EditRefused("the loop does not step through a dimension in blocks")
    if literal(loop.start) != 0 or loop.kind not in {"range", "tl.range"}:
        raise EditRefused("the loop does not start at zero")
    return stop


def _total(
    kernel: JitKernel, loop: Loop, statement: ast.stmt, dot: ast.Call
) -> tuple[str, ast.stmt, ast.expr]:
    """(sum, statement that starts it, its zeros): fp32, from zero, and read after the loop only."""
    acc = argument(dot, 2, "acc")
    match statement:
        case ast.Assign(targets=[ast.Name(id=total)], value=value) if (
            value is dot and isinstance(acc, ast.Name) and acc.id == total
        ):
            reads = 1
        case ast.AugAssign(target=ast.Name(id=total), op=ast.Add(), value=value) if (
            value is dot and acc is None
        ):
            reads = 0
        case _:
            raise EditRefused(f"line {statement.lineno} does more than add a product")
    if len(dot.args) > 3 or {k.arg for k in dot.keywords} - _KNOWN:
        raise EditRefused(f"line {dot.lineno} states how its sum is kept")
    found = kernel.flow.definitions[total]
    start = found[0].value
    kind = argument(start, 1, "dtype") if isinstance(start, ast.Call) else None
    if start is None or len(found) != 2 or kernel.names.op(start) != "zeros":
        raise EditRefused(f"`{total}` does not start at zero, or is set again")
    if kernel.names.dotted(kind) != "tl.float32":
        raise EditRefused(f"`{total}` is not added up in fp32")
    if len(reads_of(total, loop.node)) != reads:
        raise EditRefused(f"`{total}` is read before its loop has ended")
    return total, found[0].statement, start


def _operand(dot: ast.Call, position: int, name: str) -> ast.expr:
    found = argument(dot, position, name)
    if found is None:
        raise EditRefused(f"line {dot.lineno} does not show what it multiplies")
    return found


def _factor(kernel: JitKernel, loop: Loop, length: str, operand: ast.expr, side: int) -> Factor:
    used, turned = _used(kernel, operand)
    made = _made(kernel, loop, used)
    load = next((a for a in kernel.loads if a.call is made.value), None)
    if load is None or kernel.names.op(load.call) != "load":
        raise EditRefused(f"`{used.id}` is not simply loaded in the loop")
    fills = literal(load.other) if load.other is not None else 0
    if fills != 0 or (load.mask is not None and load.other is None):
        raise EditRefused(f"line {load.line} does not fill with zero what it masks")
    # The sum runs along the first factor's columns and down the second one's rows.
    deep = 1 - side if not turned else side
    base, rows, depth = _terms(kernel, load, length, deep)
    _check_depth(kernel, loop, depth)
    if len(kernel.flow.definitions[rows]) != 1 or rows in kernel.flow.assigned_in([loop.node]):
        raise EditRefused(f"`{rows}` changes in the loop")
    within = _within(kernel, load, rows, {depth: length})
    return Factor(operand, used, load, made, base, rows, within, _ALONG[side])


def _used(kernel: JitKernel, operand: ast.expr) -> tuple[ast.Name, bool]:
    """(the loaded block, whether the product takes it turned over)."""
    match operand:
        case ast.Name():
            return operand, False
        case ast.Attribute(value=ast.Name() as used, attr="T"):
            return used, True
        case ast.Call(args=[ast.Name() as used], keywords=[]) if (
            kernel.names.op(operand) == "trans"
        ):
            return used, True
        case _:
            raise EditRefused(f"line {operand.lineno} multiplies something else than loaded blocks")


def _made(kernel: JitKernel, loop: Loop, used: ast.Name) -> ast.Assign:
    found = kernel.flow.definitions.get(used.id, [])
    made = found[0].statement if len(found) == 1 else None
    if not isinstance(made, ast.Assign) or made not in loop.node.body:
        raise EditRefused(f"`{used.id}` is not simply loaded in the loop")
    if len(reads_of(used.id, kernel.node)) != 1:
        raise EditRefused(f"`{used.id}` is used for more than the product")
    return made


def _terms(kernel: JitKernel, load: Access, length: str, deep: int) -> tuple[ast.Name, str, str]:
    """(pointer, row places, depth places) of `pointer + rows[:, None] * K + ks[None, :]`."""
    base: ast.Name | None = None
    rows = depth = ""
    for term in _added(load.pointer):
        match term:
            case ast.Name(id=name) if name == load.base and base is None:
                base = term
            case (
                ast.BinOp(left=places, op=ast.Mult(), right=ast.Name(id=stride))
                | ast.BinOp(left=ast.Name(id=stride), op=ast.Mult(), right=places)
            ) if stride == length and spread(places, 1 - deep):
                rows = spread(places, 1 - deep)
            case ast.Subscript() if spread(term, deep):
                depth = spread(term, deep)
            case _:
                raise EditRefused(f"line {load.line} does not read rows that lie along the sum")
    if base is None or not rows or not depth:
        raise EditRefused(f"line {load.line} does not read rows that lie along the sum")
    if len(reads_of(base.id, kernel.node)) != 1:
        raise EditRefused(f"`{base.id}` is read in several places")
    return base, rows, depth


def _added(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_added(left), *_added(right)]
        case _:
            return [node]


def _check_depth(kernel: JitKernel, loop: Loop, depth: str) -> None:
    """The places along the sum must be `start + tl.arange(0, BLOCK_K)`, each once."""
    value = kernel.flow.single(depth)
    match value:
        case (
            ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=ast.Call() as lanes)
            | ast.BinOp(left=ast.Call() as lanes, op=ast.Add(), right=ast.Name(id=name))
        ) if name == loop.variable and kernel.names.op(lanes) == "arange":
            ends = argument(lanes, 0, "start"), argument(lanes, 1, "end")
        case _:
            raise EditRefused(f"`{depth}` is not a block of the loop's dimension")
    step = loop.step.id if isinstance(loop.step, ast.Name) else ""
    if literal(ends[0]) != 0 or not isinstance(ends[1], ast.Name) or ends[1].id != step:
        raise EditRefused(f"`{depth}` is not a block of the loop's dimension")


def _within(kernel: JitKernel, load: Access, rows: str, known: dict[str, str]) -> str:
    """The dimension that masks the rows; the mask may say nothing else but the sum's own end."""
    within = ""
    for part in kernel.mask_parts(load.mask):
        bound = kernel.bound(part)
        inner = None if bound is None else unspread(bound[1])
        places = inner.id if isinstance(inner, ast.Name) else ""
        if bound is not None and places == rows and not within:
            within = bound[0]
        elif bound is None or known.get(places) != bound[0]:
            raise EditRefused(f"line {load.line} masks by more than its rows and the sum's end")
    return within


def _check_launches(
    source: Source, kernel: JitKernel, factors: tuple[Factor, Factor], length: str
) -> None:
    if source.autotuned(kernel) or not source.launches_of(kernel.name):
        raise EditRefused("the kernel is autotuned, or not launched in a form that can be read")
    for launch in source.launches_of(kernel.name):
        given = [launch.argument(kernel, f.base.id) for f in factors]
        if launch.starred or not all(isinstance(g, ast.Name) for g in given):
            raise EditRefused(f"line {launch.line}: the factors have no names of their own")
        if launch.argument(kernel, length) is None:
            raise EditRefused(f"line {launch.line} does not show what `{length}` is")
        host_statement(launch)
