"""Which programs of a launch take the same path as one that ran, computed for all of them at once.

While one program is interpreted, values that depend on program ids and constants alone are computed
for every program: exactly where all lanes of a block agree, else as the interval from the least to
the largest lane. Wherever such a value decides something (a comparison, a trip count, an address
off the launch's pattern, a factor of data), programs that decide otherwise leave the path. Programs
that stay on it do the same work on other numbers, so the one that ran can represent them. Ours; in
the spirit of concolic execution (Godefroid, Klarlund, Sen: DART, PLDI 2005), with all programs as
one input.
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
"""Programs that are drawn and tracked where there are more than twice as many; else all are (ours).
Tracking them costs ten microseconds an operation."""
_MOST_ENDS = MOST_PROGRAMS // 8
"""Most programs at one end of an axis that are all tracked (ours)."""
_FIRST = 256
"""Programs from the first on that are all tracked (ours): a grid capped at 65,535, whose programs
stride over the rest, leaves a power of two of blocks a remainder of a few."""
_MOST_FOLLOWED = 12_000
"""Most operations of one program that are tracked (ours): a fifth of a second."""
_FEW = 8
"""Most distinct values by which programs are told apart where no comparison does it (ours)."""
_MOST_ADDRESSES = 32
"""Most accesses of one program whose addresses are compared with the launch's pattern (ours)."""
_NOWHERE = np.empty(0, dtype=np.int64)


class Unknown(Struct, frozen=True):
    """A value that depends on data, or is not tracked."""


UNKNOWN = Unknown()
Spread = Span | Unknown | None
"""None: the same in every program."""


class Share(Struct, frozen=True):
    """How many programs one that ran represents."""

    alike: float
    """Programs on its path that no earlier one represents."""
    places: float | None
    """How many of those store to addresses of their own; None where addresses are unknown."""


class Reach(Struct, frozen=True):
    """Distances in bytes from the stores of a program to those of the programs it represents."""

    by_storage: dict[int, Array | None]
    """By the storage's address, one distance for each program; None where no single distance holds.
    """


class PathCoverage:
    """The programs of one launch, and which of them are represented by one that ran."""

    def __init__(self, grid: Grid, seed: int, ran: Iterable[int]) -> None:
        self.grid = grid
        total = grid[0] * grid[1] * grid[2]
        self._rng = random.Random(seed ^ 0x5EED)  # noqa: S311 -- keyed by the judge's secret seed
        needed, drawn = _followed(total, self._rng, [*ran, *_corners(grid), *_ends(grid)])
        numbers = sorted(needed | drawn)
        self._drawn = np.array([number in drawn for number in numbers], dtype=np.bool_)
        # Needed ones count for themselves, drawn ones for all that are left between them.
        each = (total - len(needed)) / len(drawn) if drawn else 1.0
        self._weights = np.where(self._drawn, each, 1.0)
        self._followed_all = True
        self.uniform = True
        """One program that ran stands for all that were drawn."""
        self.blind = False
        """A value made of ids is not tracked any further: it may hide another path."""
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
        """For each storage, the address that each program stores to."""
        self._reaches: dict[Grid, Reach | None] = {}
        """By the program that ran."""
        self._lit: list[int] = []
        """For each store, which of its lanes are active, hashed."""
        self._seen: set[bytes] = set()
        """Where represented programs store to."""
        self._placed = True
        self.shares: dict[Grid, Share] = {}
        """By the program that ran."""

    @property
    def share(self) -> float:
        """The fraction of all programs that are represented by some program that ran."""
        return 1.0 - float(self._waiting.mean())

    @property
    def followed(self) -> int:
        """How many programs of the launch are tracked: all, or a draw of very many."""
        return len(self._numbers)

    @property
    def complete(self) -> bool:
        """Whether programs that ran represent all others, with known store addresses."""
        known = all(s.places is not None for s in self.shares.values() if s.alike)
        return known and self._followed_all and not self._waiting.any()

    def begin(self, program: Grid) -> None:
        """A program starts: all others are still on its path."""
        self._own = self._place[number_of(program, self.grid)]
        self._alive = np.ones_like(self._waiting)
        self._steps = self._addresses = 0
        self._stores, self._lit, self._placed = [], [], True

    def end(self, program: Grid) -> None:
        """The program is over: it represents those that stayed on its path throughout.

        A program that runs a second time keeps what it represents.
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
        """How many of those programs store to addresses that none before them stored to."""
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
        """Which bytes of a storage some program of the launch writes; None: unknown.

        `footprints` are, by program that ran, the first bytes of the elements that it wrote.
        """
        if not self.complete or self.followed < math.prod(self.grid):
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
        """A program that none represents yet; None when there is none.

        In turn the first, the last and any: kernels differ at boundaries.
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
        """Whether the running program is still tracked; counts what that costs."""
        self._steps += 1
        return self._steps <= _MOST_FOLLOWED

    def split_by(self, values: Array) -> None:
        """Programs with another value leave the running program's path."""
        self._alive = self._alive & (values == values[self._own])

    def split_by_few(self, span: Span) -> None:
        """As `split_by`, for a value that is a factor of data, if it has few distinct values."""
        values = np.unique(span.low[self._alive])
        if values.size <= _FEW:
            self.split_by(span.low)

    def compared(self, left: Span, right: Span, truth: Span) -> None:
        """Programs for which a comparison has another answer leave the path.

        Where lanes of a block differ, those do whose operands are another distance apart: only then
        are the same lanes true.
        """
        self.split_by(truth.low)
        self.split_by(truth.high)
        own = self._own
        if truth.low[own] != truth.high[own]:
            self.blind |= left.loose or right.loose
            apart = left.low - right.low
            self.split_by(apart)
            self.split_by(left.high - right.high)

    def chosen(self, left: Array, right: Array) -> None:
        """One of two values is selected: programs that select the other one leave the path, unless
        both are equal.
        """
        self.split_by(np.broadcast_to(left < right, self._alive.shape))
        self.split_by(np.broadcast_to(left > right, self._alive.shape))

    def accessed(self, spread: Spread, mask: Array | None = None, storage: int = 0) -> None:
        """Programs whose address is off the launch's pattern leave the path, if patterns are few.

        The pattern is the continuation of the addresses of the grid's first neighbours. `mask` is a
        store's, `storage` the address of the storage that it stores into.
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
            self.split_by(off)


def number_of(program: Grid, grid: Grid) -> int:
    """Linear number of a program; x is fastest, as the hardware numbers them."""
    return program[0] + grid[0] * (program[1] + grid[1] * program[2])


def _followed(total: int, rng: random.Random, always: Iterable[int]) -> tuple[set[int], set[int]]:
    """The programs that are tracked: the needed ones, and those drawn beside them."""
    if total <= 2 * MOST_PROGRAMS:
        return set(range(total)), set()
    needed = {n for n in always if n < total} | set(range(_FIRST))
    for bit in range(total.bit_length()):
        needed.update(n for n in (2**bit - 1, 2**bit, 2**bit + 1) if n < total)
    drawn = set(rng.sample(range(total), MOST_PROGRAMS - len(needed))) - needed
    return needed, drawn


def _ends(grid: Grid) -> list[int]:
    """Numbers of the programs at either end of an axis; empty where there are too many to track.

    Their blocks may be masked, so that none of them may be estimated from others.
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
