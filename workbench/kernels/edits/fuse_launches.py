"""Runs two kernels of one grid as one, where each program reads only what it has just written.

What goes between them stays in registers: the second kernel's loads of it have the address and the
mask of the first one's store.
"""

import ast
from dataclasses import dataclass

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
from workbench.kernels.edits.grids import grid_of
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import names_in
from workbench.kernels.source_kernel import Access, JitKernel


@dataclass(frozen=True, eq=False)
class _Fit:
    """A pair of launches, with the store and the loads that meet in it."""

    pair: Pair
    store: Access
    loads: tuple[Access, ...]
    same: dict[str, str]
    """Parameters of the second kernel that mean one of the first: blocks stay one size."""


def _match(source: Source, kernel: JitKernel) -> _Fit:
    found = pair(source, kernel)
    if source.autotuned(kernel) or _extents(source, found.first) != _extents(source, found.second):
        raise EditRefused("the two launches do not have the same grid")
    for one in (kernel, found.consumer):
        if any(isinstance(n, ast.Return) for s in one.node.body for n in ast.walk(s)):
            raise EditRefused(f"`{one.name}` returns early")
    stores = [a for a in kernel.accesses if a.base == found.stored]
    loads = [a for a in found.consumer.accesses if a.base == found.loaded]
    if len(stores) != 1 or stores[0].op != "store" or any(a.op != "load" for a in loads):
        raise EditRefused(f"`{found.between}` is not stored once and then only loaded")
    (store,) = stores
    if kernel.statement(store.call) not in kernel.node.body:
        raise EditRefused(f"line {store.line} stores in a loop or a branch")
    ours = _Meaning(kernel, found.first, found.stored)
    theirs = _Meaning(found.consumer, found.second, found.loaded)
    where = ours.of(store.pointer), ours.of(store.mask)
    for load in loads:
        theirs.met.clear()
        if found.consumer.statement(load.call) not in found.consumer.node.body:
            raise EditRefused(f"line {load.line} loads in a loop or a branch")
        if where[0] != theirs.of(load.pointer):
            raise EditRefused(f"line {load.line} reads elsewhere than line {store.line} writes")
        if where[1] != theirs.of(load.mask):
            raise EditRefused(f"line {load.line} is not masked as line {store.line} is")
    met = zip(theirs.met, ours.met, strict=False)
    return _Fit(found, store, tuple(loads), dict(met))


class _Meaning:
    """What an expression of a kernel is in terms of program ids and of what the host passes."""

    def __init__(self, kernel: JitKernel, launch: LaunchSite, base: str) -> None:
        self._kernel = kernel
        self._launch = launch
        self._base = base
        self.met: list[str] = []
        """Parameters in the order in which they were met."""

    def of(self, node: object) -> str:
        """Text that two kernels share when they mean the same."""
        match node:
            case ast.Name(id=name):
                return self._of_name(name)
            case ast.Call(args=[], keywords=[ast.keyword(arg="axis", value=axis)]):
                return self.of(ast.Call(node.func, [axis], []))
            case ast.Attribute() if self._kernel.names.dotted(node):
                return self._kernel.names.dotted(node)
            case ast.AST():
                fields = (value for _, value in ast.iter_fields(node))
                kept = (v for v in fields if not isinstance(v, ast.expr_context))
                return f"{type(node).__name__}({','.join(self.of(v) for v in kept)})"
            case list():
                return f"[{','.join(self.of(item) for item in node)}]"
            case _:
                return repr(node)

    def _of_name(self, name: str) -> str:
        if name == self._base:
            return "<between>"
        if self._kernel.parameter(name) is not None:
            given = self._launch.argument(self._kernel, name)
            if given is None:
                raise EditRefused(f"line {self._launch.line} does not show what `{name}` is")
            self.met.append(name)
            return f"<{ast.unparse(given)}>"
        behind = self._kernel.flow.single(name)
        if behind is not None:
            return self.of(behind)
        # Changed on the way: another kernel's name of that kind is never the same.
        bound = name in self._kernel.flow.definitions
        return f"{self._kernel.name}.{name}" if bound else name


def _extents(source: Source, launch: LaunchSite) -> list[str]:
    """The grid's extents as text."""
    grid = grid_of(source, launch)
    if grid.meta and any(grid.meta in names_in(extent) for extent in grid.extents):
        raise EditRefused(f"the grid of line {launch.line} depends on block sizes")
    flow = source.host_flow(launch.scope)
    behind = [e if flow is None else flow.resolve(e) for e in grid.extents]
    return ["" if e is None else ast.unparse(e) for e in behind]


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _match(source, kernel).pair
    return (
        Anchor(
            lines=(found.first.line, found.second.line),
            says=f"{found.consumer.name} behind {kernel.name}, {found.between} in registers",
        ),
    )


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    fit = _match(source, kernel)
    found, splice = fit.pair, Splice(source)
    words = Words(splice, found)
    words.renamed |= {**fit.same, found.result: found.stored}
    statement = kernel.statement(fit.store.call)
    held, value = words.fresh("stored"), fit.store.value
    if value is None:
        raise EditRefused(f"line {fit.store.line} stores nothing that can be read")
    tight = splice.text(value)
    tight = tight if isinstance(value, ast.Name | ast.Call) else f"({tight})"
    kept = f"{held} = {tight}.to({found.stored}.dtype.element_ty)"
    splice.replace_statement(statement, *dedented(splice, statement, kept))
    where = spelled(source, "tl.where")
    replaced: dict[ast.AST, str] = {}
    for load in fit.loads:
        other = "" if load.other is None else words.translated(load.other, {})
        masked = load.mask is not None and other
        mask = words.translated(load.mask, {}) if load.mask is not None else ""
        replaced[load.call] = f"{where}({mask}, {held}, {other})" if masked else held
    texts = _documentless(found.consumer)
    lines = [line for s in texts for line in dedented(splice, s, words.translated(s, replaced))]
    splice.insert_after(kernel.node.body[-1], *lines)
    rewrite_host(splice, found, words.added)
    names = frozenset({found.between}) | names_in(found.second.call)
    return without_unread_locals(without_unread(splice.result(), kernel.name), kernel.name, names)


def _documentless(kernel: JitKernel) -> list[ast.stmt]:
    match kernel.node.body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case body:
            return body


FUSE_LAUNCHES = Edit(
    id="fuse-launches",
    says="run two kernels of one grid as one, with what goes between them in registers",
    find=_find,
    change=_change,
)
