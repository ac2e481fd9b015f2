"""Chooses which programs of a launch are interpreted, and in which order."""

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from workbench.kernels.trace_launch import Grid

_DRAWS = 16
"""Attempts to draw a program that is not at the end of an axis, before any is accepted (ours)."""


def order(grid: Grid, sample: int | None, seed: int, shuffle: int | None) -> Iterator[Grid]:
    """Program ids in the order in which they run; x varies fastest, as in hardware.

    Yields `sample` programs drawn from `seed`, or all. `shuffle` is the seed of a random order;
    None keeps the order.
    """
    total = grid[0] * grid[1] * grid[2]
    linear: Any = range(total)
    if sample is not None and sample < total:
        linear = _spread(grid, sample, seed)
    if shuffle is not None:
        linear = list(linear)
        random.Random(shuffle).shuffle(linear)  # noqa: S311 -- an order, not a secret
    for number in linear:
        yield place_of(number, grid)


def place_of(number: int, grid: Grid) -> Grid:
    """Program ids of a linear program number; x is fastest."""
    return number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])


def _spread(grid: Grid, count: int, seed: int) -> list[int]:
    """Distinct program numbers, one drawn from each of `count` equal sections of the grid.

    Distant ones follow each other, so that a launch that is cut short is still sampled everywhere.
    Programs at the end of an axis, whose blocks may be masked, are avoided where they are rare,
    since one in `count` would be weighted too much. The seed is the judge's secret: a candidate
    that knew the numbers could compute only there.
    """
    rng = random.Random(seed)  # noqa: S311 -- keyed by the judge's secret seed
    total = grid[0] * grid[1] * grid[2]
    edges = [part * total // count for part in range(count + 1)]
    chosen = [_inner(rng, range(low, high), grid, count) for low, high in pairwise(edges)]
    bits, turn = (count - 1).bit_length(), rng.randrange(count)
    far = sorted(range(count), key=lambda part: f"{part:0{bits}b}"[::-1])
    return [chosen[(part + turn) % count] for part in far]


def _inner(rng: random.Random, stretch: range, grid: Grid, count: int) -> int:
    """A random program of a section; one at the end of an axis only if those are common."""
    rare = [axis for axis, size in enumerate(grid) if size > 2 * count]
    number = rng.choice(stretch)
    for _ in range(_DRAWS):
        place = place_of(number, grid)
        if not any(place[axis] == grid[axis] - 1 for axis in rare):
            break
        number = rng.choice(stretch)
    return number
