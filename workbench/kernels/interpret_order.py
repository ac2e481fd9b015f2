"""Which programs of a launch are interpreted, and in which order."""

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from workbench.kernels.trace_launch import Grid

_DRAWS = 16
"""For a program that is not at the end of an axis, before any will do (ours)."""


def order(grid: Grid, sample: int | None, seed: int, shuffle: int | None) -> Iterator[Grid]:
    """Program ids in the order in which they run; x is fastest, as the hardware numbers them.

    `sample` of them, drawn from `seed`, or all; in an order drawn from `shuffle` where it is given.
    """
    total = grid[0] * grid[1] * grid[2]
    linear: Any = range(total)
    if sample is not None and sample < total:
        linear = _spread(grid, sample, seed)
    if shuffle is not None:
        linear = list(linear)
        random.Random(shuffle).shuffle(linear)  # noqa: S311 - an order, not a secret
    for number in linear:
        yield place_of(number, grid)


def place_of(number: int, grid: Grid) -> Grid:
    """A program's ids by its number in the launch."""
    return number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])


def _spread(grid: Grid, count: int, seed: int) -> list[int]:
    """Distinct program numbers, one drawn from each of `count` equal stretches of the grid.

    Far ones follow each other, so that a launch that is cut short was still looked at all over.
    Where few programs lie at the end of an axis, whose blocks may be masked, none is drawn that one
    in `count` would stand for too much. The seed is the judge's: a candidate that knew the numbers
    would do its work elsewhere.
    """
    rng = random.Random(seed)  # noqa: S311 - keyed by the judge's secret seed
    total = grid[0] * grid[1] * grid[2]
    edges = [part * total // count for part in range(count + 1)]
    chosen = [_inner(rng, range(low, high), grid, count) for low, high in pairwise(edges)]
    bits, turn = (count - 1).bit_length(), rng.randrange(count)
    far = sorted(range(count), key=lambda part: f"{part:0{bits}b}"[::-1])
    return [chosen[(part + turn) % count] for part in far]


def _inner(rng: random.Random, stretch: range, grid: Grid, count: int) -> int:
    """A program of a stretch; one at the end of an axis only where such are common."""
    rare = [axis for axis, size in enumerate(grid) if size > 2 * count]
    number = rng.choice(stretch)
    for _ in range(_DRAWS):
        place = place_of(number, grid)
        if not any(place[axis] == grid[axis] - 1 for axis in rare):
            break
        number = rng.choice(stretch)
    return number
