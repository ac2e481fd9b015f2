"""Which programs of earlier launches produce what a sampled program reads, so that they run too.

Programs of a launch write alike, at offsets that are linear in their ids. From the footprints of
those that ran, the footprint of every program is derived; where no linear rule fits all of them
exactly, nothing is derived, and what depends on it stays unknown.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.interpret_order import place_of
from workbench.kernels.trace_launch import Grid
from workbench.kernels.trace_values import Book, Slot, Want

Array = NDArray[Any]

_READERS = 2
"""Programs of a launch whose inputs are traced back (ours)."""
_MOST_PROGRAMS = 160
"""Programs of a launch that run for others (ours)."""
_MOST_GRID = 1 << 22
_MOST_WIDTH = 4096
"""Largest row length by which a linear program id is split into row and column."""
_LEAST_SEEN = 4
"""Footprints that a rule must explain (ours); it has up to four coefficients."""

Programs = dict[int, list[Grid]]
"""Programs to run, by number of the launch in the call."""


class Closure:
    """Grows the set of programs until all that some of them read is produced by others of them."""

    def __init__(self, book: Book, grids: Sequence[Grid]) -> None:
        self._grids = grids
        self._footprints = dict(book.footprints)
        self.programs: Programs = {}
        self.closed: dict[Slot, Array] = {}
        self._mins: dict[Slot, tuple[Array, Array] | None] = {}
        wants = book.wants
        for launch, several in wants.items():
            readers = list(dict.fromkeys(want.program for want in several))[:_READERS]
            self.programs[launch] = readers
        self.grew = self._meet(wants)

    def grow(self, book: Book) -> bool:
        """Add the programs that produce what was still missing; returns whether there are more to
        run.
        """
        self.grew = self._meet(book.wants)
        return self.grew

    def _meet(self, wants: Mapping[int, list[Want]]) -> bool:
        before = sum(map(len, self.programs.values())), sum(a.size for a in self.closed.values())
        for launch, several in wants.items():
            for want in several:
                if want.program in self.programs.get(launch, ()):
                    self._meet_one(launch, want)
        after = sum(map(len, self.programs.values())), sum(a.size for a in self.closed.values())
        return after != before

    def _meet_one(self, launch: int, want: Want) -> None:
        for slot in want.slots:
            found = self._writers(slot, want.offsets)
            if found is None:
                found = self._guessed(slot)
            known = self.programs.setdefault(slot.launch, [])
            more = [program for program in found if program not in known]
            if len(known) + len(more) > _MOST_PROGRAMS:
                continue
            known += more
            if slot.launch == launch and found:
                old = self.closed.get(slot, want.offsets[:0])
                self.closed[slot] = np.union1d(old, want.offsets)

    def _guessed(self, slot: Slot) -> list[Grid]:
        """Programs to try where no rule says which ones write: all, or those that write alone."""
        grid = self._grids[slot.launch]
        total = grid[0] * grid[1] * grid[2]
        if total <= _MOST_PROGRAMS:
            return [place_of(number, grid) for number in range(total)]
        alone = slot not in self._footprints
        return [place_of(0, grid), place_of(total - 1, grid)] if alone else []

    def _writers(self, slot: Slot, offsets: Array) -> list[Grid] | None:
        """Every program of a launch that writes to one of the offsets; None: unknown."""
        grid = self._grids[slot.launch]
        if slot not in self._mins:
            self._mins[slot] = _fitted(self._footprints.get(slot, []), grid)
        fitted = self._mins[slot]
        if fitted is None:
            return None
        first, pattern = fitted
        wanted = offsets.astype(np.int64)
        found: list[Grid] = []
        while wanted.size:
            hits = np.flatnonzero(np.isin(wanted[0] - first, pattern))
            if not hits.size or len(found) + hits.size > _MOST_PROGRAMS:
                return None
            found += [place_of(int(number), grid) for number in hits]
            for number in hits:
                wanted = wanted[~np.isin(wanted, first[number] + pattern)]
        return found


def _fitted(seen: Sequence[tuple[Grid, Array]], grid: Grid) -> tuple[Array, Array] | None:
    """The first offset that every program writes, and the further offsets from there; None: no
    rule.

    The rule is linear in the program ids, or in the row and column of a linear id.
    """
    total = grid[0] * grid[1] * grid[2]
    distinct = {program: offsets for program, offsets in seen if offsets.size}
    if len(distinct) < min(_LEAST_SEEN, total) or total > _MOST_GRID:
        return None
    programs = np.array(list(distinct), dtype=np.int64)
    firsts = np.array([int(offsets.min()) for offsets in distinct.values()], dtype=np.int64)
    widest = max(distinct.values(), key=len).astype(np.int64)
    pattern = np.unique(widest - widest.min())
    numbers = np.arange(total, dtype=np.int64)
    every = np.stack(
        [numbers % grid[0], numbers // grid[0] % grid[1], numbers // (grid[0] * grid[1])], axis=1
    )
    widths = range(2, min(grid[0], _MOST_WIDTH)) if len(distinct) > _LEAST_SEEN else ()
    for width in itertools.chain((1,), widths):
        rule = _linear(_features(programs, width), firsts)
        if rule is not None:
            return _features(every, width) @ rule, pattern
    return None


def _features(programs: Array, width: int) -> Array:
    """A constant, row and column of the first id for rows of that width, and the other ids."""
    first = programs[:, 0]
    columns = [np.ones_like(first), first // width, first % width, programs[:, 1], programs[:, 2]]
    return np.stack(columns, axis=1)


def _linear(features: Array, values: Array) -> Array | None:
    """Integer coefficients that give exactly these values; None where there are none."""
    found = np.linalg.lstsq(features.astype(np.float64), values.astype(np.float64), rcond=None)[0]
    whole = np.rint(found).astype(np.int64)
    exact: bool = bool((features @ whole == values).all())
    return whole if exact else None
