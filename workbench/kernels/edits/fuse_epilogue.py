"""Applies an elementwise kernel to what another kernel stores, and launches it no more.

The second kernel's block of flat places becomes the offset that the first one stores at, so that
its other arguments are loaded there too.
"""

import ast
from collections.abc import Iterator

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.dead import without_unread
from workbench.kernels.edits.fusing import (
    Pair,
    Words,
    dedented,
    pair,
    rewrite_host,
    without_unread_locals,
)
from workbench.kernels.edits.ranks import is_elementwise
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import is_bare_constant, names_in
from workbench.kernels.source_kernel import Access, JitKernel

_ONCE = frozenset({"program_id", "arange", "load", "store"})


def _match(source: Source, kernel: JitKernel) -> tuple[Pair, str]:
    """The pair of launches, and what the second kernel calls its block of places."""
    found = pair(source, kernel)
    places = _places(found.consumer)
    _check_flat(found, places)
    stores = [a for a in kernel.accesses if a.base == found.stored]
    if len(stores) != 1 or stores[0].op != "store" or kernel.by_descriptor(stores[0]):
        raise EditRefused(f"`{found.between}` is not stored to in exactly one place")
    if not isinstance(kernel.statement(stores[0].call), ast.Expr):
        raise EditRefused(f"line {stores[0].line} does more than store")
    return found, places


def _places(consumer: JitKernel) -> str:
    """`places` of `places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)`."""
    for name in consumer.flow.definitions:
        match consumer.flow.single(name):
            case ast.BinOp(
                left=ast.BinOp(left=first, op=ast.Mult(), right=ast.Name(id=block)),
                op=ast.Add(),
                right=arange,
            ):
                extent = consumer.flow.arange(arange)
            case _:
                continue
        ids = [c for c in consumer.calls("program_id") if c in set(_behind(consumer, first))]
        if len(ids) == 1 and isinstance(extent, ast.Name) and extent.id == block:
            return name
    raise EditRefused(f"`{consumer.name}` has no block of flat places")


def _behind(kernel: JitKernel, node: ast.expr) -> Iterator[ast.AST]:
    ahead: list[ast.AST] = [node]
    while ahead:
        current = ahead.pop()
        yield current
        behind = kernel.flow.single(current.id) if isinstance(current, ast.Name) else None
        ahead += [behind] if behind is not None else []
        ahead += ast.iter_child_nodes(current)


def _check_flat(found: Pair, places: str) -> None:
    consumer = found.consumer
    for statement in consumer.node.body:
        texts = is_bare_constant(statement)
        store = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        if not isinstance(statement, ast.Assign | ast.AugAssign) and not texts and not store:
            raise EditRefused(f"line {statement.lineno} is more than elementwise work")
        for node in ast.walk(statement):
            _check_elementwise(consumer, node)
    if len(consumer.calls("program_id")) != 1 or len(consumer.calls("arange")) != 1:
        raise EditRefused(f"`{consumer.name}` is more than elementwise work")
    for access in consumer.accesses:
        flat = _is_flat(access, places)
        if access.base in {found.loaded, found.result} and not flat:
            raise EditRefused(f"line {access.line} does not move the block of places")
        parts = list(consumer.mask_parts(access.mask))
        if any(places not in consumer.flow.reaches(part) for part in parts) or len(parts) > 1:
            raise EditRefused(f"line {access.line} is masked by more than the end of the tensor")


def _is_flat(access: Access, places: str) -> bool:
    match access.pointer:
        case ast.BinOp(left=ast.Name(id=base), op=ast.Add(), right=ast.Name(id=name)):
            return base == access.base and name == places
        case _:
            return False


