"""A profiler that gets ready while it is still open whether its candidate is worth a look."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Self

from workbench.gate.candidate import Candidate
from workbench.gate.counters import Profiler
from workbench.kernels.records import Launch
from workbench.measure.ncu.records import NcuRecord


class Counting:
    """A context manager; leaving it before `result` was asked drops the candidate."""

    def __init__(self, candidate: Candidate, seed: bytes, tell: Callable[[str], None]) -> None:
        self._candidate = candidate
        self._seed = seed
        self._tell = tell
        self._proven: Future[bool] = Future()
        self._pool = ThreadPoolExecutor(1)
        self._record: Future[NcuRecord | None] | None = None

    def __enter__(self) -> Self:
        return self

    def prepare(self, profiler: Profiler, launches: Sequence[Launch]) -> None:
        """Let it get ready."""
        ask = partial(
            profiler,
            self._candidate,
            launches,
            seed=self._seed,
            waits=lambda: self._tell("waiting: a timing has the GPU"),
            proven=self._proven.result,
        )
        self._record = self._pool.submit(ask)

    def result(self) -> NcuRecord | None:
        """What the counters say, now that the candidate is worth it; None where nobody prepared."""
        if self._record is None:
            return None
        self._tell("reading the GPU's counters")
        self._proven.set_result(True)
        return self._record.result()

    def __exit__(self, *_: object) -> None:
        if not self._proven.done():
            self._proven.set_result(False)
        self._pool.shutdown()
