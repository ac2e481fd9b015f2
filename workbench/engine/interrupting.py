"""Signals that stop a piece of work between two steps, or in the middle of one that waits."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal came. A BaseException, so that no handler of kernel faults swallows it."""


class Interruption:
    """Catches the signals that end a program, while the context is open.

    The first signal raises `Stopped` where work is `interruptible`, else at the next such place, so
    that a write in progress is finished. Later ones are ignored, also by child processes, so that
    the final commits are not cut short. Outside of the main thread nothing is caught.
    """

    def __init__(self) -> None:
        self._met: signal.Signals | None = None
        self._waiting = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        # Python delivers signals to the main thread only; elsewhere our host decides.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._caught) for number in _NUMBERS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() returned

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Work that may be abandoned at any point. Raises Stopped when a signal came or comes."""
        self._waiting = True
        try:
            if self._met is not None:
                raise Stopped(self._met.name)
            yield
        finally:
            self._waiting = False

    def _caught(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._met = signal.Signals(number)
        for other in self._before:
            signal.signal(other, signal.SIG_IGN)
        if self._waiting:
            self._waiting = False
            raise Stopped(self._met.name)
