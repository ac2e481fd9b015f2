"""Which of Inductor's GEMM and convolution templates to take, where none of them can be timed."""

import re
from collections.abc import Sequence
from math import ceil, prod

from workbench.kernels.target import Target
from workbench.kernels.untyped import Untyped

_LARGEST_ACCUMULATOR = 128
"""Accumulator registers of a thread. Ours: half of what a thread can have."""


def best_choice(choices: Sequence[Untyped], target: Target) -> Untyped:
    """The template whose tiling asks for the least work, waves and operand traffic counted.

    `choices` are Inductor's ChoiceCallers of one operator; what is not a Triton template (a library
    call, a subgraph) is taken only where there is nothing else.
    """
    templates = [choice for choice in choices if "BLOCK_M=" in choice.description]
    return min(templates or choices, key=lambda choice: _cost(choice, target))


def _cost(choice: Untyped, target: Target) -> tuple[bool, float, int, int]:
    """Whether the tile does not fit, the cost in multiply-adds per SM, depth of a step, stages.

    Ours: `waves * (tile + 32 * edges)`, where 32 multiply-adds pay for loading one operand element.
    """
    settings = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)\b", choice.description)}
    m, n, k = (settings.get(f"BLOCK_{axis}", 16) for axis in "MNK")
    warps, stages = settings.get("num_warps", 4), settings.get("num_stages", 1)
    sizes = [int(size) for size in choice.layout.size]
    item = choice.layout.dtype.itemsize
    rows, cols, batch = _extent(choice, sizes, settings.get("GROUPS", 1))
    waves = ceil(ceil(rows / m) * ceil(cols / n) * batch / target.sms)
    fits = (
        m * n / (32 * warps) <= _LARGEST_ACCUMULATOR
        and stages * (m + n) * k * item <= target.shared_per_program
    )
    return not fits, waves * (m * n + 32 * (m + n)), abs(k - 32), stages


def _extent(choice: Untyped, sizes: Sequence[int], groups: int) -> tuple[int, int, int]:
    """Rows, columns and batch of the output as its template tiles it."""
    if "conv" in choice.name:
        return sizes[0] * prod(sizes[2:]), sizes[1] // groups, groups
    return sizes[-2], sizes[-1], prod(sizes[:-2])
