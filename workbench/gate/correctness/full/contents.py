"""The contents of the tensors at the full shape: repeated chunks of numbers, known to both sides.

Runs in reference workers only. The numbers are those that the problem draws at its smallest shape,
in random order, so they have its distribution. The period is a secret prime number of pages: with a
known period a kernel could compute a few rows only and repeat them.
"""

import math
import mmap
import random
from collections.abc import Mapping

import torch

from workbench.gate.correctness.layout import window
from workbench.gate.correctness.protocol import TensorEntry
from workbench.kernels.paint import COPIED

_PAGES = (257, 263, 269, 271, 277, 281, 283, 293, 307, 311, 313, 317, 331, 337, 347, 349, 353, 359)
"""Primes: one to one and a half MiB."""


_APART = 2.0**-8
"""Relative difference; larger than any bound, far smaller than a problem's domain can notice
(ours)."""
_DISTINCT = 0.9


def chunk_for(entry: TensorEntry, like: torch.Tensor, seed: int, scale: float) -> torch.Tensor:
    """Numbers for a floating-point tensor of the full shape, drawn from `like`, times `scale`."""
    item = like.element_size()
    count = entry.bytes // item
    if entry.bytes > COPIED:
        pages = random.Random(seed).choice(_PAGES)  # noqa: S311 -- keyed by the judge's secret seed
        count = pages * mmap.PAGESIZE // item
    pool = window(like)
    if not pool.numel():
        pool = torch.zeros(1, dtype=like.dtype)
    generator = torch.Generator().manual_seed(seed)
    drawn = pool[torch.randint(pool.numel(), (count,), generator=generator)]
    if not tied(like):
        # Numbers drawn twice are made different: equal ones have no defined order.
        drawn = drawn * (1 + _APART * torch.rand(count, generator=generator, dtype=drawn.dtype))
    return drawn if scale == 1.0 else (drawn.double() * scale).to(drawn.dtype)


def tied(like: torch.Tensor) -> bool:
    """Whether such numbers are often equal, so that they must not be changed."""
    if like.dtype not in (torch.float32, torch.float64):
        return True
    pool = window(like)
    return bool(torch.unique(pool).numel() < _DISTINCT * pool.numel())


def part_of(
    entry: TensorEntry, chunk: torch.Tensor, picks: Mapping[int, torch.Tensor]
) -> torch.Tensor:
    """The given indices of some dimensions, and all of the others, of a tensor that holds the
    chunk.

    Its dimensions lie in memory in the order of the entry's, without gaps.
    """
    order = sorted(range(len(entry.shape)), key=lambda d: -entry.strides[d])
    shape = [len(picks[d]) if d in picks else entry.shape[d] for d in order]
    dense = math.prod(entry.shape) * chunk.element_size() == entry.bytes
    if not picks and dense:
        count = math.prod(shape)
        flat = chunk.repeat(-(-count // chunk.numel()))[:count] if count else chunk[:0]
    else:
        places = torch.zeros((), dtype=torch.int64)
        for dim in order:
            along = picks.get(dim, torch.arange(entry.shape[dim]))
            places = places.unsqueeze(-1) + along * entry.strides[dim]
        flat = chunk[places.reshape(-1) % chunk.numel()]
    back = [order.index(dim) for dim in range(len(order))]
    return flat.reshape(shape).permute(back)
