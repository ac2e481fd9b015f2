"""Drops masks where a dimension is a multiple of its block, and keeps them where it is not.

Every shape that is not a multiple still gets the masked code: the choice is a compile-time flag.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.even import Pair, add_flags, check_passed
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import Access, JitKernel

_ALL = "*"


@dataclass(frozen=True, eq=False)
class _Masked:
    """An access whose whole mask falls away when some dimensions are even."""

    access: Access
    needs: tuple[Pair, ...]
    """What must divide, sorted."""


def _readable(kernel: JitKernel, access: Access) -> _Masked | None:
    needs: set[Pair] = set()
    if isinstance(access.mask, ast.IfExp):
        return None
    for conjunct in kernel.mask_parts(access.mask):
        bound = kernel.bound(conjunct)
        extents = () if bound is None else kernel.flow.aranges(bound[1])
        match extents:
            case (ast.Name(id=block),) if bound is not None and block in kernel.constexprs:
                needs.add((bound[0], block))
            case _:
                return None
    return _Masked(access, tuple(sorted(needs))) if needs else None


def _masked(source: Source, kernel: JitKernel) -> tuple[_Masked, ...]:
    """Accesses with a mask that can be dropped. Raises EditRefused when there are none."""
    found = [m for a in kernel.accesses if (m := _readable(kernel, a)) is not None]
    if not found:
        raise EditRefused("no mask compares a block's index with a dimension")
    check_passed(source, kernel, (pair for m in found for pair in m.needs))
    return tuple(found)


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _masked(source, kernel)
    dimensions = sorted({d for m in found for d, _ in m.needs})
    every = Anchor(
        lines=tuple(sorted({m.access.line for m in found})),
        says=f"masks over {', '.join(dimensions)}",
        parameters={"dimension": _ALL},
    )
    single = [_single(found, d) for d in dimensions] if len(dimensions) > 1 else []
    return (every, *(anchor for anchor in single if anchor.lines))


def _single(found: tuple[_Masked, ...], dimension: str) -> Anchor:
    alone = [m for m in found if {d for d, _ in m.needs} == {dimension}]
    return Anchor(
        lines=tuple(sorted({m.access.line for m in alone})),
        says=f"masks over {dimension} alone",
        parameters={"dimension": dimension},
    )


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    wanted = str(parameters["dimension"])
    found = [
        m for m in _masked(source, kernel) if wanted == _ALL or {d for d, _ in m.needs} == {wanted}
    ]
    if not found:
        raise EditRefused(f"no mask is over `{wanted}` alone")
    splice = Splice(source)
    flags = add_flags(splice, kernel, (pair for m in found for pair in m.needs))
    for masked in found:
        even = " and ".join(flags[pair] for pair in masked.needs)
        for node in _parts(masked.access):
            splice.replace(node, f"None if {even} else {_grouped(splice.text(node), node)}")
    return splice.result()


def _parts(access: Access) -> Iterator[ast.expr]:
    """The mask, and the value that takes the place of masked elements."""
    if access.mask is not None:
        yield access.mask
    if access.other is not None and not _is_none(access.other):
        yield access.other


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _grouped(text: str, node: ast.expr) -> str:
    return f"({text})" if isinstance(node, ast.IfExp | ast.Lambda) or "\n" in text else text


DROP_MASKS = Edit(
    id="drop-masks",
    says="compile loads and stores without masks where the dimension is a multiple of its block",
    parameters=(
        EditParameter(
            name="dimension",
            says="the dimension whose masks go, or * for all",
            kind="text",
            default=_ALL,
        ),
    ),
    find=_find,
    change=_change,
)
