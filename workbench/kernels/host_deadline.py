"""Ends host code that runs for too long, without counting the time of compilers. In workers.

Host code that catches the exception, or never returns from C, meets the judge's deadline instead.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

CPU_SECONDS, WALL_SECONDS = 20.0, 60.0
"""Limits for host code, compiling not counted (ours). CPU time, because on a busy machine wall time
says little; and wall time, because sleeping takes no CPU time. While it waits for a processor, the
wall's clock stands, where the kernel counts that."""
_TICK_SECONDS = 1.0
_COMPILERS = ("triton.compiler", "triton.backends", "workbench.kernels.static")
"""Modules that compile, or wait for the disassembler of what was compiled."""


class HostHangs(BaseException):
    """Host code took too long. A BaseException, so that `except Exception` does not catch it."""


class _Spent:
    """The time that host code has used; at each tick, the stack shows whether it is compiling."""

    def __init__(self, cpu_seconds: float, wall_seconds: float) -> None:
        self._left = [cpu_seconds, wall_seconds]
        self._at = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.process_time(), time.monotonic() - _kept_waiting()

    def tick(self, _signal: int, frame: FrameType | None) -> None:
        """Count the time since the last tick. Raises HostHangs when a limit is exceeded."""
        before, self._at = self._at, self._now()
        if _compiles(frame):
            return
        for place, (was, now) in enumerate(zip(before, self._at, strict=True)):
            self._left[place] -= now - was
        if min(self._left) < 0:
            raise HostHangs("host code runs on and on, and it is not compiling")


def _kept_waiting() -> float:
    """Seconds that this thread has waited for a processor; 0 where nobody counts."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


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
    """Raise HostHangs inside the body once its host code has run for that long.

    Does nothing outside the main thread, which alone can handle signals.
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
