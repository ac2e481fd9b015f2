"""Tries cards where their edits fit, through the real gate: what each did, and where it failed.

Only the pairs of a timing hold the GPU alone; recording, compiling and comparing go on side by side
before them, so that the GPU's time goes to what nothing else can tell.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from msgspec import Struct, structs

from workbench.bench.card_choice import Wanted, choose
from workbench.bench.card_judge import Judge, Judged
from workbench.bench.card_states import states_of
from workbench.bench.card_trials import Trial
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.problems.load import load_problem, shipped_problems
from workbench.skills.library import Library, load_library

Hear = Callable[[str], None]
_BESIDE = 8
"""Candidates that are compared side by side at most: each may hold a full shape on the GPU."""


class CardsAsk(Struct, frozen=True, kw_only=True):
    """What to try."""

    problems: tuple[str, ...] = ()
    """All shipped when empty."""
    cards: tuple[str, ...] = ()
    """All when empty."""
    sessions: tuple[Path, ...] = ()
    """Folders or bundles whose accepted kernels are states too."""
    again: tuple[Trial, ...] = ()
    """Trials to repeat here, in their order: nothing else is tried then."""
    every: bool = False
    """Also cards that have their evidence already."""
    problems_each: int = 2
    """Problems that a card is tried on."""
    wall_seconds: float | None = None
    """After so long no timing begins."""
    timers: int = 1
    """Timings whose sides are opened beside each other; the pairs of each have the GPU alone."""


def try_cards(ask: CardsAsk, place: Place, hear: Hear) -> Iterator[Trial]:
    """Trials as they end.

    Conditions are those of the card: where one does not hold, the card is not tried; what it
    requires of earlier steps is the state's to have. Raises WorkbenchError for a problem, card,
    session or device that cannot be used.
    """
    began = time.monotonic()
    library = load_library()
    for card in ask.cards:
        library.skill(card)
    with Judge(place) as judge, ThreadPoolExecutor(beside()) as pool:
        wanted = _repeated(ask) if ask.again else _chosen(ask, place, library, judge, pool, hear)
        hear(f"{len(wanted)} candidates to judge")
        jobs = [pool.submit(judge.proven, one) for one in wanted]
        waiting: list[Judged] = []
        for job in as_completed(jobs):
            judged = job.result()
            if judged.waits:
                waiting.append(judged)
            else:
                yield judged.trial
        order = {id(one): number for number, one in enumerate(wanted)}
        waiting.sort(key=lambda judged: order[id(judged.wanted)])
        yield from _timed(waiting, judge, ask, began, hear)


def beside() -> int:
    """How many candidates are worked on side by side here."""
    return min(_BESIDE, len(os.sched_getaffinity(0)))


def _timed(
    waiting: Sequence[Judged], judge: Judge, ask: CardsAsk, began: float, hear: Hear
) -> Iterator[Trial]:
    if waiting:
        hear(f"{len(waiting)} are right and wait for their pairs")

    def timed(judged: Judged) -> Trial | None:
        wall = ask.wall_seconds
        if wall is not None and time.monotonic() - began > wall:
            return None
        return judge.timed(judged)

    left = 0
    with ThreadPoolExecutor(ask.timers) as pool:
        for job in as_completed([pool.submit(timed, judged) for judged in waiting]):
            trial = job.result()
            left += trial is None
            if trial is not None:
                yield trial
    if left:
        hear(f"{left} were not timed: {ask.wall_seconds:g} s are over")


def _repeated(ask: CardsAsk) -> list[Wanted]:
    """Trials of another machine; what was wrong there is not tried again."""
    kept = [t for t in ask.again if not ask.cards or t.card in ask.cards]
    kept = [t for t in kept if not ask.problems or t.problem in ask.problems]
    right = [t for t in kept if t.ratio is not None or t.verdict is not Verdict.REJECTED]
    return [
        Wanted(
            problem=load_problem(trial.problem),
            trial=structs.replace(trial, before=None, after=None),
        )
        for trial in right
    ]


def _chosen(
    ask: CardsAsk,
    place: Place,
    library: Library,
    judge: Judge,
    pool: ThreadPoolExecutor,
    hear: Hear,
) -> list[Wanted]:
    problems = [load_problem(n) for n in ask.problems or tuple(sorted(shipped_problems()))]
    found = [(problem, state) for problem in problems for state in states_of(problem, ask.sessions)]
    if not found:
        raise WorkbenchError(
            "there is no plain kernel to try cards on",
            where=", ".join(str(problem.path) for problem in problems),
            todo=f"there are: {', '.join(sorted(shipped_problems()))}",
        )
    hear(f"{len(found)} kernels of {len(problems)} problems are recorded")
    bases = [b for b in pool.map(lambda one: judge.base(*one), found) if b is not None]
    return choose(bases, library, place, ask.cards, each=ask.problems_each, every=ask.every)
