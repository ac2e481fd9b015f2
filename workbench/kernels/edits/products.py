"""Makes a sum of products that loops add up one by one into matrix products of the tensor cores.

A nest of loops that adds `column * row` to a block is a matrix product whose depth is all rounds of
the nest together (for a convolution: the patch of inputs that one output sees, `im2col`; K.
Chellapilla et al., High performance convolutional neural networks for document processing, 2006).
The rounds become a block of their own, which the loops' variables are worked out from.
"""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.launch_options import put_options, with_warps
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.ranks import rank
from workbench.kernels.edits.sites import literal
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import Access, JitKernel, Loop, argument

_PRECISIONS = ("tf32", "tf32x3", "ieee")


@dataclass(frozen=True, eq=False)
class _Side:
    """One factor: what it is called, and how it comes to be within one round."""

    factor: ast.expr
    load: Access
    made: tuple[ast.Assign, ...]
    """Statements of the nest that lead to it, in their order."""
    across: str
    """How the rounds lie in it: `[:, None]` down a row of outputs, `[None, :]` along a column."""


@dataclass(frozen=True, eq=False)
class _Nest:
    """Loops that do nothing but add products to a block."""

    loops: tuple[Loop, ...]
    """Outermost first; each holds the next one last."""
    total: str
    column: _Side
    row: _Side


def _nest(kernel: JitKernel) -> _Nest:
    if kernel.dots:
        raise EditRefused("the kernel multiplies matrices already")
    found = [loop for loop in kernel.loops if loop.node in kernel.node.body]
    if len(found) != 1:
        raise EditRefused("the kernel is not one nest of loops")
    loops, made, last = _walk(kernel, found[0])
    match last:
        case ast.AugAssign(target=ast.Name(id=total), op=ast.Add(), value=value):
            pass
        case _:
            raise EditRefused("the innermost loop does not end by adding to a sum")
    match value:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            pass
        case _:
            raise EditRefused(f"line {last.lineno} does not add a product")
    height, width = _extents(kernel, total)
    _check_alone(kernel, loops[0], total)
    sides = {}
    for factor in (left, right):
        side = _side(kernel, loops, made, factor, (height, width))
        sides[side.across] = side
    if len(sides) != 2:
        raise EditRefused(f"line {last.lineno} is not a column times a row")
    return _Nest(loops, total, sides["[None, :]"], sides["[:, None]"])


def _walk(kernel: JitKernel, loop: Loop) -> tuple[tuple[Loop, ...], list[ast.Assign], ast.stmt]:
    """(loops, assignments, last statement) of loops that each hold the next one last."""
    inside = {id(one.node): one for one in kernel.loops}
    loops, made = [], list[ast.Assign]()
    while True:
        _check_loop(kernel, loop)
        loops.append(loop)
        *before, last = loop.node.body
        for statement in before:
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                raise EditRefused(f"line {statement.lineno} does more than name a value")
            made.append(statement)
        if id(last) not in inside:
            return tuple(loops), made, last
        loop = inside[id(last)]


def _check_loop(kernel: JitKernel, loop: Loop) -> None:
    plain = loop.kind in {"range", "tl.range", "static_range"} and isinstance(loop.node, ast.For)
    starts = loop.start is None or literal(loop.start) == 0
    if not plain or not starts or loop.stop is None or literal(loop.step) not in {None, 1}:
        raise EditRefused(f"line {loop.line} does not count from zero by one")
    if isinstance(loop.node, ast.For) and (
        loop.node.orelse or (isinstance(loop.node.iter, ast.Call) and loop.node.iter.keywords)
    ):
        raise EditRefused(f"line {loop.line} states how its loop is to be compiled")
    if rank(kernel, loop.stop) != 0:
        raise EditRefused(f"line {loop.line} does not end at one number")


def _extents(kernel: JitKernel, total: str) -> tuple[str, str]:
    """Names of the block's two extents, where the sum starts at zero in fp32."""
    first = kernel.flow.definitions[total][0]
    shape = argument(first.value, 0, "shape") if isinstance(first.value, ast.Call) else None
    match shape:
        case (
            ast.List(elts=[ast.Name(id=height), ast.Name(id=width)])
            | ast.Tuple(elts=[ast.Name(id=height), ast.Name(id=width)])
        ) if kernel.names.op(first.value) == "zeros" and height != width:
            pass
        case _:
            raise EditRefused(f"`{total}` does not start as a block of zeros of two extents")
    kind = argument(first.value, 1, "dtype") if isinstance(first.value, ast.Call) else None
    if kernel.names.dotted(kind) != "tl.float32":
        raise EditRefused(f"`{total}` is not added up in fp32")
    return height, width


