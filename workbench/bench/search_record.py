"""Records a stream of candidates: each looked at once at the rungs that replays need.

Candidates are variants of the problem's seed. The seed is the parent of all pairs, so that any two
candidates can be compared later through it. On a GPU the pairs of a rung are gathered whatever they
say: which of them a policy would have asked for follows from the samples. Smoke and the top rung
cost much the same for all candidates of a problem, so a few stand for the others there.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from msgspec import Struct

from workbench.bench.search_lane import Lane, side_by_side
from workbench.bench.search_looks import Looker
from workbench.bench.search_records import Looked, keep, read
from workbench.engine.devices import Place
from workbench.engine.measuring import flavors
from workbench.gate.judge import JOB_MODULES
from workbench.isolation.workshop import Workshop
from workbench.problems.load import load_problem, shipped_problems

Hear = Callable[[str], None]


class RecordAsk(Struct, frozen=True, kw_only=True):
    """What to record, and for how long."""

    problems: tuple[str, ...] = ()
    """Shipped names or files; every shipped problem when empty."""
    count: int = 8
    """Candidates of each problem, the seed among them."""
    seconds: float
    """For all problems together; each has its share of what is left."""
    file: Path
    """What is there already is not looked at again."""


def record(ask: RecordAsk, places: Sequence[Place], hear: Hear) -> Iterator[Looked]:
    """Lines as they are kept; the GPUs that `places` name work on a problem each.

    Raises WorkbenchError for a problem or device that cannot be used.
    """
    done = read(ask.file) if ask.file.exists() else []
    names = list(ask.problems or sorted(shipped_problems()))
    share = _Share(names, len(places), time.monotonic() + ask.seconds)
    told: SimpleQueue[Looked | None] = SimpleQueue()

    beside = side_by_side(len(places))

    def work(place: Place) -> None:
        try:
            for looked in _work(place, share, ask.count, beside, done, hear):
                told.put(looked)
        finally:
            told.put(None)

    with ThreadPoolExecutor(len(places)) as pool:
        asked = [pool.submit(work, place) for place in places]
        try:
            for _ in places:
                while (looked := told.get()) is not None:
                    keep(ask.file, looked)
                    yield looked
        finally:
            share.end()
        for one in asked:
            one.result()


class _Share:
    """Which problem comes next, and until when it may take; for several threads."""

    def __init__(self, names: list[str], lanes: int, ends: float) -> None:
        self._names = names
        self._lanes = lanes
        self._ends = ends
        self._lock = threading.Lock()

    def next(self) -> tuple[str, float] | None:
        """A problem and its end on the monotonic clock; None after the last."""
        with self._lock:
            if not self._names:
                return None
            rounds = -(-len(self._names) // self._lanes)
            now = time.monotonic()
            return self._names.pop(0), now + max(0.0, self._ends - now) / rounds

    def end(self) -> None:
        """Nobody wants more."""
        with self._lock:
            self._names.clear()


def _work(
    place: Place,
    share: _Share,
    count: int,
    beside: int,
    done: Sequence[Looked],
    hear: Hear,
) -> Iterator[Looked]:
    """One problem after the other on one GPU, or on the CPU."""
    with Workshop(
        device_index=place.index,
        preload=JOB_MODULES,
        share_device_memory=place.index is not None,
    ) as workshop:
        while (following := share.next()) is not None:
            name, until = following
            if time.monotonic() >= until:
                hear(f"{name}: no time left")
                continue
            workshop.warm(*flavors(place.index))
            looker = Looker(load_problem(name), place, workshop, count)
            found = [one for one in done if one.problem == looker.problem.name]
            yield from Lane(looker, until, found, hear, beside=beside).looks()
