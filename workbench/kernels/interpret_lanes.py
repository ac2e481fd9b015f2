"""Races between lanes of one program: on a GPU no thread waits for another one's access.

The interpreter runs one operation after the other for all lanes. In a compiled kernel a load may
miss what another lane has stored, and a store may come before another lane's load, unless a barrier
lies between them, or a reduction, scan or dot, whose operands go through shared memory.
"""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[Any]

_MOST_KEPT = 256
"""Most accesses since the last barrier that a new one is compared with (ours)."""


class _Lanes(Struct, frozen=True):
    """One access: the addresses of all lanes, and its mask."""

    addresses: Array
    lit: Array
    low: int
    high: int


class Meetings:
    """The accesses of one program since its last barrier, by storage."""

    def __init__(self) -> None:
        self._stored: dict[int, list[_Lanes]] = {}
        self._loaded: dict[int, list[_Lanes]] = {}
        self._count = 0

    def wait(self) -> None:
        """A barrier: all threads have reached this point."""
        if self._count:
            self._stored.clear()
            self._loaded.clear()
            self._count = 0

    def load(self, place: int, addresses: Array, lit: Array) -> bool:
        """Record a load; returns whether a lane reads what another one stored."""
        lanes = _lanes(addresses, lit)
        if lanes is None or self._count >= _MOST_KEPT:
            return False
        self._keep(self._loaded, place, lanes)
        return any(_cross(lanes, stored) for stored in self._stored.get(place, ()))

    def store(self, place: int, addresses: Array, lit: Array) -> bool:
        """Record a store; returns whether a lane overwrites what another one read."""
        lanes = _lanes(addresses, lit)
        if lanes is None or self._count >= _MOST_KEPT:
            return False
        crossing = any(_cross(lanes, loaded) for loaded in self._loaded.get(place, ()))
        self._keep(self._stored, place, lanes)
        return crossing

    def _keep(self, where: dict[int, list[_Lanes]], place: int, lanes: _Lanes) -> None:
        where.setdefault(place, []).append(lanes)
        self._count += 1


def _lanes(addresses: Array, lit: Array) -> _Lanes | None:
    mask = np.broadcast_to(lit, addresses.shape)
    active = addresses[mask]
    if not active.size:
        return None
    return _Lanes(addresses, mask, int(active.min()), int(active.max()))


def _cross(now: _Lanes, before: _Lanes) -> bool:
    """Whether different lanes access one address; blocks of one shape have the same layout."""
    if now.high < before.low or before.high < now.low:
        return False
    met = np.isin(now.addresses, before.addresses[before.lit]) & now.lit
    if now.addresses.shape == before.addresses.shape:
        met &= ~((now.addresses == before.addresses) & before.lit)
    return bool(met.any())
