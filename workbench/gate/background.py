"""Speculative work in workers of its own, beside a check that may make it unnecessary."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Self, TypeVar

from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import Worker
from workbench.isolation.workshop import Workshop

T = TypeVar("T")


class Background(Generic[T]):
    """A context manager that runs `work` in a thread, with workers of these flavors.

    Leaving it before the work is done ends its workers and waits only for their end.
    """

    def __init__(
        self,
        workshop: Workshop,
        wanted: Sequence[tuple[Flavor, Limits]],
        work: Callable[[Sequence[Worker]], T],
    ) -> None:
        self._workshop = workshop
        self._wanted = wanted
        self._work = work
        self._pool = ThreadPoolExecutor(1)
        self._workers: list[Worker] = []
        self._lock = threading.Lock()
        self._left = False
        self.seconds = 0.0
        """How long the work took, once it is done."""

    def __enter__(self) -> Self:
        self._future = self._pool.submit(self._done)
        return self

    def _done(self) -> T | None:
        began = time.monotonic()
        with self._workshop.workers(*self._wanted) as workers:
            with self._lock:
                self._workers += workers
                if self._left:
                    return None
            made = self._work(workers)
        self.seconds = time.monotonic() - began
        return made

    def result(self) -> T:
        """The result, waited for. Raises what the work raised, WorkbenchError for no worker."""
        made = self._future.result()
        if made is None:
            raise RuntimeError("asked after it was left")
        return made

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._left = True
        if not self._future.done():
            for worker in self._workers:
                worker.close()
        self._pool.shutdown()
