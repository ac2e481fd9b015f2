"""How long loaded and stored lines stay in the caches: eviction policies and cache modifiers."""

import ast
from collections.abc import Callable

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.blocks import by_program
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import Access, JitKernel

_EVICTIONS = ("evict_first", "evict_last")
_MODIFIERS = (".cg", ".ca", ".cs", ".wb", ".wt")
_LOAD_MODIFIERS = frozenset({".cg", ".ca"})

_Find = Callable[[Source, JitKernel], tuple[Anchor, ...]]


def groups(kernel: JitKernel) -> dict[str, tuple[Access, ...]]:
    """Accesses by how their data is used, in the order of the text.

    `rereads`: loads of an argument that several loops read. `shared`: loads whose address is the
    same in every program. `streamed`: the other loads. `stores`: all stores.
    """
    by_base: dict[str, list[Access]] = {}
    for access in kernel.loads:
        if access.base and kernel.names.op(access.call) == "load":
            by_base.setdefault(access.base, []).append(access)
    rereads: list[Access] = []
    streamed: list[Access] = []
    shared: list[Access] = []
    for accesses in by_base.values():
        if len({_place(a) for a in accesses}) > 1:
            rereads += accesses
        else:
            common = not any(by_program(kernel, a.pointer) for a in accesses)
            (shared if common else streamed).extend(accesses)
    stores = [a for a in kernel.stores if kernel.names.op(a.call) == "store"]
    found = {"rereads": rereads, "streamed": streamed, "shared": shared, "stores": stores}
    return {name: tuple(accesses) for name, accesses in found.items() if accesses}


def _place(access: Access) -> ast.AST | None:
    return access.loops[0].node if access.loops else None


def _finder(keyword: str, other: str) -> _Find:
    def find(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
        anchors = []
        for name, accesses in groups(kernel).items():
            if any(a.option(other) is not None for a in accesses):
                continue
            said = {_stated(a, keyword) for a in accesses}
            value = said.pop() if len(said) == 1 else ""
            bases = ", ".join(sorted({a.base for a in accesses if a.base}))
            anchors.append(
                Anchor(
                    lines=tuple(sorted({a.line for a in accesses})),
                    says=f"{name}: {bases}",
                    parameters={"accesses": name},
                    current={"policy": value} if value else {},
                )
            )
        return tuple(anchors)

    return find


def _stated(access: Access, keyword: str) -> str:
    match access.option(keyword):
        case ast.Constant(value=str(value)):
            return value
        case _:
            return ""


def _evict(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    policy = str(parameters["policy"])
    if policy not in _EVICTIONS:
        raise EditRefused(f"`{policy}` is not one of {', '.join(_EVICTIONS)}")
    accesses = _group(kernel, parameters, "cache_modifier")
    splice = Splice(source)
    last = _last_places(accesses) if parameters["accesses"] == "rereads" else frozenset()
    for access in accesses:
        # What is kept for a later read may go at the last one.
        leaving = policy == "evict_last" and access.call in last
        chosen = "evict_first" if leaving else policy
        splice.set_keyword(access.call, "eviction_policy", f'"{chosen}"')
    return splice.result()


def _last_places(accesses: tuple[Access, ...]) -> frozenset[ast.Call]:
    """Loads of each argument's last loop."""
    final = {a.base: _place(a) for a in accesses}
    return frozenset(a.call for a in accesses if _place(a) is final[a.base])


def _modify(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    policy = str(parameters["policy"])
    accesses = _group(kernel, parameters, "eviction_policy")
    loads = accesses[0].kind == "load"
    if policy not in _MODIFIERS or (policy in _LOAD_MODIFIERS) < loads:
        raise EditRefused(f"`{policy}` is not a cache modifier of a {accesses[0].kind}")
    if not loads and policy == ".ca":
        raise EditRefused("a store cannot be cached in L1")
    splice = Splice(source)
    for access in accesses:
        splice.set_keyword(access.call, "cache_modifier", f'"{policy}"')
    return splice.result()


def _group(
    kernel: JitKernel, parameters: dict[str, Parameter], excluded: str
) -> tuple[Access, ...]:
    """The accesses of a group. PTX takes a cache modifier or an eviction priority, never both."""
    name = str(parameters["accesses"])
    found = groups(kernel).get(name)
    if found is None:
        raise EditRefused(f"the kernel has no accesses of the group `{name}`")
    for access in found:
        if access.option(excluded) is not None:
            raise EditRefused(f"line {access.line} has {excluded}, which excludes it")
    return found


_ACCESSES = EditParameter(
    name="accesses",
    says="rereads, streamed, shared or stores",
    kind="text",
    default="streamed",
)

EVICTION = Edit(
    id="eviction-policy",
    says="tell the caches which lines to keep and which to let go",
    parameters=(
        _ACCESSES,
        EditParameter(
            name="policy",
            says="evict_first, or evict_last (until the last read of what is read again)",
            kind="text",
            default="evict_first",
            grid=_EVICTIONS,
        ),
    ),
    find=_finder("eviction_policy", "cache_modifier"),
    change=_evict,
)

CACHE_MODIFIER = Edit(
    id="cache-modifier",
    says="choose the cache levels that loads and stores go through",
    parameters=(
        _ACCESSES,
        EditParameter(
            name="policy",
            says=".cg skips L1, .cs streams a store",
            kind="text",
            default=".cg",
            grid=(".cg", ".cs"),
        ),
    ),
    find=_finder("cache_modifier", "eviction_policy"),
    change=_modify,
)
