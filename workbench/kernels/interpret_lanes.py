"""Lanes of one program that meet in memory: on a GPU no thread waits for another one's access.

The interpreter does one operation after the other, for all lanes. Compiled, a lane that loads what
another lane stored may come too early, and one that stores over what another loads too early as
well, unless something in between makes all threads of the program wait: a barrier, or a reduction,
a scan or a product, whose operands travel through shared memory.
"""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[Any]

_MOST_KEPT = 256
"""Accesses since threads last waited that are compared with (ours)."""


class _Lanes(Struct, frozen=True):
    """One access: addresses of all lanes, and which of them take part."""

    addresses: Array
    lit: Array
    low: int
    high: int


class Meetings:
    """The accesses of one program since its threads last waited for each other, by storage."""

    def __init__(self) -> None:
        self._stored: dict[int, list[_Lanes]] = {}
        self._loaded: dict[int, list[_Lanes]] = {}
        self._count = 0

    def wait(self) -> None:
        """Every thread has come as far as every other."""
        if self._count:
            self._stored.clear()
            self._loaded.clear()
            self._count = 0

    def load(self, place: int, addresses: Array, lit: Array) -> bool:
        """Note a load; whether a lane reads what another one stored."""
        lanes = _lanes(addresses, lit)
        if lanes is None or self._count >= _MOST_KEPT:
            return False
        self._keep(self._loaded, place, lanes)
        return any(_cross(lanes, stored) for stored in self._stored.get(place, ()))

    def store(self, place: int, addresses: Array, lit: Array) -> bool:
        """Note a store; whether a lane writes where another one has read."""
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
    """Whether lanes meet that are not the same: blocks of one shape are laid out alike."""
    if now.high < before.low or before.high < now.low:
        return False
    met = np.isin(now.addresses, before.addresses[before.lit]) & now.lit
    if now.addresses.shape == before.addresses.shape:
        met &= ~((now.addresses == before.addresses) & before.lit)
    return bool(met.any())
