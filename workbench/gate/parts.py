"""Adds up where a stage's seconds go, part by part, for its report."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

LEAST = 0.0005
"""Seconds below which a part is not reported (ours): less is noise."""


class Parts:
    """Seconds by part. Threads may share one: overlapping parts are each counted in full."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count the body's seconds, also when it raises."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(part, time.monotonic() - began)

    def add(self, part: str, seconds: float) -> None:
        """Count seconds that were measured elsewhere."""
        with self._lock:
            self._seconds[part] = self._seconds.get(part, 0.0) + seconds

    def add_calls(self, who: str, spent: Mapping[str, float]) -> None:
        """Count the calls of a worker, as `Worker.spent` has them."""
        for job, seconds in spent.items():
            self.add(f"{who}: {job.replace('_', ' ')}", seconds)

    def told(self) -> dict[str, float]:
        """The parts in milliseconds' precision, longest first."""
        with self._lock:
            found = sorted(self._seconds.items(), key=lambda one: -one[1])
        return {part: round(seconds, 3) for part, seconds in found if seconds >= LEAST}
