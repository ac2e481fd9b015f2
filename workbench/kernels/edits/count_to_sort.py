"""Finds each element's rank by sorting the row instead of comparing every pair of elements.

A kernel that counts, for each of its elements, how many of the row come before it does N * N
comparisons a row; sorting networks need N * log(N) * log(N) (K. Batcher, Sorting networks and
their applications, 1968). The elements are put in their order, so that what follows, which works
lane by lane, sees the same pairs of element and rank. The key is the element's bits, ordered as
whole numbers, above its place counted down: equal elements keep the order of their places.
"""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.dead import drop_unused_local, without_unread
from workbench.kernels.edits.launch_options import put_options
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.row_on_chip import walk
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import conjuncts, names_in, spread
from workbench.kernels.source_kernel import JitKernel, Loop, argument


@dataclass(frozen=True, eq=False)
class _Counting:
    """The loop that counts, and what it counts for."""

    loop: Loop
    start: ast.Assign
    """`rank = tl.zeros(...)` above the loop."""
    rank: str
    mine: str
    """Places of the program's own elements."""
    x: str
    """Name of the elements."""
    dimension: str
    block: str
    """The parameter that sizes `mine`."""
    limit: str
    """The parameter that every later access keeps ranks below; empty when there is none."""


def _counting(kernel: JitKernel) -> _Counting:
    loops = [loop for loop in kernel.loops if loop.node in kernel.node.body]
    if len(kernel.loops) != 1 or len(loops) != 1:
        raise EditRefused("the kernel is not one loop that counts")
    loop = loops[0]
    walked = walk(kernel, loop)
    match loop.node.body[-1]:
        case ast.AugAssign(target=ast.Name(id=rank), op=ast.Add(), value=counted) if walked:
            pass
        case _:
            raise EditRefused("the loop does not end by adding to a count")
    beats = _summed(kernel, counted)
    parts = [kernel.flow.resolve(part) for part in _parts(kernel, beats)]
    x, other = _larger(parts)
    mine, places = _earlier(kernel, parts, x, other)
    start = kernel.flow.definitions[rank][0].statement
    if not isinstance(start, ast.Assign) or kernel.names.op(start.value) != "zeros":
        raise EditRefused(f"`{rank}` does not start at zero")
    block = _own_block(kernel, mine)
    _check_row(kernel, loop, (x, other), (mine, places), walked[0])
    _check_after(kernel, loop, {rank, mine, x})
    return _Counting(loop, start, rank, mine, x, walked[0], block, _limit(kernel, loop, rank))


def _summed(kernel: JitKernel, node: ast.expr) -> ast.expr:
    """What is counted: of `tl.sum(beats.to(...), axis=1)`."""
    if kernel.names.op(node) == "sum" and isinstance(node, ast.Call):
        inner = argument(node, 0, "input")
        match inner, argument(node, 1, "axis"):
            case ast.Call(func=ast.Attribute(value=value, attr="to")), ast.Constant(value=1):
                return value
            case ast.expr(), ast.Constant(value=1):
                return inner
            case _:
                pass
    raise EditRefused("the loop does not count along the second axis")


def _parts(kernel: JitKernel, node: ast.expr | None) -> list[ast.expr]:
    """Comparisons of `(larger | earlier) & valid`, names looked through."""
    node = kernel.flow.resolve(node)
    match node:
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return [*_parts(kernel, left), *_parts(kernel, right)]
        case ast.Compare():
            return [node]
        case _:
            raise EditRefused("what is counted is not made of comparisons")


def _larger(parts: list[ast.expr | None]) -> tuple[str, str]:
    """(own element, other element) of `other[None, :] > x[:, None]`."""
    for part in parts:
        match part:
            case ast.Compare(left=left, ops=[ast.Gt()], comparators=[right]) if spread(
                left, 1
            ) and spread(right, 0):
                return spread(right, 0), spread(left, 1)
            case _:
                pass
    raise EditRefused("larger elements are not what is counted")


def _earlier(
    kernel: JitKernel, parts: list[ast.expr | None], x: str, other: str
) -> tuple[str, str]:
    """(own places, other places) of the rule for equal elements; every part must be known."""
    found: tuple[str, str] | None = None
    equal = False
    for part in parts:
        match part:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                pair = spread(right, 0), spread(left, 1)
                if pair == (x, other) and isinstance(op, ast.Gt | ast.Eq):
                    equal = equal or isinstance(op, ast.Eq)
                elif all(pair) and isinstance(op, ast.Lt):
                    found = pair
                elif kernel.bound(part) is None:
                    raise EditRefused(f"line {part.lineno} counts by another rule")
            case _:
                raise EditRefused("what is counted is not made of comparisons")
    if found is None or not equal:
        raise EditRefused("equal elements are not counted in the order of their places")
    return found


def _own_block(kernel: JitKernel, mine: str) -> str:
    match kernel.flow.aranges(ast.Name(id=mine)):
        case (ast.Name(id=block),) if block in kernel.constexprs:
            return block
        case _:
            raise EditRefused(f"`{mine}` is not one block of places")


def _check_row(
    kernel: JitKernel, loop: Loop, elements: tuple[str, str], places: tuple[str, str], n: str
) -> None:
    """Both loads must read one row, each at its own places, up to the loop's dimension."""
    texts = []
    for name, place in zip(elements, places, strict=True):
        value = kernel.flow.single(name)
        load = next((a for a in kernel.loads if a.call is value), None)
        bounds = [] if load is None else [kernel.bound(c) for c in kernel.mask_parts(load.mask)]
        if load is None or not any(b is not None and b[0] == n for b in bounds):
            raise EditRefused(f"`{name}` is not loaded under a mask that ends at `{n}`")
        texts.append(ast.dump(load.pointer).replace(f"id='{place}'", "id=''"))
    if texts[0] != texts[1] or loop.variable in elements:
        raise EditRefused("the two elements of a comparison are not of one row")


