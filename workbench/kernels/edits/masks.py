"""Drops masks where a dimension is a multiple of its block, and keeps them where it is not.

The choice is a compile-time flag that `triton.heuristics` computes from the launch's own
arguments, so that no shape is assumed: every other shape still gets the masked code.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_flow import conjuncts
from workbench.kernels.source_kernel import Access, JitKernel

_ALL = "*"


@dataclass(frozen=True, eq=False)
class _Masked:
    """An access whose whole mask falls away when some dimensions are even."""

    access: Access
    needs: tuple[tuple[str, str], ...]
    """(dimension, block) that must divide, sorted."""


def _readable(kernel: JitKernel, access: Access) -> _Masked | None:
    needs: set[tuple[str, str]] = set()
    if isinstance(access.mask, ast.IfExp):
        return None
    for part in conjuncts(access.mask):
        for conjunct in conjuncts(kernel.flow.resolve(part)):
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
    for name in sorted({n for m in found for pair in m.needs for n in pair}):
        _check_passed(source, kernel, name)
    return tuple(found)


def _check_passed(source: Source, kernel: JitKernel, name: str) -> None:
    """Heuristics see what a launch or the autotuner passes, and no defaults."""
    if name in source.heuristics(kernel):
        raise EditRefused(f"`{name}` is itself computed by heuristics")
    if any(name in c.values for c in source.configs(kernel)):
        return
    for launch in source.launches_of(kernel.name):
        if launch.argument(kernel, name) is None:
            raise EditRefused(f"line {launch.line} leaves `{name}` to its default")


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
    splice, names = Splice(source), FreeNames(kernel)
    flags = {
        pair: names.take(f"EVEN_{pair[0].upper()}")
        for pair in sorted({pair for m in found for pair in m.needs})
    }
    for masked in found:
        even = " and ".join(flags[pair] for pair in masked.needs)
        for node in _parts(masked.access):
            splice.replace(node, f"None if {even} else {_grouped(splice.text(node), node)}")
    constexpr = spelled(source, "tl.constexpr")
    for flag in flags.values():
        splice.add_parameter(kernel, f"{flag}: {constexpr} = False")
    heuristics = spelled(source, "triton.heuristics")
    entries = [
        f'"{flag}": lambda args: args["{dimension}"] % args["{block}"] == 0'
        for (dimension, block), flag in flags.items()
    ]
    lines = [f"@{heuristics}({{{entries[0]}}})"]
    if len(entries) > 1:
        lines = [f"@{heuristics}(", "    {", *(f"        {e}," for e in entries), "    }", ")"]
    splice.insert_above(source.jit_line(kernel), *lines)
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
