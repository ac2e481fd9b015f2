"""What `bench roundtrip` is asked for, and the limits that its trials share."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from workbench.bench.lineage_ends import Ends
from workbench.bench.roundtrip import Cards, Trial
from workbench.engine import events as ev
from workbench.engine.client import SessionClient
from workbench.errors import WorkbenchError
from workbench.search.retrieval import Way
from workbench.skills.library import Library

Tell = Callable[[ev.AnyEvent], None]


class Ask(Struct, frozen=True, kw_only=True):
    """What is tried, where."""

    lineages: tuple[Path, ...]
    """Session folders or bundles of lineages."""
    cards: Path
    """Folder of the learned cards."""
    trials: int
    steps: int
    """Most transitions of a trial."""
    forms: tuple[Cards, ...]
    """Of the cards, each tried in as many trials."""
    leap: bool
    """One verdict a trial, instead of one a step."""
    jobs: int
    """Groups of one workload and one form that run side by side."""
    seconds: float | None
    """For all: an equal share for each group, after which no step begins. A trial is then judged as
    far as it came."""
    gpu_seconds: float | None
    """The same, for each group; a leap spends none before its verdict."""
    device: str
    target: str
    sessions: Path
    proposer: str = "skills"
    """`both`: a model carries out what no edit does, in trials that ask the gate for each step."""
    usd: float | None = None
    """For the model, in each trial."""


class Ending:
    """Whether all trials are to end after their running step."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._sessions: set[Path] = set()

    @property
    def asked(self) -> bool:
        """Whether somebody asked for it."""
        return self._asked.is_set()

    def ask(self) -> None:
        """End them: leaps look here, and the engines of sessions are told."""
        self._asked.set()
        for path in tuple(self._sessions):
            # An engine that is starting, or has ended, has no step to end after.
            with suppress(WorkbenchError):
                asyncio.run(SessionClient(path).stop())

    @contextmanager
    def running(self, path: Path) -> Iterator[None]:
        """While a session's engine runs."""
        self._sessions.add(path)
        try:
            yield
        finally:
            self._sessions.discard(path)


class Clock:
    """What a group of trials has spent."""

    def __init__(self, seconds: float | None, gpu_seconds: float | None) -> None:
        self._began = time.monotonic()
        self._seconds = seconds
        self._gpu_seconds = gpu_seconds
        self.gpu_spent = 0.0

    @property
    def over(self) -> str:
        """Which limit is met, in words; empty while none is."""
        if self._seconds is not None and time.monotonic() >= self._began + self._seconds:
            return f"{self._seconds:.0f} s"
        if self._gpu_seconds is not None and self.gpu_spent >= self._gpu_seconds:
            return f"{self._gpu_seconds:g} GPU-seconds"
        return ""

    @property
    def left(self) -> tuple[float | None, float | None]:
        """Seconds and GPU-seconds that are left; None for no limit."""
        gpu = None if self._gpu_seconds is None else self._gpu_seconds - self.gpu_spent
        if self._seconds is None:
            return None, gpu
        return max(1.0, self._began + self._seconds - time.monotonic()), gpu


class Group(Struct, frozen=True, kw_only=True):
    """Trials of one workload with one form of cards, one after another."""

    ask: Ask
    ends: Ends
    naive: Path
    form: Cards
    library: Library
    way: Way | None
    """The longest that the recorded lineages have from the naive kernel."""
    seconds: float | None
    """Its share, from its own beginning on."""
    tell: Tell
    note: Callable[[Trial | None], None]
    """Hears of every trial, after each step and at its end; of None when the group ends."""
    ending: Ending

    @property
    def conditioned(self) -> bool:
        """Whether the cards still say when: a way rests on scopes and requirements."""
        return self.form not in {"no conditions", "bare"}

    def clock(self) -> Clock:
        """A clock that starts now."""
        return Clock(self.seconds, self.ask.gpu_seconds)

    def numbers(self, clock: Clock) -> Iterator[int]:
        """Numbers of the trials that still begin within the limits; each seeds its own order."""
        for number in range(1, self.ask.trials + 1):
            if clock.over or self.ending.asked:
                return
            yield number
