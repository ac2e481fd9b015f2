"""Prepares a profiler run while the gate still decides whether the candidate needs one."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Self

from msgspec import structs

from workbench.gate.aside import Aside
from workbench.gate.background import Background
from workbench.gate.candidate import Candidate
from workbench.gate.counters import Profiler, Proof
from workbench.gate.parts import Parts
from workbench.gate.profile import Profiled
from workbench.kernels.records import Launch
from workbench.measure.ncu.records import NcuRecord

Came = Callable[[int, int, str], None]
"""`came(done, total, says)`, called on progress."""


class Counting:
    """A context manager; leaving it before `result` was asked drops the candidate.

    Without a profiler there is nothing to prepare and no result.
    """

    def __init__(
        self, candidate: Candidate, seed: bytes, came: Came, profiler: Profiler | None
    ) -> None:
        self._candidate = candidate
        self._seed = seed
        self._came = came
        self._profiler = profiler
        self._proven = Proof()
        self._pool = ThreadPoolExecutor(1)
        self._record: Future[NcuRecord | None] | None = None

    def __enter__(self) -> Self:
        return self

    def prepare(self, launches: Sequence[Launch]) -> None:
        """Start preparing; a second call changes nothing."""
        if self._profiler is None or self._record is not None:
            return
        ask = partial(
            self._profiler,
            self._candidate,
            launches,
            seed=self._seed,
            waits=partial(self._came, 0, 1, "waiting: a timing has the GPU"),
            proven=self._proven,
        )
        self._record = self._pool.submit(ask)

    def result(self) -> NcuRecord | None:
        """The counters, now that the candidate is accepted; None where nothing was prepared."""
        if self._record is None:
            return None
        self._came(0, 1, "reading the GPU's counters")
        self._proven.tell(worth=True)
        return self._record.result()

    def __exit__(self, *_: object) -> None:
        self._proven.tell(worth=False)
        self._pool.shutdown()


def looked_into(
    profiled: Profiled, aside: Background[Aside], counting: Counting
) -> tuple[Profiled, NcuRecord | None]:
    """The result together with its traces and the GPU's counters."""
    parts, began = Parts(), time.monotonic()
    with parts.of("counters"):
        record = counting.result()
    with parts.of("waiting for the interpreter"):
        traces = aside.result().traces
    report = structs.replace(
        profiled.report,
        seconds=profiled.report.seconds + time.monotonic() - began,
        parts={**profiled.report.parts, **parts.told()},
    )
    return structs.replace(profiled, traces=traces, report=report), record
