"""Tries cards where their edits fit, through the real gate: what each did, and where it failed.

Only the pairs of a timing hold the GPU exclusively; recording, compiling and comparing run in
parallel before them, so that GPU time goes to what only a GPU can tell.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from workbench.bench.card_choice import Base, Chosen, Wanted, choose
from workbench.bench.card_judge import Judge, Judged
from workbench.bench.card_needs import Found, needs_of, worth_recording
from workbench.bench.card_states import kept_in, states_of
from workbench.bench.card_trials import Trial
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.problems.load import load_problem, shipped_problems
from workbench.skills.library import load_library

Hear = Callable[[str], None]
T = TypeVar("T")
_BESIDE = 8
"""Most candidates that are compared in parallel: more do not share one GPU usefully (ours)."""
_RECORDED_BESIDE = 24
"""Most kernels that are recorded in parallel: about a core and 1 GiB each (ours)."""
_SOME = 16
"""Candidates that are compared before their pairs are gathered (ours): few, so that the first
times are there early; two turns of `_BESIDE`, so that waiting for the slowest costs little."""


class CardsAsk(Struct, frozen=True, kw_only=True):
    """What to try."""

    problems: tuple[str, ...] = ()
    """All shipped when empty."""
    cards: tuple[str, ...] = ()
    """All when empty."""
    sessions: tuple[Path, ...] = ()
    """Folders or bundles whose accepted kernels are states too."""
    again: tuple[Trial, ...] = ()
    """Trials to repeat here, in their order, instead of choosing new ones."""
    every: bool = False
    """Also cards that have their evidence already."""
    problems_each: int = 2
    """Problems that a card is tried on."""
    wall_seconds: float | None = None
    """Work whose usual duration would end later than this does not start."""
    part: tuple[int, int] = (1, 1)
    """(i, n): the i-th of n shares, counted from 1, so that several GPUs, each with its own
    process, share the work."""
    timers: int = 1
    """Timings that are set up in parallel; the pairs of each hold the GPU exclusively."""


def try_cards(ask: CardsAsk, place: Place, hear: Hear) -> Iterator[Trial]:
    """Trials as they end, some candidates at a time: what a limit cuts off are the last ones.

    Conditions are those of the card: where one does not hold, the card is not tried; what it
    requires of earlier steps is the state's to have. Raises WorkbenchError for a problem, card,
    session or device that cannot be used.
    """
    clock = _Clock(ask.wall_seconds, hear)
    _known(ask.cards)
    with (
        Judge(place) as judge,
        ThreadPoolExecutor(beside()) as pool,
        ThreadPoolExecutor(ask.timers) as timers,
    ):
        wanted = _repeated(ask) if ask.again else _chosen(ask, place, judge, clock).wanted
        wanted = shared(wanted, ask.part)
        clock.told(f"candidates to judge: {len(wanted)}")
        some = _SOME if place.index is not None else max(len(wanted), 1)
        for first in range(0, len(wanted), some):
            if clock.over("comparing"):
                clock.told(f"{len(wanted) - first} were not tried")
                return
            right: list[Judged] = []
            yield from _proven(wanted[first : first + some], judge, pool, clock, right)
            if right:
                clock.told(f"{len(right)} are right and wait for their pairs")
            yield from _timed(right, judge, timers, clock)


def list_cards(ask: CardsAsk, place: Place, hear: Hear) -> Chosen:
    """What `try_cards` would judge, in its order; kernels are recorded and nothing is judged.

    Raises WorkbenchError as that does.
    """
    _known(ask.cards)
    with Judge(place) as judge:
        chosen = _chosen(ask, place, judge, _Clock(ask.wall_seconds, hear))
    return structs.replace(chosen, wanted=tuple(shared(chosen.wanted, ask.part)))


def _known(cards: Sequence[str]) -> None:
    library = load_library()
    for card in cards:
        library.skill(card)


class _Clock:
    """The time left, and the usual duration of each kind of work. Thread-safe."""

    def __init__(self, wall_seconds: float | None, hear: Hear) -> None:
        self._began = time.monotonic()
        self._wall = wall_seconds
        self._hear = hear
        self._took: dict[str, list[float]] = {}

    def told(self, says: str) -> None:
        """Tell it with the time."""
        self._hear(f"{time.monotonic() - self._began:.0f} s: {says}")

    def over(self, kind: str) -> bool:
        """Whether work of a kind that starts now would usually end too late."""
        if self._wall is None:
            return False
        usual = statistics.median(self._took.get(kind, [0.0]))
        return time.monotonic() - self._began + usual > self._wall

    def timed(self, kind: str, work: Callable[[], T]) -> T | None:
        """The result of some work; None where there is no time left for it."""
        if self.over(kind):
            return None
        began = time.monotonic()
        try:
            return work()
        finally:
            self._took.setdefault(kind, []).append(time.monotonic() - began)


def shared(wanted: Sequence[T], part: tuple[int, int]) -> list[T]:
    """The share of one of several processes; all shares together cover everything once."""
    mine, parts = part
    return list(wanted[mine - 1 :: parts])


def beside() -> int:
    """How many candidates are worked on in parallel here."""
    return min(_BESIDE, cores())


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _proven(
    some: Sequence[Wanted],
    judge: Judge,
    pool: ThreadPoolExecutor,
    clock: _Clock,
    right: list[Judged],
) -> Iterator[Trial]:
    """Trials that ended without a timing; the others go to `right`, in the order of `some`."""

    def proven(one: Wanted) -> Judged | None:
        return clock.timed("comparing", lambda: judge.proven(one))

    jobs = [pool.submit(proven, one) for one in some]
    left = 0
    for job in as_completed(jobs):
        judged = job.result()
        left += judged is None
        if judged is not None and not judged.waits:
            yield judged.trial
    right += [one for job in jobs if (one := job.result()) is not None and one.waits]
    if left:
        clock.told(f"{left} were not tried")


def _timed(
    right: Sequence[Judged], judge: Judge, timers: ThreadPoolExecutor, clock: _Clock
) -> Iterator[Trial]:
    def timed(judged: Judged) -> Trial | None:
        return clock.timed("timing", lambda: judge.timed(judged))

    left = 0
    for job in as_completed([timers.submit(timed, judged) for judged in right]):
        trial = job.result()
        left += trial is None
        if trial is not None:
            yield trial
    if left:
        clock.told(f"{left} that are right were not timed")


def _repeated(ask: CardsAsk) -> list[Wanted]:
    """Trials of another machine; those that were wrong there are not repeated."""
    kept = [t for t in ask.again if not ask.cards or t.card in ask.cards]
    kept = [t for t in kept if not ask.problems or t.problem in ask.problems]
    right = [t for t in kept if t.ratio is not None or t.verdict is not Verdict.REJECTED]
    return [
        Wanted(
            problem=load_problem(trial.problem),
            trial=structs.replace(trial, before=None, after=None, speed=None),
        )
        for trial in right
    ]


def _chosen(ask: CardsAsk, place: Place, judge: Judge, clock: _Clock) -> Chosen:
    problems = [load_problem(n) for n in ask.problems or tuple(sorted(shipped_problems()))]
    kept = kept_in(ask.sessions)
    found = [(problem, state) for problem in problems for state in states_of(problem, kept)]
    if not found:
        raise WorkbenchError(
            "there is no plain kernel to try cards on",
            where=", ".join(str(problem.path) for problem in problems),
            todo=f"there are: {', '.join(sorted(shipped_problems()))}",
        )
    needs = needs_of(
        load_library().skills.values(),
        [state for _, state in found],
        place,
        only=ask.cards,
        each=ask.problems_each,
        every=ask.every,
    )
    worth = worth_recording(needs, found, place.target)
    clock.told(f"{len(needs)} cards lack trials; {len(worth)} of {len(found)} kernels are recorded")
    with ThreadPoolExecutor(min(_RECORDED_BESIDE, cores())) as pool:
        bases = pool.map(lambda one: _recorded(one, judge, clock), worth)
        return choose([base for base in bases if base is not None], needs, place)


def _recorded(one: Found, judge: Judge, clock: _Clock) -> Base | None:
    problem, state = one
    return clock.timed("recording", lambda: judge.base(problem, state))
