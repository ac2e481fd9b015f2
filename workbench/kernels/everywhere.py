"""Which programs of a launch go the way of one that ran, worked out for all of them beside it.

Numbers that rest on program ids and constants alone are followed for every program at once while
one is interpreted: exactly where all lanes of a block agree, else as the least and the largest
lane. Wherever such a number decides something (a comparison, a trip count, an address off the
launch's own pattern, a factor of data) programs that decide otherwise part from the one that runs.
Those that never part do the same work on other numbers: it may stand for them. Ours; in the spirit
of concolic execution (Godefroid, Klarlund, Sen: DART, PLDI 2005), with all programs as one input.
"""

import math
import random
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from workbench.kernels.intervals import Span
from workbench.kernels.trace_launch import Grid

Array = NDArray[Any]

MOST_PROGRAMS = 8192
"""Programs that are drawn and followed where there are more than twice as many, else all are
(ours): a number of each costs ten microseconds an operation."""
_MOST_ENDS = MOST_PROGRAMS // 8
"""At one end of an axis that are followed each (ours)."""
_MOST_FOLLOWED = 12_000
"""Operations of one program that are followed (ours): a fifth of a second."""
_FEW = 8
"""Values by which programs are told apart where no comparison does it (ours)."""
_MOST_ADDRESSES = 32
"""Accesses of one program whose addresses are compared with the launch's pattern (ours)."""
_NOWHERE = np.empty(0, dtype=np.int64)


class Unknown(Struct, frozen=True):
    """A value that rests on data, or that is not followed."""


UNKNOWN = Unknown()
Spread = Span | Unknown | None
"""None: the same in every program."""


class Share(Struct, frozen=True):
    """How many programs one that ran stands for."""

    alike: float
    """Programs that go its way and were not yet stood for."""
    places: float | None
    """Of those, how many store to places of their own; None where places are not known."""


class Reach(Struct, frozen=True):
    """How far the places of programs that another one stands for are from its own, in bytes."""

    by_storage: dict[int, Array | None]
    """By the storage's address, a distance for each; None where no one distance tells."""