def _check_after(kernel: JitKernel, loop: Loop, kept: set[str]) -> None:
    """What follows may use the elements, their places and ranks, and numbers, lane by lane."""
    body = kernel.node.body
    after = body[body.index(loop.node) + 1 :]
    bound = kernel.flow.assigned_in(body[: body.index(loop.node) + 1])
    for statement in after:
        for name in sorted((names_in(statement) & bound) - kept):
            if kernel.flow.aranges(ast.Name(id=name)):
                raise EditRefused(f"`{name}` is in the old order of elements")
        for node in ast.walk(statement):
            if kernel.names.op(node) in {"sum", "max", "cumsum", "arange", "sort"}:
                raise EditRefused(f"line {statement.lineno} does not work lane by lane")


def _limit(kernel: JitKernel, loop: Loop, rank: str) -> str:
    """K when every later access is masked by `rank < K`."""
    body = kernel.node.body
    after = set(body[body.index(loop.node) + 1 :])
    found: set[str] = set()
    for access in kernel.accesses:
        if kernel.statement(access.call) not in after:
            continue
        bounds = [
            kernel.bound(part) for c in conjuncts(access.mask) for part in kernel.mask_parts(c)
        ]
        limits = {b[0] for b in bounds if b and isinstance(b[1], ast.Name) and b[1].id == rank}
        found.add(min(limits) if limits else "")
    return found.pop() if len(found) == 1 else ""


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _counting(kernel)
    _check_launches(source, kernel, found)
    return (
        Anchor(
            lines=(found.loop.line,),
            says=f"the loop counts `{found.rank}` over pairs of elements of a row",
        ),
    )


def _check_launches(source: Source, kernel: JitKernel, found: _Counting) -> None:
    if source.autotuned(kernel) or not source.launches_of(kernel.name):
        raise EditRefused("the kernel is autotuned, or not launched in a form that can be read")
    for launch in source.launches_of(kernel.name):
        for name in filter(None, (found.dimension, found.limit)):
            if launch.starred or launch.argument(kernel, name) is None:
                raise EditRefused(f"line {launch.line} does not show what `{name}` is")


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    found = _counting(kernel)
    _check_launches(source, kernel, found)
    splice, names = Splice(source), FreeNames(kernel)
    top = names.take(f"TOP_{found.limit}") if found.limit else found.block
    splice.replace_statement(found.start, *_sorting(source, found, names, top))
    splice.remove(found.loop.node)
    if found.limit:
        constexpr = spelled(source, "tl.constexpr")
        splice.add_parameter(kernel, f"{top}: {constexpr}")
    for launch in source.launches_of(kernel.name):
        _feed(splice, kernel, launch, found, top)
    if int(parameters["num_warps"]):
        put_options(splice, kernel, {"num_warps": int(parameters["num_warps"])})
    return without_unread(splice.result(), kernel.name)


def _sorting(source: Source, found: _Counting, names: FreeNames, top: str) -> list[str]:
    """Lines that put elements and places in order; ranks are then the lanes themselves."""
    where, arange = spelled(source, "tl.where"), spelled(source, "tl.arange")
    i32, i64, f32 = (spelled(source, f"tl.{kind}") for kind in ("int32", "int64", "float32"))
    bits, key = names.take("bits"), names.take("key")
    order = f"{spelled(source, 'tl.sort')}({key}, descending=True)"
    if found.limit:
        order = f"{spelled(source, 'tl.topk')}({key}, {top})"
    mine, x = found.mine, found.x
    return [
        "# Negative numbers order backwards as bits; adding zero makes the two zeros equal.",
        f"{bits} = ({x}.to({f32}) + 0.0).to({i32}, bitcast=True)",
        f"{bits} = {where}({bits} < 0, {bits} ^ 0x7FFFFFFF, {bits})",
        f"{bits} = {where}({mine} < {found.dimension}, {bits}, -0x7FFFFFFF - 1)",
        f"{key} = ({bits}.to({i64}) << 32) | (0x7FFFFFFF - {mine}).to({i64})",
        f"{key} = {order}",
        f"{mine} = 0x7FFFFFFF - ({key} & 0x7FFFFFFF).to({i32})",
        f"{bits} = ({key} >> 32).to({i32})",
        f"{bits} = {where}({bits} < 0, {bits} ^ 0x7FFFFFFF, {bits})",
        f"{x} = {bits}.to({f32}, bitcast=True)",
        f"{found.rank} = {arange}(0, {top})",
    ]


def _feed(
    splice: Splice, kernel: JitKernel, launch: LaunchSite, found: _Counting, top: str
) -> None:
    """A block that holds the row, and the power of two above the limit."""
    power = spelled(splice.source, "triton.next_power_of_2")
    length = launch.argument(kernel, found.dimension)
    text = f"{power}({splice.text(length)})" if length is not None else ""
    given = launch.argument(kernel, found.block)
    if given is None:
        splice.set_keyword(launch.call, found.block, text)
    else:
        splice.replace(given, text)
        drop_unused_local(splice, launch, given)
    limit = launch.argument(kernel, found.limit) if found.limit else None
    if limit is not None:
        splice.set_keyword(launch.call, top, f"{power}({splice.text(limit)})")


COUNT_TO_SORT = Edit(
    id="count-to-sort",
    says="sort a row to rank its elements, instead of comparing every pair",
    parameters=(
        EditParameter(
            name="num_warps",
            says="warps per program for the row; 0 leaves them as they are",
            kind="int",
            default=0,
            grid=(16, 32, 8),
        ),
    ),
    find=_find,
    change=_change,
)
