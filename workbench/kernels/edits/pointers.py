"""Takes tensor descriptors out: each load and store computes its own addresses and masks again.

The other way round than `descriptors`. What a descriptor says of its tensor becomes arithmetic in
the kernel: extents bound masks, strides are factors, and the block's extents are ranges.
"""

import ast
from dataclasses import dataclass, field

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.described import Described, described
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.order import program_ids
from workbench.kernels.edits.sites import literal
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import Access, JitKernel

_AXES = ("rows", "cols")


@dataclass(frozen=True, eq=False)
class _Use:
    """A load or store through a descriptor, with what is done to the loaded block's shape."""

    access: Access
    whole: ast.expr
    """The load with its `.reshape(...)` and `.T`."""
    firsts: tuple[ast.expr, ...]
    transposed: bool


def _uses(kernel: JitKernel, found: Described) -> list[_Use]:
    """Raises EditRefused when the descriptor is used for anything but loads and stores."""
    uses, known = [], set()
    for access in kernel.accesses:
        if kernel.by_descriptor(access) and access.pointer in found.names(kernel):
            uses.append(_use(kernel, access, found))
            known.add(id(access.pointer))
    for name in found.names(kernel):
        holder = kernel.parents[name]
        of_type = isinstance(holder, ast.Attribute) and holder.attr == "dtype"
        if id(name) not in known and not of_type:
            raise EditRefused(f"line {name.lineno} does something else with a descriptor")
    if not uses:
        raise EditRefused(f"`{found.name}` is never loaded from or stored to")
    return uses


def _use(kernel: JitKernel, access: Access, found: Described) -> _Use:
    places = access.call.args[0] if access.call.args else None
    if not isinstance(places, ast.List | ast.Tuple) or len(places.elts) != len(found.shape):
        raise EditRefused(f"line {access.line} does not spell its coordinates out")
    kept = [i for i, block in enumerate(found.block) if block != "1"]
    if len(kept) != 2:
        raise EditRefused(f"line {access.line} does not move a block of two dimensions")
    whole: ast.expr = access.call
    flat, transposed = len(found.shape) == 2, False
    while True:
        holder = kernel.parents[whole]
        call = kernel.parents.get(holder)
        match holder:
            case ast.Attribute(attr="T"):
                whole, transposed = holder, not transposed
            case ast.Attribute(attr="reshape") if isinstance(call, ast.Call) and not flat:
                whole, flat = call, True
            case _:
                break
    if not flat or (access.kind == "store" and len(found.shape) != 2):
        raise EditRefused(f"line {access.line} keeps the axes of extent one")
    return _Use(access, whole, tuple(places.elts), transposed)


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = described(source, kernel)
    for one in found:
        _uses(kernel, one)
    lines = {u.access.line for one in found for u in _uses(kernel, one)}
    names = ", ".join(one.name for one in found)
    return (Anchor(lines=tuple(sorted(lines)), says=f"blocks of {names}"),)


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    found = described(source, kernel)
    splice, names = Splice(source), FreeNames(kernel)
    for one in found:
        for use in _uses(kernel, one):
            _rewrite(splice, kernel, one, use, names)
        for name in one.names(kernel):
            holder = kernel.parents[name]
            if isinstance(holder, ast.Attribute) and holder.attr == "dtype":
                splice.replace(holder, f"{one.pointer}.dtype.element_ty")
        one.leave(splice, kernel)
    return without_import(splice.result())


@dataclass
class _Block:
    """Addresses and masks of one block, spelled out."""

    terms: list[str]
    """Summands of the address."""
    masks: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """Statements that compute them, one for each axis and maybe one for the mask."""


def _spelled_out(
    splice: Splice, kernel: JitKernel, found: Described, use: _Use, names: FreeNames
) -> _Block:
    arange, wide = spelled(splice.source, "tl.arange"), spelled(splice.source, "tl.int64")
    stem = found.name.removesuffix("_ptr").removesuffix("_desc")
    axes = ["[:, None]", "[None, :]"]
    if use.transposed:
        axes.reverse()
    made = _Block([found.pointer])
    for place, first in enumerate(use.firsts):
        if found.block[place] == "1":
            made.terms.append(f"{_one(splice, kernel, first)}.to({wide}) * {found.strides[place]}")
            continue
        kept = len(made.lines)
        index, axis = names.take(f"{stem}_{_AXES[kept]}"), axes[kept]
        block, extent = found.block[place], found.shape[place]
        zero = literal(first) == 0
        ranged = f"{arange}(0, {block})"
        made.lines.append(f"{index} = {ranged if zero else f'{_term(splice, first)} + {ranged}'}")
        stride = found.strides[place]
        term = f"{index}{axis}"
        made.terms.append(term if stride == "1" else f"{term}.to({wide}) * {stride}")
        if not (zero and block == extent):
            made.masks.append(f"{term} < {extent}")
    if len(made.masks) > 1:
        mask = " & ".join(f"({m})" for m in made.masks)
        made.lines.append(f"{(held := names.take(f'{stem}_mask'))} = {mask}")
        made.masks = [held]
    return made


def _rewrite(
    splice: Splice, kernel: JitKernel, found: Described, use: _Use, names: FreeNames
) -> None:
    made = _spelled_out(splice, kernel, found, use, names)
    mask = "".join(made.masks)
    splice.insert_before(kernel.statement(use.access.call), *made.lines)
    address = " + ".join(made.terms)
    if use.access.kind == "load":
        options = "".join(
            f", {k.arg}={splice.text(k.value)}" for k in use.access.call.keywords if k.arg in _KEPT
        )
        masked = f", mask={mask}, other=0.0" if mask else ""
        load = spelled(splice.source, "tl.load")
        splice.replace(use.whole, f"{load}({address}{masked}{options})")
        return
    # What is stored may read the descriptor's dtype, which is replaced by itself.
    splice.replace(use.access.call.func, spelled(splice.source, "tl.store"))
    splice.replace(use.access.call.args[0], address)
    if mask:
        splice.set_keyword(use.access.call, "mask", mask)


_KEPT = frozenset({"cache_modifier", "eviction_policy"})


def _term(splice: Splice, node: ast.expr) -> str:
    text = splice.text(node)
    if "\n" in text:
        raise EditRefused(f"a coordinate of line {node.lineno} spans several lines")
    simple = isinstance(node, ast.Name | ast.Call | ast.Constant | ast.Attribute | ast.Subscript)
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Add | ast.Sub)
    return text if simple or product else f"({text})"


def _one(splice: Splice, kernel: JitKernel, first: ast.expr) -> str:
    """A coordinate along an axis of extent one, where it needs no mask.

    The id of a program does not leave the axis that its grid was made for.
    """
    programs = [call for calls in program_ids(kernel).values() for call in calls]
    if kernel.flow.resolve(first) not in programs:
        raise EditRefused(f"line {first.lineno} may leave an axis of the tensor")
    return splice.text(first)


def without_import(text: str) -> str:
    """The text without an import of `TensorDescriptor` that nothing needs any more."""
    source = Source(text)
    reads = any(
        isinstance(n, ast.Name) and n.id == "TensorDescriptor" for n in ast.walk(source.tree)
    )
    for statement in source.tree.body:
        match statement:
            case ast.ImportFrom(names=[ast.alias(name="TensorDescriptor", asname=None)]) if (
                not reads
            ):
                splice = Splice(source)
                splice.remove(statement)
                return splice.result()
            case _:
                pass
    return text


POINTERS = Edit(
    id="pointers",
    says="load and store blocks by addresses and masks of their own, not through descriptors",
    find=_find,
    change=_change,
)
