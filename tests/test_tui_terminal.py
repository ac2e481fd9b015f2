"""What the screen costs a terminal and a process: bytes written, and modules loaded."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CURSOR = b"48;2;45;48;56"
"""The selected row's background in the dark theme."""
PROGRAM = """
import sys
sys.path.insert(0, {here!r})
from fake_client import FakeClient, running, waiting
from workbench.tui.app import WorkbenchApp
left = WorkbenchApp(FakeClient({snapshot}())).run()
print(left.farewell())
"""


class Terminal:
    """A process in a terminal of our own, of which we count the bytes."""

    def __init__(self, snapshot: str) -> None:
        # Whatever size the tests' own terminal has: Textual believes these before the terminal.
        sized = {"COLUMNS": "120", "LINES": "36"}
        environment = {**os.environ, **sized, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        program = PROGRAM.format(here=str(HERE), snapshot=snapshot)
        self._pid, self._file = pty.fork()
        if self._pid == 0:
            os.execve(sys.executable, [sys.executable, "-c", program], environment)  # noqa: S606 -- a terminal needs a fork of its own
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))

    def read(self, quiet: float) -> bytes:
        """Everything until nothing comes for `quiet` seconds; at most 4 MB."""
        data = b""
        while len(data) < 4 << 20:
            ready, _, _ = select.select([self._file], [], [], quiet)
            if not ready:
                return data
            try:
                data += os.read(self._file, 1 << 16)
            except OSError:
                return data
        pytest.fail("the screen never stops writing")

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to a mark."""
        data = b""
        while mark not in data:
            ready, _, _ = select.select([self._file], [], [], 30)
            if not ready:
                pytest.fail(f"{mark!r} never came")
            data += os.read(self._file, 1 << 16)
        return data

    def press(self, keys: bytes) -> None:
        os.write(self._file, keys)

    def close(self) -> None:
        os.close(self._file)
        os.waitpid(self._pid, 0)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal("waiting")
    opened.read_until(b"Moved MiB")  # the last thing to come: the record read from the client
    opened.read(1.0)
    yield opened
    opened.press(b"q")
    opened.read(1.0)
    opened.close()


def test_an_idle_screen_writes_nothing(terminal: Terminal) -> None:
    assert terminal.read(1.5) == b""


def test_a_move_of_the_selection_costs_less_than_two_kilobytes(terminal: Terminal) -> None:
    terminal.press(b"jjjjjkkk")
    terminal.read(0.8)
    terminal.press(b"j")
    moved = terminal.read_until(CURSOR)
    assert len(moved) < 2048


def test_mouse_moves_over_the_panes_cost_nothing(terminal: Terminal) -> None:
    for step in range(60):
        terminal.press(b"\x1b[<35;%d;%dM" % (20 + step, 8 + step % 9))
    assert terminal.read(0.6) == b""


def test_leaving_restores_the_terminal_and_says_how_to_come_back(terminal: Terminal) -> None:
    terminal.press(b"q")
    said = terminal.read(1.5)
    assert b"\x1b[?1049l" in said
    assert b"Come back: workbench attach /tmp/sessions/rms-quiet-otter" in said


def test_a_running_session_paints_only_its_clock() -> None:
    terminal = Terminal("running")
    try:
        terminal.read_until(b"Leave")
        terminal.read(0.7)
        ticks = terminal.read_until(b"28 min")
        assert len(ticks) < 2048
    finally:
        terminal.press(b"q")
        terminal.read(1.0)
        terminal.close()


HEAVY = ("torch", "triton", "git", "openai", "numpy", "libcst", "pygments")


def test_the_screen_starts_without_heavy_modules() -> None:
    code = f"import sys, workbench.tui.app; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_the_screen_knows_textual() -> None:
    code = (
        "import sys, workbench.engine.view, workbench.engine.events, workbench.lineage.lanes;"
        "print('textual' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