def _check_alone(kernel: JitKernel, loop: Loop, total: str) -> None:
    """Nothing but the sum may leave the nest, and nothing from outside may change in it."""
    inner = kernel.flow.assigned_in([loop.node]) - {total}
    outside = [s for s in kernel.node.body if s is not loop.node]
    read = {name for s in outside for name in names_in(s)} | kernel.flow.assigned_in(outside)
    if inner & read:
        raise EditRefused(f"`{min(inner & read)}` is used outside of its loop")
    if len(kernel.flow.definitions[total]) != 2:
        raise EditRefused(f"`{total}` is set in several places")


def _side(
    kernel: JitKernel,
    loops: tuple[Loop, ...],
    made: list[ast.Assign],
    factor: ast.expr,
    extents: tuple[str, str],
) -> _Side:
    needed, cone = set(names_in(factor)), list[ast.Assign]()
    for statement in reversed(made):
        target = statement.targets[0]
        if isinstance(target, ast.Name) and target.id in needed:
            needed |= names_in(statement.value)
            cone.insert(0, statement)
    loads = [a for a in kernel.loads if any(kernel.statement(a.call) is s for s in cone)]
    if len(loads) != 1 or not _only_cast(kernel, factor, loads[0]):
        raise EditRefused(f"line {factor.lineno} multiplies something else than loaded values")
    if not needed & {loop.variable for loop in loops}:
        raise EditRefused(f"line {factor.lineno} multiplies what no loop moves")
    load = loads[0]
    if (load.other is None and load.mask is not None) or literal(load.other) not in {None, 0}:
        raise EditRefused(f"line {load.line} fills with something else than zero")
    if kernel.names.op(load.call) != "load" or (len(load.call.args) > 1 and load.mask is None):
        raise EditRefused(f"line {load.line} is not a plain load")
    ranges = [e.id if isinstance(e, ast.Name) else "" for e in kernel.flow.aranges(factor)]
    for extent, along, across in zip(
        extents, ("[:, None]", "[None, :]"), ("[None, :]", "[:, None]"), strict=True
    ):
        if ranges == [extent] and _lies(kernel, extent, along):
            return _Side(factor, load, tuple(cone), across)
    raise EditRefused(f"line {factor.lineno} is not a column times a row")


def _only_cast(kernel: JitKernel, factor: ast.expr, load: Access) -> bool:
    """Whether a factor is a loaded value, of another type at most: zero stays zero."""
    node: ast.expr | None = factor
    while node is not None:
        node = kernel.flow.resolve(node)
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[_]):
                node = inner
            case _:
                return node is load.call
    return False


def _lies(kernel: JitKernel, extent: str, along: str) -> bool:
    """Whether every range of that extent lies along the axis, as `tl.arange(0, X)[:, None]`."""
    for call in kernel.calls("arange"):
        ends = kernel.flow.arange(call)
        if not isinstance(ends, ast.Name) or ends.id != extent:
            continue
        match kernel.parents[call]:
            case ast.Subscript(slice=ast.Tuple(elts=[a, b])):
                kept = ":, None" if isinstance(a, ast.Slice) else "None, :"
                none = b if isinstance(a, ast.Slice) else a
                if f"[{kept}]" != along or not isinstance(none, ast.Constant):
                    return False
            case _:
                return False
    return True


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _nest(kernel)
    _check_launches(source, kernel)
    return (
        Anchor(
            lines=(found.loops[0].line, found.column.factor.lineno),
            says=f"{len(found.loops)} loops that add products to `{found.total}`",
        ),
    )


