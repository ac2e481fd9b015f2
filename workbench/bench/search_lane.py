"""In which order the candidates of one problem are looked at, so that its time is used.

What needs no GPU is done ahead on other cores, and the GPU takes whichever candidate is through it:
so neither waits for the other, and a candidate that takes a minute to be traced delays nobody.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from statistics import median

from workbench.bench.search_looks import Looker, Made
from workbench.bench.search_records import BASE, Looked, known
from workbench.errors import WorkbenchError
from workbench.search.rungs import Rung

Hear = Callable[[str], None]

_FOR_PRICE = 1
"""Candidates that are looked at at smoke and at the top rung, for what it costs there: at the top
the fastest, with which every policy ends, so its own cost is known."""
_CORES = 2
"""Of each lane, left to the GPU's own work; of the others half compile, so that no timing waits for
a core (ours)."""


class Lane:
    """The candidates of one problem on their way up, until its time is over."""

    def __init__(
        self, looker: Looker, done: Sequence[Looked], hear: Hear, pool: ThreadPoolExecutor
    ) -> None:
        """`done` are looks of an earlier recording at this problem; in `pool` candidates are
        compiled and traced."""
        self._pool = pool
        self._looker = looker
        self._until = 0.0
        self._hear = hear
        self._found = list(done)
        self._on_gpu = looker.place.index is not None
        self._ahead: set[Future[Looked]] = set()
        self._lost: set[str] = set()
        """Candidates whose look came to nothing."""
        self._opening: Future[None] | None = None

    def begin(self) -> None:
        """Begin what needs no GPU; at once back."""
        self._opening = self._pool.submit(self._open)

    def opened(self) -> None:
        """Wait until the problem is known. Raises WorkbenchError where it cannot be judged."""
        if self._opening is None:
            self.begin()
        if self._opening is not None:
            self._opening.result()

    def looks(self, until: float) -> Iterator[Looked]:
        """New looks, as they are made; none is begun that would not end by `until`."""
        self._until = until
        self.opened()
        above = self._looker.rungs[1:]
        try:
            climbing = self._climb if self._on_gpu else self._each
            yield from climbing(self._ahead, above)
        finally:
            # What is under way ends with its worker; nobody waits for it.
            for one in self._ahead:
                one.cancel()

    def _open(self) -> None:
        looker = self._looker
        base, name = looker.rungs[0], looker.problem.name
        done = known(self._found)
        new = [one for one in looker.made if (name, one.name, base.name) not in done]
        if looker.profiler is not None:
            looker.profiler.try_ahead()
        # Before any candidate asks, so that none has the problem's cost in its own.
        shapes = len(looker.facts.shapes)
        self._hear(f"{name}: {shapes} shapes, {len(looker.made)} candidates")
        self._ahead.update(self._pool.submit(looker.look, one, base) for one in new)

    # -- orders -----------------------------------------------------------------------------

    def _each(self, ahead: set[Future[Looked]], above: Sequence[Rung]) -> Iterator[Looked]:
        """Without a GPU: every candidate that passed at every rung above."""
        for rung in above:
            while True:
                fresh, one = self._await(ahead, rung)
                yield from fresh
                if one is None or not self._in_time(rung):
                    break
                yield from self._look(one, rung)

    def _climb(self, ahead: set[Future[Looked]], above: Sequence[Rung]) -> Iterator[Looked]:
        """On a GPU: bench for all, smoke for the first few, the top rung for the fastest."""
        smoke, bench, top = above
        while True:
            fresh, one = self._await(ahead, bench)
            yield from fresh
            if one is None or not self._in_time(bench):
                break
            if self._count(smoke) < _FOR_PRICE and self._may(one, smoke):
                yield from self._look(one, smoke)
            if self._may(one, bench) and self._in_time(bench):
                yield from self._look(one, bench)
        for one in self._by_speed():
            if self._count(top) < _FOR_PRICE and self._may(one, top) and self._in_time(top):
                yield from self._look(one, top)

    def _await(self, ahead: set[Future[Looked]], rung: Rung) -> tuple[list[Looked], Made | None]:
        """Wait for a candidate that may be looked at at a rung: what came through meanwhile, and
        the candidate, None when there is no more or the time is over."""
        fresh: list[Looked] = []
        while True:
            for future in [one for one in ahead if one.done()]:
                ahead.discard(future)
                fresh += self._told(future.result)
            following = next((one for one in self._looker.made if self._may(one, rung)), None)
            if following is not None or not ahead or self._left() <= 0:
                return fresh, following
            wait(ahead, timeout=max(0.0, self._left()), return_when=FIRST_COMPLETED)

    # -- looks ------------------------------------------------------------------------------

    def _look(self, one: Made, rung: Rung) -> list[Looked]:
        found = self._told(lambda: self._looker.look(one, rung))
        if not found:
            self._lost.add(one.name)
        return found

    def _told(self, look: Callable[[], Looked]) -> list[Looked]:
        """A look; none where no worker could be had for it, which ends no recording."""
        try:
            looked = look()
        except WorkbenchError as fault:
            self._hear(f"{self._looker.problem.name}: a look came to nothing: {fault}")
            return []
        self._found.append(looked)
        word = "passed" if looked.passed else looked.code
        cost = f"{looked.gpu_seconds:.1f} GPU-s, {looked.wall_seconds:.1f} s"
        self._hear(f"{looked.problem}: {looked.candidate}: {looked.rung} {word}, {cost}")
        return [looked]

    def _may(self, one: Made, rung: Rung) -> bool:
        """Whether a candidate is still to be looked at: nothing was found against it, and it is no
        seed, which is the parent of all pairs."""
        own = {look.rung: look for look in self._found if look.candidate == one.name}
        right = self._looker.rungs[0].name in own and all(look.passed for look in own.values())
        timed = one.name != BASE or not self._on_gpu
        return timed and right and rung.name not in own and one.name not in self._lost

    def _count(self, rung: Rung) -> int:
        """Looks that passed there."""
        return sum(one.rung == rung.name and one.passed for one in self._found)

    def _in_time(self, rung: Rung) -> bool:
        """Whether one more is likely to end before this problem's time does.

        Time for one look at the top rung is kept: without its price nothing can be replayed.
        """
        top = self._looker.rungs[-1]
        kept = 0.0 if rung is top or self._count(top) else self._costs(top)
        costs = self._costs(rung) + kept
        if costs <= self._left():
            return True
        says = f"no time for {rung.name}, {costs:.0f} s with what comes after"
        self._hear(f"{self._looker.problem.name}: {says}")
        return False

    def _costs(self, rung: Rung) -> float:
        """Seconds of one look, by those that there were."""
        seen = [one.wall_seconds for one in self._found if one.rung == rung.name]
        return median(seen) if seen else rung.spec.wall.value

    def _left(self) -> float:
        return self._until - time.monotonic()

    def _by_speed(self) -> list[Made]:
        """Those that were timed, the fastest first."""
        ratios = {
            one.candidate: median(one.runs[0].us["candidate"]) / median(one.runs[0].us["parent"])
            for one in self._found
            if one.runs
        }
        timed = [one for one in self._looker.made if one.name in ratios]
        return sorted(timed, key=lambda one: ratios[one.name])


def side_by_side(lanes: int) -> int:
    """Candidates that each of several lanes compiles and traces at once on this machine."""
    cores = len(os.sched_getaffinity(0)) // lanes
    return max(1, (cores - _CORES) // 2)