def _check_elementwise(consumer: JitKernel, node: ast.AST) -> None:
    if isinstance(node, ast.Subscript):
        raise EditRefused(f"line {node.lineno} is more than elementwise work")
    if not isinstance(node, ast.Call):
        return
    op = consumer.names.op(node)
    method = isinstance(node.func, ast.Attribute) and node.func.attr == "to"
    plain = isinstance(node.func, ast.Name) and node.func.id in {"float", "int"}
    if not (op in _ONCE or is_elementwise(op) or method or plain):
        raise EditRefused(f"line {node.lineno} is more than elementwise work")


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found, _ = _match(source, kernel)
    return (
        Anchor(
            lines=(found.first.line, found.second.line),
            says=f"{found.consumer.name} of {found.between} in {kernel.name}",
        ),
    )


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    found, places = _match(source, kernel)
    splice = Splice(source)
    words = Words(splice, found)
    (store,) = (a for a in kernel.accesses if a.base == found.stored)
    statement = kernel.statement(store.call)
    splice.replace_statement(statement, *_lines(splice, words, found, store, places))
    rewrite_host(splice, found, words.added)
    names = frozenset({found.between}) | names_in(found.second.call)
    return without_unread_locals(without_unread(splice.result(), kernel.name), kernel.name, names)


def _lines(splice: Splice, words: Words, found: Pair, store: Access, places: str) -> Iterator[str]:
    """The consumer's work on what the producer is about to store, and the store."""
    consumer = found.consumer
    if store.value is None:
        raise EditRefused(f"line {store.line} stores nothing that can be read")
    kind = f"{found.stored}.dtype.element_ty"
    value, held = splice.text(store.value), words.fresh("stored")
    cast = value.replace(" ", "").endswith(f".to({kind})")
    words.renamed[found.result] = found.stored
    tight = value if isinstance(store.value, ast.Name | ast.Call) else f"({value})"
    yield f"{held} = {value if cast else f'{tight}.to({kind})'}"
    offset = _offset(splice, found.producer, store)
    flat = offset if offset.isidentifier() else words.fresh("place")
    words.renamed[places] = flat
    replaced: dict[ast.AST, str] = {}
    for access in consumer.loads:
        if access.base == found.loaded:
            replaced[access.call] = held
        elif access.mask is not None:
            replaced |= _masked(splice, store, access)
    body = [s for s in consumer.node.body if not _is_address(consumer, s, places)]
    texts = [line for s in body for line in dedented(splice, s, words.translated(s, replaced))]
    if flat != offset and any(flat in line for line in texts):
        yield f"{flat} = {offset}"
    yield from texts
    (last,) = consumer.stores
    result = "" if last.value is None else words.translated(last.value, replaced)
    statement = found.producer.statement(store.call)
    yield from dedented(splice, statement, splice.text_with(statement, {store.value: result}))


def _masked(splice: Splice, store: Access, access: Access) -> dict[ast.AST, str]:
    """The mask of the producer's store in the place of a load's own."""
    if access.mask is None:
        return {}
    if store.mask is None or isinstance(store.mask, ast.IfExp):
        raise EditRefused(f"line {access.line} is masked, and line {store.line} may not be")
    return {access.mask: splice.text(store.mask)}


def _is_address(consumer: JitKernel, statement: ast.stmt, places: str) -> bool:
    """Whether a statement of the consumer only says where it works, or is its store or a text."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            masks = [a.mask for a in consumer.accesses if isinstance(a.mask, ast.Name)]
            of_mask = any(isinstance(m, ast.Name) and m.id == name for m in masks)
            held = set(ast.walk(value))
            first = any(c in held for c in consumer.calls("program_id", "arange"))
            return name == places or of_mask or first
        case _:
            return isinstance(statement, ast.Expr)


def _offset(splice: Splice, kernel: JitKernel, store: Access) -> str:
    """The offset from the tensor's first element that the producer stores at."""
    terms = list(_terms(kernel, store.pointer, store.base))
    if sum(isinstance(t, ast.Name) and t.id == store.base for t in terms) != 1:
        raise EditRefused(f"the offset of line {store.line} could not be read")
    kept = [splice.text(t) for t in terms if not (isinstance(t, ast.Name) and t.id == store.base)]
    return " + ".join(kept)


def _terms(kernel: JitKernel, node: ast.expr, base: str) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _terms(kernel, left, base)
            yield from _terms(kernel, right, base)
        case ast.Name(id=name) if name != base and base in kernel.flow.closure(name):
            behind = kernel.flow.single(name)
            if behind is None:
                raise EditRefused(f"`{name}` is computed in more than one way")
            yield from _terms(kernel, behind, base)
        case _:
            yield node


FUSE_EPILOGUE = Edit(
    id="fuse-epilogue",
    says="apply an elementwise kernel to what the kernel before it stores, in one launch",
    find=_find,
    change=_change,
)
