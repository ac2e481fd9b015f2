"""Moves the tiles of a product through tensor descriptors, which the TMA unit of sm_90 copies.

The host makes the descriptor from what the launch already passes: tensor, extents and a row's
length. Elements beyond an extent read as zero and are not stored, which is what the masks gave. The
TMA unit wants rows that begin at multiples of 16 bytes (CUDA driver API, cuTensorMapEncodeTiled).
"""

import ast

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.blocks import settable
from workbench.kernels.edits.dead import without_unread
from workbench.kernels.edits.launching import host_names, host_statement
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.sites import literal
from workbench.kernels.edits.splice import Splice
from workbench.kernels.edits.tiles import Tile, check_alone, element_types, tile_of
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import Access, JitKernel

_MODULE = "triton.tools.tensor_descriptor"


def _tiles(source: Source, kernel: JitKernel, stores: bool = True) -> list[Tile]:
    """Loads of product tiles in loops, and stores of tiles, that can go through descriptors."""
    if not kernel.dots:
        raise EditRefused("the kernel has no matrix product")
    reasons = ["no tile of a product is loaded in a loop"]
    found = []
    for access in kernel.accesses:
        wanted = bool(access.loops) if access.kind == "load" else stores
        try:
            if wanted:
                found.append(_checked(source, kernel, access))
        except EditRefused as refused:
            reasons.append(refused.why)
    if not found:
        raise EditRefused(reasons[-1])
    return found


def _checked(source: Source, kernel: JitKernel, access: Access) -> Tile:
    tile = tile_of(kernel, access)
    check_alone(kernel, tile)
    if access.kind == "store" and tile.batch is not None:
        raise EditRefused(f"line {access.line} stores to one matrix of several")
    launches = source.launches_of(kernel.name)
    if source.autotuned(kernel) or not launches:
        raise EditRefused("the kernel is autotuned, or not launched in a form that can be read")
    for launch in launches:
        _check_launch(source, kernel, launch, tile)
    return tile


def _check_launch(source: Source, kernel: JitKernel, launch: LaunchSite, tile: Tile) -> None:
    if launch.starred or launch.scope.function is None:
        raise EditRefused(f"line {launch.line} launches outside a function, or hides arguments")
    shown = (tile.access.base, tile.rows, tile.columns, tile.length)
    for name in (*shown, tile.row.block, tile.column.block):
        if launch.argument(kernel, name) is None:
            raise EditRefused(f"line {launch.line} does not show what `{name}` is")
    for block in tile.blocks:
        settable(source, kernel, block)


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _tiles(source, kernel)
    return (
        Anchor(
            lines=tuple(tile.access.line for tile in found),
            says=f"tiles of {', '.join(tile.access.base for tile in found)}",
        ),
    )


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    found = _tiles(source, kernel, bool(parameters["stores"]))
    splice = Splice(source)
    kinds = {n: t.access.base for t in found for n in element_types(kernel, t.access.base)}
    for tile in found:
        if tile.access.kind == "load":
            splice.replace(tile.access.call, _loaded(splice, kernel, tile))
        else:
            splice.replace(tile.access.call, _stored(splice, kernel, tile, kinds))
    stored = {id(n) for t in found if t.access.value for n in ast.walk(t.access.value)}
    for node, base in kinds.items():
        if id(node) not in stored:
            splice.replace(node, f"{base}.dtype")
    for launch in source.launches_of(kernel.name):
        _describe(splice, kernel, launch, found)
    if not _imported(source):
        splice.insert_after(_last_import(source), f"from {_MODULE} import TensorDescriptor")
    return without_unread(splice.result(), kernel.name)


def _loaded(splice: Splice, kernel: JitKernel, tile: Tile) -> str:
    """The load of a tile through its descriptor, in the tile's own shape."""
    loaded = f"{tile.access.base}.load([{_places(splice, kernel, tile)}])"
    if tile.batch is not None:
        loaded = f"{loaded}.reshape([{tile.row.block}, {tile.column.block}])"
    return f"{loaded}.T" if tile.transposed else loaded


def _stored(splice: Splice, kernel: JitKernel, tile: Tile, kinds: dict[ast.Attribute, str]) -> str:
    """The store of a tile through its descriptor; what lies beyond the matrix is left out."""
    value = tile.access.value
    if value is None:
        raise EditRefused(f"line {tile.access.line} does not show what it stores")
    inside = {id(n) for n in ast.walk(value)}
    asked: dict[ast.AST, str] = {n: f"{b}.dtype" for n, b in kinds.items() if id(n) in inside}
    text = splice.text_with(value, asked)
    if tile.transposed:
        text = f"({text}).T"
    return f"{tile.access.base}.store([{_places(splice, kernel, tile)}], {text})"


