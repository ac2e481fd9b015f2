"""Host code that does not come to its end, told from a compiler that takes its time. In workers.

Whoever catches what is raised here, or stays in C, meets the judge's own deadline instead.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

CPU_SECONDS, WALL_SECONDS = 20.0, 60.0
"""Of host code, what it compiles not counted (ours): by its own clock, since a busy machine lets
it wait, and by the wall's where it sleeps."""
_TICK_SECONDS = 1.0
_COMPILERS = ("triton.compiler", "triton.backends")


class HostHangs(BaseException):
    """Host code took too long; no Exception, for it is often raised within somebody's `try`."""


class _Spent:
    """What host code has used up, read now and then; the stack at that moment says who worked."""

    def __init__(self, cpu_seconds: float, wall_seconds: float) -> None:
        self._left = [cpu_seconds, wall_seconds]
        self._at = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.process_time(), time.monotonic()

    def tick(self, _signal: int, frame: FrameType | None) -> None:
        """Count what was spent since the last tick. Raises HostHangs."""
        before, self._at = self._at, self._now()
        if _compiles(frame):
            return
        for place, (was, now) in enumerate(zip(before, self._at, strict=True)):
            self._left[place] -= now - was
        if min(self._left) < 0:
            raise HostHangs("host code runs on and on, and it is not compiling")


def _compiles(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_COMPILERS):
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def host_deadline(
    cpu_seconds: float = CPU_SECONDS,
    wall_seconds: float = WALL_SECONDS,
    tick_seconds: float = _TICK_SECONDS,
) -> Iterator[None]:
    """Raise HostHangs within the body once its host code has run for so long.

    Does nothing outside of the main thread, where no signal can be met.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    spent = _Spent(cpu_seconds, wall_seconds)
    before = signal.signal(signal.SIGALRM, spent.tick)
    signal.setitimer(signal.ITIMER_REAL, tick_seconds, tick_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
