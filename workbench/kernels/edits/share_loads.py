"""Loads the same elements once: later loads of straight-line code reuse what a name holds."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.numbering import Numbering
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source, read_source
from workbench.kernels.source_flow import same
from workbench.kernels.source_kernel import Access, JitKernel


@dataclass(frozen=True, eq=False)
class _Occurrence:
    """One load in straight-line code, with the casts around it."""

    access: Access
    value: ast.expr
    """The load, or its outermost cast."""
    statement: ast.stmt
    key: str
    """What is loaded, and as what type."""

    @property
    def name(self) -> str:
        """The name that the statement gives to the loaded value and nothing more; else empty."""
        match self.statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is self.value:
                return name
            case _:
                return ""


def share_loads(text: str, kernel: str) -> str:
    """The text with repeated loads and repeated assignments of one kernel's top level left out."""
    return _reuse(_name_first_loads(text, kernel), kernel)


def _occurrences(kernel: JitKernel) -> Iterator[_Occurrence]:
    numbering = Numbering(kernel)
    by_statement: dict[ast.stmt, list[Access]] = {}
    for access in kernel.loads:
        by_statement.setdefault(kernel.statement(access.call), []).append(access)
    for statement in kernel.node.body:
        for access in by_statement.get(statement, []):
            value = _with_casts(kernel, access.call)
            casts = ast.dump(value).replace(ast.dump(access.call), "")
            yield _Occurrence(access, value, statement, numbering.load_key(access) + casts)
        numbering.step(statement)


def _with_casts(kernel: JitKernel, node: ast.expr) -> ast.expr:
    while True:
        holder = kernel.parents[node]
        call = kernel.parents.get(holder)
        is_cast = isinstance(holder, ast.Attribute) and holder.attr == "to"
        if not is_cast or not isinstance(call, ast.Call) or call.func is not holder:
            return node
        node = call


def _name_first_loads(text: str, name: str) -> str:
    """Give a name to every load that is repeated and first stands inside a larger expression."""
    source, kernel = _read(text, name)
    groups: dict[str, list[_Occurrence]] = {}
    for occurrence in _occurrences(kernel):
        groups.setdefault(occurrence.key, []).append(occurrence)
    splice = Splice(source)
    names = FreeNames(kernel)
    for group in groups.values():
        first = group[0]
        if len(group) == 1 or first.name:
            continue
        stem = f"{first.access.base.removesuffix('_ptr') or 'loaded'}_held"
        chosen = _later_name(kernel, group) or names.take(stem)
        splice.insert_before(first.statement, f"{chosen} = {splice.text(first.value)}")
        splice.replace(first.value, chosen)
    return splice.result()


def _later_name(kernel: JitKernel, group: list[_Occurrence]) -> str:
    """The name that the later loads use, when it never holds anything else."""
    names = {o.name for o in group[1:]}
    if len(names) != 1 or "" in names:
        return ""
    name = names.pop()
    loads = {o.statement for o in group}
    others = [d for d in kernel.flow.definitions[name] if d.statement not in loads]
    return "" if others or name in kernel.flow.parameters else name


def _reuse(text: str, name: str) -> str:
    source, kernel = _read(text, name)
    splice = Splice(source)
    numbering = Numbering(kernel)
    held: dict[str, list[tuple[_Occurrence, int]]] = {}
    loads = {o.statement: o for o in _occurrences(kernel) if o.name}
    for statement in kernel.node.body:
        occurrence = loads.get(statement)
        earlier = None
        if occurrence is not None:
            holders = held.setdefault(occurrence.key, [])
            earlier = next(
                (o for o, number in holders if numbering.names.get(o.name) == number), None
            )
        if occurrence is not None and earlier is not None and _replaceable(occurrence, earlier):
            _replace_load(splice, occurrence, earlier)
            if _keeps(occurrence, earlier):
                continue
            numbering.forget(occurrence.name)
        elif not numbering.step(statement):
            splice.remove(statement)
        elif occurrence is not None:
            held[occurrence.key].append((occurrence, numbering.names[occurrence.name]))
    return splice.result()


def _keeps(later: _Occurrence, earlier: _Occurrence) -> bool:
    """Whether the name already holds what the later load would give it."""
    unmasked = later.access.mask is None or later.access.other is None
    fits = unmasked or same(later.access.other, earlier.access.other)
    return fits and later.name == earlier.name


def _replaceable(later: _Occurrence, earlier: _Occurrence) -> bool:
    """Whether the later value can be written without a load; not under a mask that may be None."""
    return not isinstance(later.access.mask, ast.IfExp) or same(
        later.access.other, earlier.access.other
    )


def _replace_load(splice: Splice, later: _Occurrence, earlier: _Occurrence) -> None:
    if _keeps(later, earlier):
        splice.remove(later.statement)
        return
    mask, other = later.access.mask, later.access.other
    if mask is None or other is None or same(other, earlier.access.other):
        splice.replace(later.value, earlier.name)
        return
    where = spelled(splice.source, "tl.where")
    splice.replace(
        later.value, f"{where}({splice.text(mask)}, {earlier.name}, {splice.text(other)})"
    )


def _read(text: str, name: str) -> tuple[Source, JitKernel]:
    source = read_source(text)
    kernel = source.kernel(name)
    if kernel is None:
        raise KeyError(name)
    return source, kernel