class Everywhere:
    """The programs of one launch, and which of them are stood for."""

    def __init__(self, grid: Grid, seed: int, ran: Iterable[int]) -> None:
        self.grid = grid
        total = grid[0] * grid[1] * grid[2]
        self._rng = random.Random(seed ^ 0x5EED)  # noqa: S311 - keyed by the judge's secret seed
        needed, drawn = _followed(total, self._rng, [*ran, *_corners(grid), *_ends(grid)])
        numbers = sorted(needed | drawn)
        self._drawn = np.array([number in drawn for number in numbers], dtype=np.bool_)
        # The needed ones stand for themselves, the drawn ones for what is left between them.
        each = (total - len(needed)) / len(drawn) if drawn else 1.0
        self._weights = np.where(self._drawn, each, 1.0)
        self._followed_all = self.uniform = True
        self.blind = False
        """Something was made of ids alone that is not followed: ways may hide behind it."""
        """`uniform`: one program that ran stands for all that were drawn."""
        self._numbers = np.array(numbers, dtype=np.int64)
        x, y = grid[0], grid[0] * grid[1]
        self.axes = (self._numbers % x, self._numbers // x % grid[1], self._numbers // y)
        self._place = {number: place for place, number in enumerate(numbers)}
        self._waiting = np.ones(len(numbers), dtype=np.bool_)
        self._alive = self._waiting
        self._own = 0
        self._steps = 0
        self._addresses = 0
        self._stores: list[tuple[int, Array]] = []
        """Storages, and where in memory each program stores."""
        self._reaches: dict[Grid, Reach | None] = {}
        self._lit: list[int] = []
        self._seen: set[bytes] = set()
        """Where programs that are stood for store to."""
        self._placed = True
        self.shares: dict[Grid, Share] = {}
        """By program that ran."""

    @property
    def share(self) -> float:
        """Of all programs, how many some program that ran stands for."""
        return 1.0 - float(self._waiting.mean())

    @property
    def followed(self) -> int:
        """How many of the launch's programs are followed: all, or some drawn from very many."""
        return len(self._numbers)

    @property
    def told(self) -> bool:
        """Whether programs that ran stand for all others, to places that are known."""
        known = all(s.places is not None for s in self.shares.values() if s.alike)
        return known and self._followed_all and not self._waiting.any()

    def begin(self, program: Grid) -> None:
        """A program starts: all others still go its way."""
        self._own = self._place[number_of(program, self.grid)]
        self._alive = np.ones_like(self._waiting)
        self._steps = self._addresses = 0
        self._stores, self._lit, self._placed = [], [], True

    def end(self, program: Grid) -> None:
        """It is over: it stands for those that went its way throughout.

        A program that runs a second time stands for what it stood for.
        """
        if program in self.shares:
            return
        if self._steps > _MOST_FOLLOWED:  # nobody knows who else went its way to the end
            self._followed_all = False
            self._alive = np.zeros_like(self._alive)
            self._alive[self._own] = True
        fresh = self._alive & self._waiting
        self._waiting = self._waiting & ~fresh
        of_drawn = fresh & self._drawn
        self.uniform &= not of_drawn.any() or bool((of_drawn == self._drawn).all())
        alike = float(self._weights[fresh].sum())
        places = self._new_places(fresh) if self._placed and alike else None
        if alike:
            self._reaches[program] = self._reach(fresh) if self._placed else None
        self.shares[program] = Share(alike, places)

    def _new_places(self, fresh: Array) -> float:
        """How many of those programs store to where none before them did."""
        alike = int(fresh.sum())
        weights = self._weights[fresh]
        masks = np.broadcast_to(np.array(self._lit, dtype=np.int64), (alike, len(self._lit)))
        lows = [np.broadcast_to(low, fresh.shape)[fresh] for _, low in self._stores]
        rows = np.stack([*lows, *masks.T], axis=1) if lows else masks[:1]
        keys, firsts = np.unique(rows, axis=0, return_index=True)
        named = zip((row.tobytes() for row in keys.astype(np.int64)), firsts, strict=True)
        new = {name: weights[first] for name, first in named if name not in self._seen}
        self._seen |= new.keys()
        return float(sum(new.values()))

    def _reach(self, fresh: Array) -> Reach | None:
        if len(self._stores) == _MOST_ADDRESSES:  # there may be more
            return None
        found: dict[int, Array | None] = {}
        for place, low in self._stores:
            every = np.broadcast_to(low, fresh.shape)
            moved = every[fresh] - every[self._own]
            before = found.setdefault(place, moved)
            if before is not None and not np.array_equal(before, moved):
                found[place] = None
        return Reach(found)

    def covers(self, footprints: Mapping[Grid, Array], storage: int, wanted: Array) -> Array | None:
        """Which bytes of a storage some program of the launch writes; None: nobody knows.

        `footprints` are, by program that ran, the bytes where an element begins that it wrote.
        """
        if not self.told or self.followed < math.prod(self.grid):
            return None
        lit = np.zeros(wanted.shape, dtype=np.bool_)
        for program, reach in self._reaches.items():
            moved = None if reach is None else reach.by_storage.get(storage, _NOWHERE)
            if moved is None:
                return None
            own = np.unique(footprints.get(program, _NOWHERE).astype(np.int64))
            if own.size and moved.size:
                apart = wanted[:, None] - np.unique(moved)[None, :]
                at = np.minimum(np.searchsorted(own, apart), own.size - 1)
                lit |= (own[at] == apart).any(axis=1)
        return lit

    def draw(self) -> Grid | None:
        """A program that nobody stands for yet; None when there is none.

        Now the first, now the last, now any: boundaries are where kernels differ.
        """
        waiting = np.flatnonzero(self._waiting)
        if not waiting.size:
            return None
        turn = len(self.shares) % 3
        at = (0, -1, self._rng.randrange(waiting.size))[turn]
        number = int(self._numbers[waiting[at]])
        x, y = self.grid[0], self.grid[1]
        return number % x, number // x % y, number // (x * y)

    @property
    def following(self) -> bool:
        """Whether the program that runs is still followed; counts what it costs."""
        self._steps += 1
        return self._steps <= _MOST_FOLLOWED

    def part(self, values: Array) -> None:
        """Programs whose value is another one part from the one that runs."""
        self._alive = self._alive & (values == values[self._own])

    def part_by(self, span: Span) -> None:
        """As `part`, for a value that decides by being a factor of data, if it takes few values."""
        values = np.unique(span.low[self._alive])
        if values.size <= _FEW:
            self.part(span.low)

    def compared(self, left: Span, right: Span, truth: Span) -> None:
        """A comparison parts programs by its answer; by how far apart its sides are where lanes of
        a block differ, so that the same lanes are true.
        """
        self.part(truth.low)
        self.part(truth.high)
        own = self._own
        if truth.low[own] != truth.high[own]:
            apart = left.low - right.low
            self.part(apart)
            self.part(left.high - right.high)

    def chosen(self, left: Array, right: Array) -> None:
        """Of two numbers one is taken: which one parts programs; equal ones are nobody's choice."""
        self.part(np.broadcast_to(left < right, self._alive.shape))
        self.part(np.broadcast_to(left > right, self._alive.shape))

    def accessed(self, spread: Spread, mask: Array | None = None, storage: int = 0) -> None:
        """An access parts programs whose address is off the launch's pattern, if few patterns are.

        The pattern is what the addresses of the grid's first neighbours continue. `mask` is a
        store's, and `storage` the address of what it stores into.
        """
        self._addresses += 1
        if mask is not None and len(self._stores) < _MOST_ADDRESSES:
            low = spread.low.astype(np.int64) if isinstance(spread, Span) else np.zeros(1, np.int64)
            self._stores.append((storage, low))
            self._lit.append(hash(np.packbits(mask).tobytes()))
            self._placed &= spread is not UNKNOWN
        if not isinstance(spread, Span) or self._addresses > _MOST_ADDRESSES:
            return
        off = spread.low.astype(np.int64)
        first = int(off[self._place[0]])
        steps = (1, self.grid[0], self.grid[0] * self.grid[1])
        expected = np.full_like(off, first)
        for axis, step, size in zip(self.axes, steps, self.grid, strict=True):
            if size > 1:
                expected += axis * (int(off[self._place[step]]) - first)
        off = off - expected
        if np.unique(off[self._alive]).size <= _FEW:
            self.part(off)


def number_of(program: Grid, grid: Grid) -> int:
    """A program's place in its launch; x is fastest, as the hardware numbers them."""
    return program[0] + grid[0] * (program[1] + grid[1] * program[2])


def _followed(total: int, rng: random.Random, always: Iterable[int]) -> tuple[set[int], set[int]]:
    """Numbers of programs that are needed: all, or some; and of those drawn beside them."""
    if total <= 2 * MOST_PROGRAMS:
        return set(range(total)), set()
    needed = {n for n in always if n < total}
    for bit in range(total.bit_length()):
        needed.update(n for n in (2**bit - 1, 2**bit, 2**bit + 1) if n < total)
    drawn = set(rng.sample(range(total), MOST_PROGRAMS - len(needed))) - needed
    return needed, drawn


def _ends(grid: Grid) -> list[int]:
    """Numbers of the programs at either end of an axis: their blocks may be masked, and how many
    they are must not be guessed. None where they are too many to be followed.
    """
    x, y, z = (range(size) for size in grid)
    sides = [
        number_of((a, b, c), grid)
        for axis in range(3)
        if grid[axis] > 1 and math.prod(grid) // grid[axis] <= _MOST_ENDS
        for end in (0, grid[axis] - 1)
        for a in ((end,) if axis == 0 else x)
        for b in ((end,) if axis == 1 else y)
        for c in ((end,) if axis == 2 else z)
    ]
    return sides if len(sides) <= MOST_PROGRAMS // 2 else []


def _corners(grid: Grid) -> list[int]:
    """Numbers of the first program, of its neighbours along each axis, and of the last one."""
    total = grid[0] * grid[1] * grid[2]
    return [0, 1, grid[0], grid[0] * grid[1], total - 1]
