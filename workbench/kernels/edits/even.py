"""Compile-time flags that say whether a dimension is a multiple of its block.

`triton.heuristics` computes them from each launch's own arguments, so that no shape is assumed.
"""

from collections.abc import Iterable

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel

Pair = tuple[str, str]
"""A dimension's parameter and the block's."""


def check_passed(source: Source, kernel: JitKernel, pairs: Iterable[Pair]) -> None:
    """Refuse what heuristics cannot see: they get what launches and the autotuner pass."""
    for name in sorted({name for pair in pairs for name in pair}):
        if name in source.heuristics(kernel):
            raise EditRefused(f"`{name}` is itself computed by heuristics")
        if any(name in c.values for c in source.configs(kernel)):
            continue
        for launch in source.launches_of(kernel.name):
            if launch.argument(kernel, name) is None:
                raise EditRefused(f"line {launch.line} leaves `{name}` to its default")


def add_flags(splice: Splice, kernel: JitKernel, pairs: Iterable[Pair]) -> dict[Pair, str]:
    """Give the kernel a flag for each pair; the flags' names."""
    source, names = splice.source, FreeNames(kernel)
    flags = {pair: names.take(f"EVEN_{pair[0].upper()}") for pair in sorted(set(pairs))}
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
    return flags
