"""Deadlines in a worker's own time, so that a busy machine does not shorten them."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from workbench.isolation.processes import work_each

STRETCH = 5.0
"""Longest wait, as a multiple of the deadline, however little of it was the worker's own (ours)."""
_FIRST_SECONDS = 1.0
"""Delay before the processes are first inspected: most calls have ended by then."""
_LOOK_SECONDS = 0.5
"""Interval of the inspections; processes that start and end in between are not seen."""
_BUSY = 0.5
"""Share of the deadline that a worker must have computed to count as running endlessly (ours)."""


class Patience:
    """The deadline of one call: `seconds` of the worker's own time.

    Its own time passes while none of its threads waits for a processor, as counted by the kernel's
    scheduler (`/proc/PID/schedstat`); without these counts, it is the CPU time of its processes.
    After `stretch` times `seconds` the deadline has passed in any case.
    """

    def __init__(
        self, seconds: float, pids: Callable[[], list[int]], stretch: float = STRETCH
    ) -> None:
        self.seconds = seconds
        self._most = seconds * stretch
        self.cpu_seconds = 0.0
        """CPU time of the worker since the first inspection."""
        self._pids = pids
        self._began = self._at = time.monotonic()
        self._stalled = 0.0
        self._cpu: dict[int, float] = {}
        self._waited: dict[str, float] | None = None
        self._looked = False

    @property
    def busy(self) -> bool:
        """Whether the worker has been computing for most of the time."""
        return self.cpu_seconds >= _BUSY * (self.seconds - self._first)

    @property
    def _first(self) -> float:
        return min(_FIRST_SECONDS, self.seconds / 4)

    def left(self) -> float:
        """Seconds to wait before calling this again; 0 once the deadline has passed."""
        now = time.monotonic()
        if not self._looked and now - self._began < self._first:
            return self._began + self._first - now
        self._look(now)
        own = now - self._began - self._stalled if self._waited is not None else self.cpu_seconds
        left = min(self.seconds - own, self._began + self._most - now)
        return 0.0 if left <= 0 else min(max(left, 0.001), _LOOK_SECONDS)

    def _look(self, now: float) -> None:
        pids = self._pids()
        cpu, waited = work_each(pids), _waited(pids)
        if self._looked:
            self.cpu_seconds += sum(max(s - self._cpu.get(p, 0.0), 0.0) for p, s in cpu.items())
            if waited is not None and self._waited is not None:
                longest = max((s - self._waited.get(t, 0.0) for t, s in waited.items()), default=0)
                self._stalled += min(max(longest, 0.0), now - self._at)
        self._cpu, self._waited, self._at, self._looked = cpu, waited, now, True


def _waited(pids: list[int]) -> dict[str, float] | None:
    """Seconds that each thread has waited for a processor; None if the kernel does not count."""
    found: dict[str, float] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found[str(task)] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return found or None
