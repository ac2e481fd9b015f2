"""How a run handles the GPU's power cap: it pauses between rounds, or measures capped and says so.

Dense products reach the cap of a well-cooled GPU: fp16 attention on an H200 loses 14 to 18 of 20
pairs to it (`workbench bench experts`). With pauses the GPU draws less on average, and both sides
of a pair run at the clocks that a single call in a program would see.
"""

import time
from collections.abc import Callable, Sequence

from workbench.measure.gpuwatch import GpuState, capped

RESTS = (0.0, 1.0, 2.0, 4.0)
"""Pauses tried in turn, as multiples of a round: duty cycles of 1, 1/2, 1/3 and 1/5 (ours)."""
PATIENCE = 3
"""Capped rounds before the next longer pause (ours)."""


class Cooling:
    """How long a run pauses between its rounds."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._step = 0
        self._patience = PATIENCE
        self.hot = False
        """No pause keeps the GPU below the cap: it is then part of what is measured."""

    def rest(self, round_seconds: float) -> bool:
        """Pause for as long as the rounds so far require; returns whether there was a pause."""
        seconds = RESTS[self._step] * round_seconds
        if seconds > 0:
            self._sleep(seconds)
        return seconds > 0

    def spoilt(self, states: Sequence[GpuState]) -> bool:
        """Whether the cap spoilt a round and something is now done about it."""
        if self.hot or not capped(states):
            return False
        self._patience -= 1
        if self._patience == 0:
            self._patience = PATIENCE
            self._step += 1
        if self._step == len(RESTS):
            self._step, self.hot = 0, True
        return True
