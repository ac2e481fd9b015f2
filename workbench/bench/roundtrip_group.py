"""What `bench roundtrip` is asked for, and the limits that its trials share."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

from msgspec import Struct

from workbench.bench.lineage_ends import Ends
from workbench.bench.roundtrip import Cards, Key, Trial
from workbench.bench.roundtrip_workload import Workload
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
    """For all, everything counted. What is left is shared evenly by the groups that have not
    begun; a trial ends in time for its verdict, and is judged as far as it came."""
    gpu_seconds: float | None
    """The same, for each group; a leap spends none before its verdict."""
    device: str
    target: str
    sessions: Path
    proposer: str = "skills"
    """`both`: a model carries out what no edit does, in trials that ask the gate for each step."""
    usd: float | None = None
    """For the model, in each trial."""
    kept: frozenset[Key] = frozenset()
    """Trials that an earlier call judged: new ones take the next free numbers, and so orders."""


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


class Shares:
    """The seconds of a run, dealt to its groups as they begin."""

    def __init__(self, end: float | None, groups: int, jobs: int) -> None:
        """`end` is when all are to be over, by the monotonic clock."""
        self._end = end
        self._waiting = groups
        self._jobs = jobs
        self._lock = threading.Lock()

    def next(self) -> float | None:
        """Seconds for a group that begins now; None without a limit.

        `jobs` groups run side by side, so what is left is dealt to rounds of so many.
        """
        with self._lock:
            rounds = -(-self._waiting // self._jobs)
            self._waiting -= 1
        return None if self._end is None else max(0.0, (self._end - time.monotonic()) / rounds)


class Clock:
    """What a group of trials has spent."""

    def __init__(self, seconds: float | None, gpu_seconds: float | None) -> None:
        self._began = time.monotonic()
        self._seconds = seconds
        self._gpu_seconds = gpu_seconds
        self.gpu_spent = 0.0

    def over(self, reserve: float = 0.0) -> str:
        """Which limit is met, in words; empty while none is.

        `reserve` are seconds to keep back for what has to follow.
        """
        left, _ = self.left
        if self._seconds is not None and left is not None and left <= reserve:
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
        return self._began + self._seconds - time.monotonic(), gpu


class Group(Struct, frozen=True, kw_only=True):
    """Trials of one workload with one form of cards, one after another."""

    ask: Ask
    ends: Ends
    workload: Workload
    """What it shares with the other forms of the cards."""
    naive: Path
    form: Cards
    library: Library
    way: Way | None
    """The longest that the recorded lineages have from the naive kernel."""
    shares: Shares
    tell: Tell
    note: Callable[[Trial | None], None]
    """Hears of every trial, after each step and at its end; of None when the group ends."""
    ending: Ending

    @property
    def conditioned(self) -> bool:
        """Whether the cards still say when: a way rests on scopes and requirements."""
        return self.form not in {"no conditions", "bare"}

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the trials that are asked for; each seeds its own order of the cards."""
        way = "leap" if self.ask.leap else "steps"
        free = (n for n in count(1) if (self.ends.problem, self.form, way, n) not in self.ask.kept)
        return tuple(islice(free, self.ask.trials))

    def clock(self) -> Clock:
        """A clock for its share, which starts now."""
        return Clock(self.shares.next(), self.ask.gpu_seconds)