def _places(splice: Splice, kernel: JitKernel, tile: Tile) -> str:
    """Where a tile begins, a number for each axis of its descriptor."""
    places = [_place(splice, tile.row.first), _place(splice, tile.column.first)]
    if tile.batch is not None:
        batch = splice.text(tile.batch)
        if kernel.names.op(tile.batch) != "program_id":
            # Coordinates are 32 bits wide; an offset is often made in 64.
            batch = f"({batch}).to({spelled(splice.source, 'tl.int32')})"
        places.insert(0, batch)
    text = ", ".join(places)
    if "\n" in text:
        raise EditRefused(f"an index of line {tile.access.line} spans several lines")
    return text


def _place(splice: Splice, first: ast.expr | None) -> str:
    return "0" if first is None else splice.text(first)


def _describe(splice: Splice, kernel: JitKernel, launch: LaunchSite, found: list[Tile]) -> None:
    """Descriptors above a launch, and block sizes as names that both of them read."""
    blocks = dict.fromkeys(b for tile in found for b in (tile.row.block, tile.column.block))
    lines: list[str] = []
    sizes: dict[str, str] = {}
    for block in blocks:
        given = launch.argument(kernel, block)
        if given is None or literal(given) is None:
            sizes[block] = "" if given is None else splice.text(given)
            continue
        (sizes[block],) = host_names(splice.source, launch, block.lower())
        lines.append(f"{sizes[block]} = {splice.text(given)}")
        splice.replace(given, sizes[block])
    lines += [_descriptor(splice, kernel, launch, tile, sizes) for tile in found]
    splice.insert_before(host_statement(launch), *lines)


def _descriptor(
    splice: Splice, kernel: JitKernel, launch: LaunchSite, tile: Tile, sizes: dict[str, str]
) -> str:
    """The line that makes a tile's descriptor; the launch is given its name."""
    needed = (tile.rows, tile.columns, tile.length, tile.access.base)
    given = [launch.argument(kernel, name) for name in needed]
    rows, columns, length, base = given
    if rows is None or columns is None or length is None or base is None:
        raise EditRefused(f"line {launch.line} does not show what a descriptor needs")
    texts = [
        sizes.get(name) or splice.text(node)
        for name, node in zip(needed, given, strict=True)
        if node
    ]
    m, n, stride, tensor = texts
    shape, strides, block = [m, n], [stride, "1"], [sizes[tile.row.block], sizes[tile.column.block]]
    if tile.batch is not None:
        matrix = f"{_factor(rows, m)} * {_factor(length, stride)}"
        shape.insert(0, f"{_factor(base, tensor)}.numel() // ({matrix})")
        strides.insert(0, matrix)
        block.insert(0, "1")
    (name,) = host_names(splice.source, launch, f"{_stem(tensor)}_tiles")
    splice.replace(base, name)
    parts = ", ".join(f"[{', '.join(part)}]" for part in (shape, strides, block))
    return f"{name} = TensorDescriptor({tensor}, {parts})"


def _factor(node: ast.expr, text: str) -> str:
    plain = isinstance(node, ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript)
    return text if plain else f"({text})"


def _stem(text: str) -> str:
    return text if text.isidentifier() else "matrix"


def _imported(source: Source) -> bool:
    return any(
        isinstance(s, ast.ImportFrom)
        and s.module == _MODULE
        and any(a.name == "TensorDescriptor" and a.asname is None for a in s.names)
        for s in source.tree.body
    )


def _last_import(source: Source) -> ast.stmt:
    imports = [s for s in source.tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
    if not imports or any("TensorDescriptor" in names_in(s) for s in source.tree.body):
        raise EditRefused("there is no place for the descriptors' import")
    return imports[-1]


DESCRIPTORS = Edit(
    id="descriptors",
    says="load a product's tiles through tensor descriptors, which one thread asks for",
    parameters=(
        EditParameter(
            name="stores",
            says="store the result's tiles through descriptors too",
            kind="flag",
            default=True,
            grid=(True, False),
        ),
    ),
    find=_find,
    change=_change,
)
