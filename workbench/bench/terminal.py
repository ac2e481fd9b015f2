"""Runs a program in a pseudo-terminal, to count the bytes it writes and to time its paints."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

ROWS, COLUMNS = 36, 120
_PATIENCE = 60.0
"""Seconds to wait for output before giving up."""


class Terminal:
    """Runs a command on a terminal of 120x36 in truecolor; ended with its `with` block."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        sized = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        known = {**os.environ, **(environment or {}), **sized}
        known |= {"COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        known.pop("NO_COLOR", None)
        self.began = time.perf_counter()
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, known)  # noqa: S606 -- our own program, no shell
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._file)

    def press(self, keys: bytes) -> None:
        """Type keys."""
        os.write(self._file, keys)

    def until(self, mark: bytes) -> bytes:
        """Everything up to a mark. RuntimeError when it does not come."""
        data = b""
        while mark not in data:
            if not select.select([self._file], [], [], _PATIENCE)[0]:
                raise RuntimeError(f"the screen never wrote {mark!r}")
            data += self._some()
        return data

    def during(self, seconds: float) -> bytes:
        """Everything that is written within this many seconds."""
        data, end = b"", time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            if select.select([self._file], [], [], left)[0]:
                data += self._some()
        return data

    def settle(self, quiet: float = 0.5) -> bytes:
        """Everything until nothing came for this many seconds. RuntimeError when it never ends."""
        data, end = b"", time.perf_counter() + _PATIENCE
        while select.select([self._file], [], [], quiet)[0]:
            data += self._some()
            if time.perf_counter() > end:
                raise RuntimeError("the screen never stops writing")
        return data

    def _some(self) -> bytes:
        try:
            data = os.read(self._file, 1 << 16)
        except OSError:
            data = b""
        if not data:
            raise RuntimeError("the screen ended before it was asked to")
        return data

    def memory_mib(self) -> float:
        """Resident memory of the program, MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024