def _check_launches(source: Source, kernel: JitKernel) -> None:
    launches = source.launches_of(kernel.name)
    if source.autotuned(kernel) or not launches or any(one.starred for one in launches):
        raise EditRefused("the kernel is autotuned, or not launched in a form that can be read")


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    depth, precision = int(parameters["depth"]), str(parameters["precision"])
    if depth not in {16, 32, 64, 128} or precision not in _PRECISIONS:
        raise EditRefused(f"a depth of {depth} in {precision} is not one of the choices")
    found = _nest(kernel)
    _check_launches(source, kernel)
    splice, names = Splice(source), FreeNames(kernel)
    block, start, rounds = names.take("BLOCK_K"), names.take("start"), names.take("rounds")
    extents = [_grouped(splice, loop.stop) for loop in found.loops]
    whole = " * ".join(extents)
    ranged = _range(source, kernel, found, unroll=bool(parameters["unroll"]))
    unit = splice.indentation(kernel.node.body[0])[len(splice.indentation(kernel.node)) :]
    dot, arange = spelled(source, "tl.dot"), spelled(source, "tl.arange")
    lines = [f"{rounds} = {start} + {arange}(0, {block})"]
    for side in (found.row, found.column):
        lines += _variables(found, extents, f"{rounds}{side.across}")
        lines += _made(splice, kernel, side, f"{rounds}{side.across} < {whole}")
    factors = f"{splice.text(found.column.factor)}, {splice.text(found.row.factor)}"
    lines.append(f'{found.total} = {dot}({factors}, {found.total}, input_precision="{precision}")')
    splice.replace_statement(
        found.loops[0].node,
        f"for {start} in {ranged}(0, {whole}, {block}):",
        *(unit + line for line in lines),
    )
    splice.add_parameter(kernel, f"{block}: {spelled(source, 'tl.constexpr')}")
    for launch in source.launches_of(kernel.name):
        splice.set_keyword(launch.call, block, str(depth))
    if int(parameters["num_warps"]):
        put_options(splice, kernel, {"num_warps": int(parameters["num_warps"])})
    return splice.result()


def _range(source: Source, kernel: JitKernel, found: _Nest, *, unroll: bool) -> str:
    """What counts the rounds. Unrolled, every round's place in the nest is a constant.

    Raises EditRefused where a loop is to be unrolled whose end is not known when compiling.
    """
    if not unroll:
        return "range"
    for loop in found.loops:
        if loop.stop is None or not kernel.flow.reaches(loop.stop) <= set(kernel.constexprs):
            raise EditRefused(f"line {loop.line} ends at what is not known when compiling")
    return spelled(source, "tl.static_range")


def _grouped(splice: Splice, node: ast.expr | None) -> str:
    if node is None:
        raise EditRefused("a loop of the nest has no end")
    text = splice.text(node)
    return text if isinstance(node, ast.Name | ast.Constant | ast.Call) else f"({text})"


def _variables(found: _Nest, extents: list[str], lanes: str) -> list[str]:
    """Each loop's variable in each round, the innermost moving fastest."""
    lines = []
    for place, loop in enumerate(found.loops):
        inner = extents[place + 1 :]
        text = lanes
        if inner:
            text += f" // {inner[0]}" if len(inner) == 1 else f" // ({' * '.join(inner)})"
        if place:
            text += f" % {extents[place]}"
        lines.append(f"{loop.variable} = {text}")
    return lines


def _made(splice: Splice, kernel: JitKernel, side: _Side, inside: str) -> list[str]:
    """The statements that lead to a factor, its load masked beyond the last round."""
    load, lines = side.load, []
    for statement in side.made:
        if kernel.statement(load.call) is not statement:
            lines.append(splice.text(statement))
            continue
        address = _address(splice, kernel, load)
        if load.mask is None:
            text: dict[ast.AST, str] = {load.pointer: f"{address}, mask={inside}, other=0.0"}
        else:
            text = {load.pointer: address, load.mask: f"({splice.text(load.mask)}) & ({inside})"}
        lines.append(splice.text_with(statement, text))
    return lines


def _address(splice: Splice, kernel: JitKernel, load: Access) -> str:
    """The address with what only the rounds move added first: a column, not a block, of sums."""
    terms = list[ast.expr]()
    node = load.pointer
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        terms.insert(0, node.right)
        node = node.left
    ordered = sorted(terms, key=lambda term: rank(kernel, term) != 0)
    texts = [splice.text(t) if _binds(t) else f"({splice.text(t)})" for t in ordered]
    return " + ".join([splice.text(node), *texts])


def _binds(term: ast.expr) -> bool:
    """Whether a term keeps its meaning beside a `+` without parentheses."""
    tight = ast.Mult | ast.FloorDiv | ast.Mod
    return not isinstance(term, ast.BinOp) or isinstance(term.op, tight)


SUM_TO_PRODUCTS = Edit(
    id="sum-to-products",
    says="add up products by matrix products of the tensor cores",
    parameters=(
        EditParameter(
            name="depth", says="rounds of one product", kind="int", default=16, grid=(16, 32)
        ),
        EditParameter(
            name="precision",
            says="what fp32 factors may be rounded to",
            kind="text",
            default="ieee",
            grid=_PRECISIONS,
        ),
        with_warps(4, 8),
        EditParameter(
            name="unroll",
            says="unroll the rounds, whose number must be known when compiling",
            kind="flag",
            default=False,
            grid=(False, True),
        ),
    ),
    find=_find,
    change=_change,
)
