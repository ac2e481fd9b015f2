"""For how long this engine held GPUs since its last record in git, so that a kill loses little.

A step's GPU-seconds are in git with its record. What a killed engine had spent on the step under
way is known from a file beside git, rewritten at least every second while a GPU is held. It says
too little, never too much: the last second is not in it, on each GPU two holds at once count once,
and what was begun before a record and ended before it counts as paid with that.
"""

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from workbench.engine.history import History
from workbench.session.queue import Queued

BEAT = 1.0
"""Seconds between two writes while a GPU is held (ours)."""
_LEAST = 0.001
"""GPU-seconds that a record can tell: it keeps milliseconds."""


class Held(Struct, frozen=True, kw_only=True):
    """What the file says."""

    mark: str
    """What was in git: which records, and which candidates were open beside each other."""
    carried: float = 0.0
    """Seconds that a killed engine left, and that no record has yet."""
    ended: float = 0.0
    """Seconds of holds that ended since."""
    open: dict[str, float] = {}
    """Seconds so far of holds that last, by GPU."""


def records(history: History) -> int:
    """Versions and spends that are in git."""
    return len(history.transitions) + len(history.spends)


def mark_of(records: int, queue: Sequence[Queued]) -> str:
    """Names what is in git: so many versions and spends, and this queue."""
    return f"{records} {hashlib.sha256(msgspec.json.encode(tuple(queue))).hexdigest()[:16]}"


def left_by_killed(path: Path, mark: str) -> float:
    """GPU-seconds that a killed engine spent at least and that are in no record; 0 where it ended
    in order, or where the file cannot be read.

    If git has another `mark`, a record came just before the end, which may have what had ended.
    """
    try:
        held = msgspec.json.decode(path.read_bytes(), type=Held)
    except (OSError, msgspec.DecodeError):
        return 0.0
    told = held.carried + sum(held.open.values()) + (held.ended if held.mark == mark else 0.0)
    return told if _LEAST <= told < float("inf") else 0.0


class Holds:
    """Keeps the file. Thread-safe; `held` belongs to whoever holds a GPU.

    A file that cannot be written costs a killed engine's seconds, and stops no run.
    """

    def __init__(
        self,
        path: Path,
        records: int,
        queue: Sequence[Queued],
        carried: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._now = now
        self._records = records
        self._queue = tuple(queue)
        self.carried = carried
        self._ended = 0.0
        self._depth: dict[str, int] = {}
        self._since: dict[str, float] = {}
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        if carried:
            self._write()
        else:
            self._forget()

    @contextlib.contextmanager
    def held(self, gpu: str) -> Iterator[None]:
        """Count while the body holds that GPU."""
        with self._lock:
            self._depth[gpu] = self._depth.get(gpu, 0) + 1
            if self._depth[gpu] == 1:
                self._since[gpu] = self._now()
                self._write()
            if self._idle.is_set():
                self._idle.clear()
                threading.Thread(target=self._beat, name="holds", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._depth[gpu] -= 1
                if not self._depth[gpu]:
                    self._ended += self._now() - self._since.pop(gpu)
                    self._write()
                if not self._since:
                    self._idle.set()

    def recorded(self, records: int) -> None:
        """Note that a record is in git: it has what had ended."""
        with self._lock:
            self._records = records
            self._settle()

    def queued(self, queue: Sequence[Queued]) -> None:
        """Note that the open candidates are in git with what was found of them."""
        with self._lock:
            self._queue = tuple(queue)
            self._settle()

    def paid(self) -> None:
        """Forget what a killed engine left: it goes into a record now, rather never than twice."""
        with self._lock:
            self.carried = 0.0
            self._write()

    def close(self) -> None:
        """The engine ends in order: all is in git."""
        with self._lock:
            self._ended = 0.0
            if not self.carried:
                self._forget()

    def _settle(self) -> None:
        # Nothing was held since, and nothing is to be unsaid: a run without a GPU writes nothing.
        if not self._ended and not self._since and not self.carried and not self._path.exists():
            return
        self._ended = 0.0
        self._write()

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._idle.wait(BEAT):
            with self._lock:
                self._write()

    def _write(self) -> None:
        now = self._now()
        held = Held(
            mark=mark_of(self._records, self._queue),
            carried=self.carried,
            ended=self._ended,
            open={gpu: now - since for gpu, since in self._since.items()},
        )
        draft = self._path.with_suffix(".tmp")
        try:
            draft.write_bytes(msgspec.json.encode(held))
            draft.replace(self._path)
        except OSError:
            # What is there would be of an earlier moment, and may have been paid since.
            self._forget()
