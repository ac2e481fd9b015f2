"""Measures what the screen costs at the user's end of an SSH link: waits, bytes, memory."""

import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from workbench.bench.costs import Row, seconds_row
from workbench.bench.long_session import make_long_session
from workbench.bench.start import cached
from workbench.bench.terminal import Terminal
from workbench.engine.opening import lock_path
from workbench.session.lock import holder
from workbench.session.reader import SessionReader

_SHORT, _LONG = 50, 5000
"""Number of versions in the two sessions that are compared."""
_RUNS, _PRESSES = 5, 40
_CURSOR = b"48;2;45;48;56"
"""The selected row's background in the dark theme: its arrival shows that a paint happened."""
_FIRST = b"Lineage"


def measure_screen(show: Callable[[Row], None]) -> Iterator[Row]:
    """Measure one row after the other; `show` is called with each as soon as it is known."""
    folder = Path(tempfile.mkdtemp(prefix="workbench-screen-"))
    environment = {"XDG_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    environment |= cached(folder)
    try:
        short = make_long_session(folder / "short-1", _SHORT)
        long = make_long_session(folder / "long-1", _LONG)
        for look in (_opening, _at_rest, _scrolling, _at_work):
            for row in look(short, long, environment):
                show(row)
                yield row
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _attach(path: Path, environment: dict[str, str]) -> Terminal:
    return Terminal([sys.executable, "-m", "workbench.cli.main", "attach", str(path)], environment)


def _bytes(what: str, value: float, limit: int) -> Row:
    goal = "0 B" if limit == 0 else f"{limit} B"
    return Row(what=what, says=f"{value:.0f} B", goal=goal, met=value <= limit)


def _opening(short: Path, long: Path, environment: dict[str, str]) -> Iterator[Row]:
    for path, count, limit in ((short, _SHORT, 0.6), (long, _LONG, 1.0)):
        times = []
        for _ in range(_RUNS):
            with _attach(path, environment) as terminal:
                terminal.until(_FIRST)
                times.append(time.perf_counter() - terminal.began)
        took = statistics.median(times)
        yield seconds_row(f"first frame, {count} versions", took, limit)


def _at_rest(_short: Path, long: Path, environment: dict[str, str]) -> Iterator[Row]:
    """Rows of a saved session: bytes written when nothing happens, and after a key; memory."""
    with _attach(long, environment) as terminal:
        terminal.until(_FIRST)
        terminal.settle(1.0)
        yield _bytes("written by an idle screen in 3 s", len(terminal.during(3.0)), 0)
        moves = []
        for key in (b"j", b"j", b"k", b"j", b"k"):
            terminal.press(key)
            moves.append(len(terminal.until(_CURSOR)))
            terminal.settle()
        yield _bytes("written for a move of the selection", statistics.median(moves), 2048)
        terminal.press(b"d")
        opened = terminal.until(b"Close") + terminal.settle(1.0)
        yield _bytes("written to open a review", len(opened), 40960)
        rss = terminal.memory_mib()
        what = f"memory with {_LONG} versions and a diff open"
        yield Row(what=what, says=f"{rss:.0f} MiB", goal="150 MiB", met=rss < 150)


def _paints(terminal: Terminal, presses: int) -> list[float]:
    """Seconds from each of `presses` keys to the painted row."""
    times = []
    for press in range(presses):
        began = time.perf_counter()
        terminal.press(b"j" if press < presses // 2 else b"k")
        terminal.until(_CURSOR)
        times.append(time.perf_counter() - began)
        terminal.during(0.03)
    return times


def _scrolling(short: Path, long: Path, environment: dict[str, str]) -> Iterator[Row]:
    medians = []
    for path in (short, long):
        with _attach(path, environment) as terminal:
            terminal.until(_FIRST)
            terminal.settle(1.0)
            medians.append(statistics.median(_paints(terminal, _PRESSES)))
    ratio = medians[1] / medians[0]
    what = f"a key among {_LONG} versions against one among {_SHORT}"
    yield Row(what=what, says=f"{ratio:.2f}x", goal="1.25x", met=ratio < 1.25)


def _at_work(short: Path, _long: Path, environment: dict[str, str]) -> Iterator[Row]:
    """Rows of a session at work: clocks run while keys move the focus from pane to pane."""
    path = short.parent / "at-work"
    command = [sys.executable, "-m", "workbench.cli.main", "run", "softmax", "--device", "cpu"]
    command += ["--mode", "manual", "--session", path.name, "--sessions", str(path.parent)]
    try:
        with Terminal(command, environment) as terminal:
            terminal.until(b"policy")
            terminal.during(1.5)
            times = []
            for _ in range(_PRESSES // 2):
                for key, pane in ((b"2", b"Card"), (b"3", b"Profile")):
                    began = time.perf_counter()
                    terminal.press(key)
                    terminal.until(pane)
                    times.append(time.perf_counter() - began)
                    terminal.during(0.03)
            p95 = sorted(times)[int(len(times) * 0.95)]
            yield seconds_row("key to painted pane while clocks run, 95th percentile", p95, 0.030)
            # The median: a stage that ends meanwhile is news, not a clock.
            ticks = statistics.median(len(terminal.during(1.0)) for _ in range(9))
            yield _bytes("written a second while clocks run", ticks, 2048)
    finally:
        # The engine outlives its screen, as it should; this one has nothing left to do.
        found = holder(lock_path(SessionReader(path)))
        if found is not None and found.pid:
            os.kill(found.pid, signal.SIGTERM)
            os.kill(found.pid, signal.SIGTERM)
