"""Tiles in memory: which matrix a block of addresses walks, from where, and where it ends."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.ranks import rank
from workbench.kernels.edits.sites import literal
from workbench.kernels.source_flow import reads_of, unspread
from workbench.kernels.source_kernel import Access, JitKernel


@dataclass(frozen=True, eq=False)
class Index:
    """`first + tl.arange(0, BLOCK)` along one axis of a tile."""

    name: str
    first: ast.expr | None
    """None for `tl.arange(0, BLOCK)` alone, which covers its dimension."""
    block: str
    axis: int
    """0 for `name[:, None]`, 1 for `name[None, :]`."""


@dataclass(frozen=True, eq=False)
class Tile:
    """A load or store of a tile of a matrix whose rows are contiguous, or of one of a batch."""

    access: Access
    row: Index
    column: Index
    rows: str
    """Parameters: the matrix's extents, and the elements from one row to the next."""
    columns: str
    length: str
    batch: ast.expr | None
    """Which matrix, where matrices of `rows * length` elements follow one another."""
    read: tuple[ast.AST, ...]
    """The address, and what the names in it stand for."""

    @property
    def transposed(self) -> bool:
        """Whether the tile holds the matrix's rows along its second axis."""
        return self.row.axis == 1

    @property
    def blocks(self) -> tuple[str, ...]:
        """Parameters that are an extent of the tile and may get another value."""
        return tuple(i.block for i in (self.row, self.column) if i.first is not None)


def tile_of(kernel: JitKernel, access: Access) -> Tile:
    """Raises EditRefused for a load or store of another form."""
    line = access.line
    if kernel.names.op(access.call) not in {"load", "store"} or not access.base:
        raise EditRefused(f"line {line} is not a plain load or store")
    roots: list[ast.AST] = []
    terms = list(_terms(kernel, access.pointer, access.base, roots))
    scalars = [t for t in terms if rank(kernel, t) == 0]
    blocks = [t for t in terms if t not in scalars]
    row, column, length = _axes(kernel, blocks, line)
    bounds = dict(_bounds(kernel, access))
    rows, columns = bounds.pop(row.name, ""), bounds.pop(column.name, "")
    if column.first is None and not columns:
        columns = column.block
    if not rows or not columns or bounds:
        raise EditRefused(f"line {line} is not masked at both ends of the matrix")
    if access.other is not None and literal(access.other) != 0:
        raise EditRefused(f"line {line} fills with something else than zero")
    if len(scalars) > 1:
        raise EditRefused(f"line {line} is not `matrix + row * length + column`")
    batch = _batch(kernel, scalars[0], rows, length) if scalars else None
    return Tile(access, row, column, rows, columns, length, batch, tuple(roots))


def _terms(
    kernel: JitKernel, node: ast.expr, base: str, roots: list[ast.AST]
) -> Iterator[ast.expr]:
    """The sum that an address is, its base left out; names of sums are looked through."""
    roots.append(node)
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _terms(kernel, left, base, roots)
            yield from _terms(kernel, right, base, roots)
        case ast.Name(id=name) if name == base:
            return
        case ast.Name(id=name):
            match kernel.flow.known(name):
                case ast.BinOp(op=ast.Add(), right=right) as behind if (
                    kernel.flow.arange(right) is None
                ):
                    yield from _terms(kernel, behind, base, roots)
                case _:
                    yield node
        case _:
            yield node


def _axes(kernel: JitKernel, terms: list[ast.expr], line: int) -> tuple[Index, Index, str]:
    """(row, column, length) of `row * length + column`."""
    row = column = None
    length = ""
    for term in terms:
        match term:
            case ast.BinOp(left=index, op=ast.Mult(), right=ast.Name(id=name)) if row is None:
                row, length = _index(kernel, index), name
            case _ if column is None:
                column = _index(kernel, term)
            case _:
                raise EditRefused(f"line {line} is not `matrix + row * length + column`")
    if row is None or column is None or row.axis == column.axis or row.first is None:
        raise EditRefused(f"line {line} is not `matrix + row * length + column`")
    return row, column, length


