"""Holds the end of a row on the chip while loops walk the rest: for rows too long to hold whole.

A later pass then loads only what was not held. Walking that rest backwards finds in L2 what the
pass before loaded last. Both are ours; the limits that they answer to are in the card.
"""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.blocks import BLOCK_SIZE
from workbench.kernels.edits.launch_options import put_options, with_warps
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.ranks import rank
from workbench.kernels.edits.row_on_chip import (
    Passes,
    anchored,
    check_passes,
    passes,
    row_length,
)
from workbench.kernels.edits.share_loads import share_loads
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source, read_source
from workbench.kernels.source_kernel import JitKernel, Loop


@dataclass(frozen=True)
class _Names:
    """Names that the edit brings into a kernel."""

    held: str
    """The compile-time parameter: elements of a row that stay on the chip, a power of two."""
    first: str
    """Where the held part begins: a whole number of blocks."""
    back: str
    fresh: dict[str, str]
    """What a copy of a loop's body calls the names that live in one iteration."""


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = passes(kernel)
    check_passes(kernel, found)
    for loop in found.loops:
        _check_body(kernel, loop, found)
    _check_turns(kernel, found)
    return anchored(source, kernel, found)


def _check_body(kernel: JitKernel, loop: Loop, found: Passes) -> None:
    """Refuse what a copy of the body could not stand for."""
    if loop.step is None:
        raise EditRefused(f"the loop of line {loop.line} counts blocks")
    plain = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr
    for statement in loop.node.body:
        if not isinstance(statement, plain):
            raise EditRefused(f"line {statement.lineno} is a block of its own")
    for name in sorted(_carried(kernel, loop, found)):
        starts = [d.value for d in kernel.flow.definitions[name] if not _inside(d.statement, found)]
        if any(rank(kernel, value) != 0 for value in starts):
            raise EditRefused(f"`{name}` is a block that the loop of line {loop.line} carries on")


def _check_turns(kernel: JitKernel, found: Passes) -> None:
    """Refuse a name that outlives the iteration that gave it its value."""
    fresh = _fresh(kernel, found)
    for body in (loop.node.body for loop in found.loops):
        known: frozenset[str] = frozenset()
        for statement in body:
            late = (_read(statement) & fresh) - known
            if late:
                raise EditRefused(
                    f"`{min(late)}` comes to line {statement.lineno} from an iteration before"
                )
            known |= kernel.flow.assigned_in([statement])
    for statement in kernel.node.body:
        late = set() if _inside(statement, found) else _read(statement) & fresh
        if late:
            raise EditRefused(f"line {statement.lineno} reads `{min(late)}` of the last iteration")


def _read(statement: ast.stmt) -> set[str]:
    """Names that a statement reads, the target of `+=` among them."""
    read = {
        n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    match statement:
        case ast.AugAssign(target=ast.Name(id=name)):
            read.add(name)
        case _:
            pass
    return read


def _inside(statement: ast.stmt, found: Passes) -> bool:
    return any(statement is n for loop in found.loops for n in ast.walk(loop.node))


def _carried(kernel: JitKernel, loop: Loop, found: Passes) -> frozenset[str]:
    """Names of a body that have a value before any pass: what the passes work out."""
    return frozenset(
        name
        for name in kernel.flow.assigned_in(loop.node.body)
        if any(not _inside(d.statement, found) for d in kernel.flow.definitions[name])
    )


def _fresh(kernel: JitKernel, found: Passes) -> frozenset[str]:
    """Names that have a value in a body only."""
    return frozenset(
        name
        for loop in found.loops
        for name in kernel.flow.assigned_in(loop.node.body) - _carried(kernel, loop, found)
    )


def _names(kernel: JitKernel, found: Passes) -> _Names:
    names = FreeNames(kernel)
    fresh = {name: names.take(f"held_{name}") for name in sorted(_fresh(kernel, found))}
    return _Names(names.take("HELD"), names.take("first"), names.take("back"), fresh)


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    part, block = int(parameters["part"]), int(parameters["block"])
    if part not in {2, 4, 8, 16, 32}:
        raise EditRefused(f"{part} is not 2, 4, 8, 16 or 32")
    _find(source, kernel)
    found = passes(kernel)
    splice, names = Splice(source), _names(kernel, found)
    constexpr = spelled(source, "tl.constexpr")
    splice.add_parameter(kernel, f"{names.held}: {constexpr}")
    _split(splice, kernel, found, names, back=bool(parameters["back"]))
    power = spelled(source, "triton.next_power_of_2")
    for launch in source.launches_of(kernel.name):
        length = splice.text(row_length(source, kernel, launch, found))
        splice.set_keyword(launch.call, names.held, f"max(1, {power}({length}) // {part})")
    if int(parameters["num_warps"]):
        put_options(splice, kernel, {"num_warps": int(parameters["num_warps"])})
    text = share_loads(splice.result(), kernel.name)
    return _with_block(text, kernel.name, found.block, block) if block else text


def _with_block(text: str, name: str, block: str, value: int) -> str:
    """The text with another block. Raises EditRefused where it is not written out."""
    view = read_source(text)
    kernel = view.kernel(name)
    if kernel is None:
        raise EditRefused(f"there is no kernel `{name}`")
    return BLOCK_SIZE.change(view, kernel, {"block": block, "value": value})


def _split(splice: Splice, kernel: JitKernel, found: Passes, names: _Names, *, back: bool) -> None:
    """End every loop where the held part begins, with a copy of its body for that part."""
    cdiv, most = spelled(splice.source, "tl.cdiv"), spelled(splice.source, "tl.maximum")
    blocks = f"{cdiv}({found.dimension} - {names.held}, {found.block})"
    splice.insert_before(
        found.loops[0].node, f"{names.first} = {most}({blocks}, 0) * {found.block}"
    )
    last = found.loops[-1]
    for loop in found.loops:
        copy = [_copied(splice, loop, found, names, s) for s in loop.node.body]
        if loop.stop is not None:
            splice.replace(loop.stop, names.first)
        if loop is not last or _carried(kernel, loop, found):
            splice.insert_after(loop.node, *copy)
            continue
        # The last pass may begin with what is held, whose registers are then free.
        splice.insert_before(loop.node, *copy)
        if back and isinstance(loop.node, ast.For):
            splice.replace(loop.node.target, names.back)
            turned = f"{loop.variable} = {names.first} - {found.block} - {names.back}"
            splice.insert_before(loop.node.body[0], turned)


def _copied(
    splice: Splice,
    loop: Loop,
    found: Passes,
    names: _Names,
    statement: ast.stmt,
) -> str:
    """A statement of a body for the held part: its own block, start and names."""
    held = {found.block: names.held, loop.variable: names.first, **names.fresh}
    replaced: dict[ast.AST, str] = {
        n: held[n.id] for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id in held
    }
    return splice.text_with(statement, replaced)


PART_ON_CHIP = Edit(
    id="part-on-chip",
    says="hold the end of a long row in registers, and walk only the rest again",
    parameters=(
        EditParameter(
            name="part",
            says="which part of the row's next power of two is held: 4 holds a quarter",
            kind="int",
            default=4,
            grid=(4, 8, 2),
        ),
        EditParameter(
            name="block",
            says="elements of a step over the rest; 0 leaves the block as it is",
            kind="int",
            default=0,
            grid=(16384, 8192),
        ),
        with_warps(32, 16),
        EditParameter(
            name="back",
            says="walk the last pass over the rest backwards",
            kind="flag",
            default=False,
            grid=(True, False),
        ),
    ),
    find=_find,
    change=_change,
)
