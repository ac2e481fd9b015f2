"""Terminals in tmux: real ones, of which a test sees what a person would see."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE = 120.0
"""Seconds for one thing to appear; a wait ends as soon as it does."""


def workbench(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "workbench.cli.main", *arguments]


class Tmux:
    """A terminal in a tmux server of its own."""

    def __init__(self, socket: Path) -> None:
        self._base = ["tmux", "-S", str(socket), "-f", os.devnull]

    def _ask(self, *arguments: str) -> str:
        # A size that pytest's own terminal has is none of this one's.
        known = {name: v for name, v in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        command = [*self._base, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=known)
        return done.stdout

    def open(self, command: list[str], folder: Path, size: tuple[int, int] = (120, 36)) -> None:
        columns, rows = map(str, size)
        self._ask("new-session", "-d", "-x", columns, "-y", rows, "-c", str(folder), *command)

    def resize(self, size: tuple[int, int]) -> None:
        columns, rows = map(str, size)
        self._ask("resize-window", "-x", columns, "-y", rows)

    def press(self, *keys: str) -> None:
        self._ask("send-keys", *keys)

    def type(self, text: str) -> None:
        self._ask("send-keys", "-l", text)

    def shown(self) -> str:
        return self._ask("capture-pane", "-p")

    def until(self, pattern: str) -> str:
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, shown := self.shown()):
            if time.monotonic() > end or "the engine failed" in shown:
                pytest.fail(f"{pattern!r} never appeared; the terminal shows\n{shown}")
            time.sleep(0.1)
        return shown

    def kill(self) -> None:
        subprocess.run([*self._base, "kill-server"], capture_output=True, check=False)


@contextmanager
def terminal() -> Iterator[Tmux]:
    """One that is gone afterwards."""
    # A socket's path may have 107 characters, and pytest's folders are longer.
    with tempfile.TemporaryDirectory(prefix="wb-") as folder:
        opened = Tmux(Path(folder) / "socket")
        try:
            yield opened
        finally:
            opened.kill()
