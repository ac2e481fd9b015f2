"""The time of day, and how long a run has worked, however much it did in parallel."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime


def now() -> str:
    """UTC in ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class WorkClock:
    """Seconds during which something was at work; parallel work counts once.

    Belongs to one asyncio loop; `now` gives seconds of a monotonic clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._at_work = 0
        self._since = 0.0
        self._done = 0.0
        self._lapped = 0.0

    @contextmanager
    def work(self) -> Iterator[None]:
        """Count while the body runs."""
        if not self._at_work:
            self._since = self._now()
        self._at_work += 1
        try:
            yield
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._done += self._now() - self._since

    def seconds(self) -> float:
        """Seconds worked so far."""
        return self._done + (self._now() - self._since if self._at_work else 0.0)

    def lap(self) -> float:
        """Seconds worked since the last call; laps never overlap."""
        total = self.seconds()
        lap, self._lapped = total - self._lapped, total
        return lap
