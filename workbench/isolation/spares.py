"""Workers that were started before anybody asked for them: a GPU takes about a second to start.

A spare has greeted its judge and done nothing since. It is used once, like any other worker.
"""

import contextlib
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from workbench.errors import WorkbenchError
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import Worker

Wanted = tuple[Flavor, Limits]
"""A kind of worker."""
Start = Callable[[Flavor, Limits], Worker]
_AT_ONCE = 8
"""Starts side by side (ours)."""


class Spares:
    """The spare workers of one workshop, by kind. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: defaultdict[Wanted, deque[Future[Worker]]] = defaultdict(deque)
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False

    def order(self, *wanted: Wanted, start: Start) -> None:
        """Have this many of each kind, existing ones included; does not wait for them."""
        with self._lock:
            if self._closed:
                return
            self._pool = self._pool or ThreadPoolExecutor(_AT_ONCE)
            for kind, count in Counter(wanted).items():
                kept = self._kept[kind]
                for _ in range(count - len(kept)):
                    kept.append(self._pool.submit(start, *kind))

    def wait(self) -> None:
        """Until all that were ordered have started, or will not."""
        with self._lock:
            ordered = [future for kept in self._kept.values() for future in kept]
        for future in ordered:
            future.exception()

    def take(self, kind: Wanted) -> Worker | None:
        """One of that kind that is still alive, waited for where it is starting; None for none.

        One that did not start is not a fault here: whoever needs it starts another and meets it.
        """
        while (future := self._next(kind)) is not None:
            with contextlib.suppress(WorkbenchError, OSError):
                worker = future.result()
                if worker.alive:
                    return worker
                worker.close()
        return None

    def _next(self, kind: Wanted) -> Future[Worker] | None:
        with self._lock:
            return self._kept[kind].popleft() if self._kept[kind] else None

    def drop(self) -> None:
        """Close all existing ones, and those that are starting once they have."""
        with self._lock:
            dropped = [future for kept in self._kept.values() for future in kept]
            self._kept.clear()
        for future in dropped:
            with contextlib.suppress(WorkbenchError, OSError):
                future.result().close()

    def close(self) -> None:
        """No further one is started; existing ones are the workshop's to close."""
        with self._lock:
            self._closed = True
            self._kept.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
