"""Speculative work in workers of its own, beside a check that may make it unnecessary."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, Protocol, Self, TypeVar

from workbench.errors import WorkbenchError
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import Worker
from workbench.isolation.workshop import Workshop

T = TypeVar("T")

_DEFAULTS = Limits()


class StartsWorkers(Protocol):
    """Where a check gets its workers: a workshop, or one whose workers may be ended early."""

    def worker(self, flavor: Flavor, limits: Limits = ...) -> Worker:
        """A fresh worker. Raises WorkbenchError when it does not start."""


class Workers:
    """A workshop's workers, which one call ends all together."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._started: list[Worker] = []
        self._lock = threading.Lock()
        self._ended = False

    def worker(self, flavor: Flavor, limits: Limits = _DEFAULTS) -> Worker:
        """A fresh worker. Raises WorkbenchError when it does not start, or after `end`."""
        return self._noted([self._workshop.worker(flavor, limits)])[0]

    @contextmanager
    def workers(self, *wanted: tuple[Flavor, Limits]) -> Iterator[list[Worker]]:
        """Workers started side by side, as the workshop's. Raises WorkbenchError as `worker`."""
        with self._workshop.workers(*wanted) as started:
            yield self._noted(started)

    def end(self) -> None:
        """End those that were started, and refuse to start more."""
        with self._lock:
            self._ended = True
            for worker in self._started:
                worker.close()

    def _noted(self, started: list[Worker]) -> list[Worker]:
        with self._lock:
            if not self._ended:
                self._started += started
                return started
        for worker in started:
            worker.close()
        raise WorkbenchError("the check that wanted a worker was ended")


class Background(Generic[T]):
    """A context manager that runs `work` in a thread; it gets its workers from its argument.

    Leaving it before the work is done ends those workers and waits only for their end.
    """

    def __init__(self, workshop: Workshop, work: Callable[[Workers], T]) -> None:
        self._work = work
        self._pool = ThreadPoolExecutor(1)
        self._workers = Workers(workshop)
        self.seconds = 0.0
        """How long the work took, once it is done."""

    def __enter__(self) -> Self:
        self._future = self._pool.submit(self._done)
        return self

    def _done(self) -> T:
        began = time.monotonic()
        made = self._work(self._workers)
        self.seconds = time.monotonic() - began
        return made

    def result(self) -> T:
        """The result, waited for. Raises what the work raised, WorkbenchError for no worker."""
        return self._future.result()

    def __exit__(self, *_: object) -> None:
        if not self._future.done():
            self._workers.end()
        self._pool.shutdown()
