"""Loads the tiles of a product through tensor descriptors, which the TMA unit of sm_90 copies.

The host makes the descriptor from what the launch already passes: tensor, extents and a row's
length. Elements beyond an extent read as zero, which is what the masks gave. The TMA unit wants
rows that begin at multiples of 16 bytes (CUDA driver API, cuTensorMapEncodeTiled).
"""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.blocks import settable
from workbench.kernels.edits.dead import without_unread
from workbench.kernels.edits.launching import host_names, host_statement
from workbench.kernels.edits.sites import literal
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import Access, JitKernel

_MODULE = "triton.tools.tensor_descriptor"


@dataclass(frozen=True, eq=False)
class _Index:
    """`first + tl.arange(0, BLOCK)` along one axis of a tile."""

    name: str
    first: ast.expr
    block: str
    axis: int
    """0 for `name[:, None]`, 1 for `name[None, :]`."""


@dataclass(frozen=True, eq=False)
class _Tile:
    """A load of a tile from a matrix whose rows are contiguous."""

    access: Access
    row: _Index
    column: _Index
    rows: str
    """Parameters: the matrix's extents."""
    columns: str

    @property
    def transposed(self) -> bool:
        """Whether the tile holds the matrix's rows along its second axis."""
        return self.row.axis == 1


def _tile(kernel: JitKernel, access: Access) -> _Tile:
    """Raises EditRefused for a load of another form."""
    line = access.line
    if kernel.names.op(access.call) != "load" or not access.base:
        raise EditRefused(f"line {line} is not a plain load")
    terms = _terms(access.pointer)
    row = column = None
    length = ""
    for term in terms:
        match term:
            case ast.Name(id=name) if name == access.base:
                pass
            case ast.BinOp(left=index, op=ast.Mult(), right=ast.Name(id=name)) if row is None:
                row, length = _index(kernel, index), name
            case ast.Subscript() if column is None:
                column = _index(kernel, term)
            case _:
                raise EditRefused(f"line {line} is not `matrix + row * length + column`")
    if row is None or column is None or row.axis == column.axis or len(terms) != 3:
        raise EditRefused(f"line {line} is not `matrix + row * length + column`")
    bounds = dict(_bounds(kernel, access))
    if bounds.get(column.name) != length or row.name not in bounds or len(bounds) != 2:
        raise EditRefused(f"line {line} is not masked at both ends of the matrix")
    if access.other is not None and literal(access.other) != 0:
        raise EditRefused(f"line {line} fills with something else than zero")
    return _Tile(access, row, column, bounds[row.name], length)


def _terms(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_terms(left), *_terms(right)]
        case _:
            return [node]


def _index(kernel: JitKernel, node: ast.expr) -> _Index | None:
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[a, b])):
            axis = 0 if isinstance(b, ast.Constant) and b.value is None else 1
            kept = a if axis == 0 else b
            if not isinstance(kept, ast.Slice):
                return None
        case _:
            return None
    match kernel.flow.known(name):
        case ast.BinOp(left=first, op=ast.Add(), right=arange):
            match kernel.flow.arange(arange):
                case ast.Name(id=block) if block in kernel.constexprs:
                    return _Index(name, first, block, axis)
                case _:
                    return None
        case _:
            return None


def _bounds(kernel: JitKernel, access: Access) -> list[tuple[str, str]]:
    """(index, dimension) of every part of the mask."""
    found = []
    for part in kernel.mask_parts(access.mask):
        bound = kernel.bound(part)
        inner = bound[1] if bound is not None else None
        while isinstance(inner, ast.Subscript):
            inner = inner.value
        if bound is None or not isinstance(inner, ast.Name):
            raise EditRefused(f"line {access.line} is masked by more than the matrix's ends")
        found.append((inner.id, bound[0]))
    return found


def _tiles(source: Source, kernel: JitKernel) -> list[_Tile]:
    """Loads of product tiles in loops that can go through descriptors."""
    if not kernel.dots:
        raise EditRefused("the kernel has no matrix product")
    reasons = ["no tile of a product is loaded in a loop"]
    found = []
    for access in kernel.loads:
        try:
            if access.loops:
                found.append(_checked(source, kernel, access))
        except EditRefused as refused:
            reasons.append(refused.why)
    if not found:
        raise EditRefused(reasons[-1])
    return found


def _checked(source: Source, kernel: JitKernel, access: Access) -> _Tile:
    tile = _tile(kernel, access)
    others = [a for a in kernel.accesses if a.base == access.base and a is not access]
    if others:
        raise EditRefused(f"`{access.base}` is read or written elsewhere too")
    used = [
        n
        for s in kernel.node.body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and n.id == access.base and n not in ast.walk(access.pointer)
    ]
    if used:
        raise EditRefused(f"`{access.base}` is used beside its load")
    launches = source.launches_of(kernel.name)
    if source.autotuned(kernel) or not launches:
        raise EditRefused("the kernel is autotuned, or not launched in a form that can be read")
    for launch in launches:
        _check_launch(source, kernel, launch, tile)
    return tile


def _check_launch(source: Source, kernel: JitKernel, launch: LaunchSite, tile: _Tile) -> None:
    if launch.starred or launch.scope.function is None:
        raise EditRefused(f"line {launch.line} launches outside a function, or hides arguments")
    for name in (tile.access.base, tile.rows, tile.columns, tile.row.block, tile.column.block):
        if launch.argument(kernel, name) is None:
            raise EditRefused(f"line {launch.line} does not show what `{name}` is")
    for block in (tile.row.block, tile.column.block):
        settable(source, kernel, block)


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _tiles(source, kernel)
    return (
        Anchor(
            lines=tuple(tile.access.line for tile in found),
            says=f"tiles of {', '.join(tile.access.base for tile in found)}",
        ),
    )


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    found = _tiles(source, kernel)
    splice = Splice(source)
    for tile in found:
        firsts = (splice.text(tile.row.first), splice.text(tile.column.first))
        if any("\n" in text for text in firsts):
            raise EditRefused(f"an index of line {tile.access.line} spans several lines")
        loaded = f"{tile.access.base}.load([{firsts[0]}, {firsts[1]}])"
        splice.replace(tile.access.call, f"{loaded}.T" if tile.transposed else loaded)
    for launch in source.launches_of(kernel.name):
        _describe(splice, kernel, launch, found)
    if not _imported(source):
        splice.insert_after(_last_import(source), f"from {_MODULE} import TensorDescriptor")
    return without_unread(splice.result(), kernel.name)


def _describe(splice: Splice, kernel: JitKernel, launch: LaunchSite, found: list[_Tile]) -> None:
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
    for tile in found:
        rows, columns, base = (
            launch.argument(kernel, n) for n in (tile.rows, tile.columns, tile.access.base)
        )
        if rows is None or columns is None or base is None:
            raise EditRefused(f"line {launch.line} does not show what a descriptor needs")
        n, m = splice.text(columns), splice.text(rows)
        shape = f"[{m}, {n}], [{n}, 1], [{sizes[tile.row.block]}, {sizes[tile.column.block]}]"
        text = f"TensorDescriptor({splice.text(base)}, {shape})"
        (name,) = host_names(splice.source, launch, f"{_stem(splice.text(base))}_tiles")
        lines.append(f"{name} = {text}")
        splice.replace(base, name)
    splice.insert_before(host_statement(launch), *lines)


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
    find=_find,
    change=_change,
)
