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
from typing import Self

from msgspec import Struct

from workbench.bench.search_lane import Lane, side_by_side
from workbench.bench.search_looks import Looker
from workbench.bench.search_records import Looked, keep, read
from workbench.engine.devices import Place
from workbench.engine.measuring import flavors
from workbench.errors import WorkbenchError
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
    """Seconds for all problems together; each gets its share of what is left."""
    file: Path
    """What is there already is not looked at again."""


def record(ask: RecordAsk, places: Sequence[Place], hear: Hear) -> Iterator[Looked]:
    """Lines as they are kept; the GPUs that `places` name work on a problem each.

    A process that is killed loses the looks that are under way, and no other. Raises
    WorkbenchError for a problem or device that cannot be used.
    """
    done = read(ask.file) if ask.file.exists() else []
    names = list(ask.problems or sorted(shipped_problems()))
    share = _Share(names, len(places), time.monotonic() + ask.seconds)
    told: SimpleQueue[Looked | None] = SimpleQueue()
    beside = side_by_side(len(places))

    def work(place: Place) -> None:
        try:
            with _Site(place, share, ask.count, beside, done, hear) as site:
                for looked in site.looks():
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
        self._left = len(names)
        self._lanes = lanes
        self._ends = ends
        self._lock = threading.Lock()

    @property
    def over(self) -> bool:
        """Whether there is no time left."""
        return time.monotonic() >= self._ends

    def next(self) -> str | None:
        """A problem to get ready; None after the last."""
        with self._lock:
            return self._names.pop(0) if self._names else None

    def until(self) -> float:
        """The end, on the monotonic clock, of a problem that begins now: what it leaves, others
        have."""
        with self._lock:
            rounds = -(-self._left // self._lanes)
            self._left -= 1
            now = time.monotonic()
            return now + max(0.0, self._ends - now) / max(rounds, 1)

    def end(self) -> None:
        """Nobody wants more."""
        with self._lock:
            self._names.clear()


class _Site:
    """One problem after the other on one GPU, or on the CPU; a context manager.

    The next problem is inspected and its candidates compiled while the GPU works on this one's.
    """

    def __init__(  # where, what, and who listens
        self,
        place: Place,
        share: _Share,
        count: int,
        beside: int,
        done: Sequence[Looked],
        hear: Hear,
    ) -> None:
        self._place = place
        self._share = share
        self._count = count
        self._done = done
        self._hear = hear
        self._pool = ThreadPoolExecutor(beside)
        self._workshop = Workshop(
            device_index=place.index,
            preload=JOB_MODULES,
            share_device_memory=place.index is not None,
        )

    def __enter__(self) -> Self:
        self._workshop.__enter__()
        return self

    def __exit__(self, *fault: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._workshop.close()

    def looks(self) -> Iterator[Looked]:
        """The looks at all problems for which there is time."""
        following = self._begun()
        while following is not None:
            lane = following
            try:
                lane.opened()
                following = self._begun()
                yield from lane.looks(self._share.until())
            except WorkbenchError as fault:
                self._hear(f"{fault}")
                following = following if following is not lane else self._begun()

    def _begun(self) -> Lane | None:
        """The next problem, being got ready; None where there is no more, or no time."""
        while (name := self._share.next()) is not None:
            if self._share.over:
                self._hear(f"{name}: no time left")
                continue
            problem = load_problem(name)
            self._workshop.warm(*flavors(self._place.index))
            looker = Looker(problem, self._place, self._workshop, self._count)
            found = [one for one in self._done if one.problem == problem.name]
            lane = Lane(looker, found, self._hear, self._pool)
            lane.begin()
            return lane
        return None