def _index(kernel: JitKernel, node: ast.expr) -> Index | None:
    match _uncast(node):
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[a, b])):
            axis = 0 if isinstance(b, ast.Constant) and b.value is None else 1
            kept = a if axis == 0 else b
            if not isinstance(kept, ast.Slice):
                return None
        case _:
            return None
    first: ast.expr | None = None
    ranged = kernel.flow.known(name)
    match ranged:
        case ast.BinOp(left=first, op=ast.Add(), right=ranged):
            pass
        case _:
            pass
    extent = kernel.flow.arange(ranged)
    if isinstance(extent, ast.Name) and extent.id in kernel.constexprs:
        return Index(name, first, extent.id, axis)
    return None


def _uncast(node: ast.expr) -> ast.expr:
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[_]):
                node = inner
            case _:
                return node


def _bounds(kernel: JitKernel, access: Access) -> list[tuple[str, str]]:
    """(index, dimension) of every part of the mask."""
    found = []
    for part in kernel.mask_parts(access.mask):
        bound = kernel.bound(part)
        inner = unspread(bound[1]) if bound is not None else None
        if bound is None or not isinstance(inner, ast.Name):
            raise EditRefused(f"line {access.line} is masked by more than the matrix's ends")
        found.append((inner.id, bound[0]))
    return found


def _batch(kernel: JitKernel, node: ast.expr, rows: str, length: str) -> ast.expr:
    """X of `X * rows * length`, which is where matrix X begins. Raises EditRefused otherwise."""
    factors = list(_factors(kernel, node))
    for name in (rows, length):
        place = next((f for f in factors if isinstance(f, ast.Name) and f.id == name), None)
        if place is None:
            raise EditRefused("a matrix does not begin a whole number of matrices from the first")
        factors.remove(place)
    if len(factors) != 1 or kernel.flow.reaches(factors[0]) & {rows, length}:
        raise EditRefused("a matrix does not begin a whole number of matrices from the first")
    return factors[0]


def _factors(kernel: JitKernel, node: ast.expr) -> Iterator[ast.expr]:
    match _uncast(node):
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            yield from _factors(kernel, left)
            yield from _factors(kernel, right)
        case ast.Name(id=name) as inner:
            behind = kernel.flow.known(name)
            product = isinstance(behind, ast.BinOp) and isinstance(behind.op, ast.Mult)
            if behind is not None and product:
                yield from _factors(kernel, behind)
            else:
                yield inner
        case inner:
            yield inner


def check_alone(kernel: JitKernel, tile: Tile) -> None:
    """Refuse unless the tile's load or store is all that the kernel does with the tensor.

    Asking for the type of its elements is not a use of it.
    """
    base = tile.access.base
    if any(a.base == base and a is not tile.access for a in kernel.accesses):
        raise EditRefused(f"`{base}` is read or written elsewhere too")
    ours = {id(n) for root in tile.read for n in ast.walk(root)}
    ours |= {id(n) for asked in element_types(kernel, base) for n in ast.walk(asked)}
    for node in (n for s in kernel.node.body for n in ast.walk(s)):
        if isinstance(node, ast.Name) and node.id == base and id(node) not in ours:
            raise EditRefused(f"`{base}` is used beside its load or store")
    for root in tile.read:
        match root:
            case ast.Name(id=name) if base in kernel.flow.closure(name) and name != base:
                if len(reads_of(name, kernel.node)) != 1:
                    raise EditRefused(f"`{name}` is used beside the access to `{base}`")
            case _:
                pass


def element_types(kernel: JitKernel, base: str) -> Iterator[ast.Attribute]:
    """Every `base.dtype.element_ty` of the kernel's body."""
    for node in (n for s in kernel.node.body for n in ast.walk(s)):
        match node:
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id=name), attr="dtype"), attr="element_ty"
            ) if name == base:
                yield node
            case _:
                pass
