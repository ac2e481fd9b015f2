"""How a run handles the GPU's power cap: it pauses between rounds, or measures capped and says so.

Dense products reach the cap of a GPU that is cooled as it should be: fp16 attention on an H200
loses 14 to 18 of 20 pairs to it (`workbench bench experts`). A GPU that rests draws less on
average, and both sides of a pair then run at the clocks that a call in a program sees.
"""

import time
from collections.abc import Callable, Sequence

from workbench.measure.gpuwatch import GpuState, capped

RESTS = (0.0, 1.0, 2.0, 4.0)
"""Rests that are tried in turn, in durations of a round: the GPU works all of the time, half, a
third, a fifth (ours)."""
PATIENCE = 3
"""Rounds under the cap before the next longer rest (ours)."""


class Cooling:
    """How long one run rests between its rounds."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._step = 0
        self._patience = PATIENCE
        self.hot = False
        """Whether no rest helped: the cap is then part of what is measured."""

    def rest(self, round_seconds: float) -> bool:
        """Rest as long as it takes by what was seen so far; whether there was any."""
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
