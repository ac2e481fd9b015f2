"""Loads that the compiler issues turns ahead in a pipelined loop, past stores they may depend on.

`tl.range(.., num_stages=N)` makes triton copy what a loop loads up to N - 1 turns before it is
used, and it does not ask whether a store of the loop reaches the same address (seen in the TTGIR of
triton 3.9: the copy of the next turn stands before the store of this one).
"""

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Ahead:
    """The stores of a loop's last turns."""

    def __init__(self, stages: int) -> None:
        self._turns: deque[list[Array]] = deque(maxlen=stages)

    def turn(self) -> None:
        """A turn begins."""
        self._turns.append([])

    def stored(self, addresses: Array) -> None:
        """The running turn stores to these."""
        if self._turns:
            self._turns[-1].append(addresses)

    def passed(self, addresses: Array) -> bool:
        """Whether a load of these may be issued before the store of an earlier turn."""
        before = [stored for turn in list(self._turns)[:-1] for stored in turn]
        return bool(before) and bool(np.isin(addresses, np.concatenate(before)).any())
