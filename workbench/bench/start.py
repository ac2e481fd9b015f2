"""Measures what a user waits for: an answer, a first frame, a rejection, a long session."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from workbench.bench.costs import Row, seconds_row
from workbench.bench.long_session import make_long_session
from workbench.bench.terminal import Terminal
from workbench.engine.opening import lock_path
from workbench.session.lock import holder
from workbench.session.reader import SessionReader

_RUNS = 5
"""Runs of which a median is taken, with files cached."""

_BAD = (
    "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
)


def measure_start(show: Callable[[Row], None]) -> Iterator[Row]:
    """Measure one row after the other; `show` is called with each as soon as it is known."""
    folder = Path(tempfile.mkdtemp(prefix="workbench-bench-"))
    try:
        environment = {**os.environ, **cached(folder)}
        for look in (_first_words, _refusal, _long_session, _first_frame, _idle):
            for row in look(folder, environment):
                show(row)
                yield row
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cached(folder: Path) -> dict[str, str]:
    """Environment variables that make Python cache bytecode in `folder`; empty if it does anyhow.

    With `PYTHONDONTWRITEBYTECODE` set, every start would compile all modules again, and 0.1 s of
    each measured start would be Python's compiler.
    """
    if not sys.dont_write_bytecode:
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _workbench(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "workbench.cli.main", *arguments]


def _timed(command: list[str], environment: dict[str, str], expected: int) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    took = time.perf_counter() - began
    if done.returncode != expected:
        raise RuntimeError(f"{command} left with {done.returncode}: {done.stderr.decode()}")
    return took


def _median(command: list[str], environment: dict[str, str], expected: int = 0) -> float:
    return statistics.median(_timed(command, environment, expected) for _ in range(_RUNS))


def _first_words(folder: Path, environment: dict[str, str]) -> Iterator[Row]:
    command = _workbench("sessions", "--sessions", str(folder))
    took = _median(command, environment)
    yield seconds_row("command line to its answer (`workbench sessions`)", took, 0.3)


def _refusal(folder: Path, environment: dict[str, str]) -> Iterator[Row]:
    file = folder / "bad.py"
    file.write_text(_BAD, encoding="utf-8")
    command = _workbench("gate", str(file), "--problem", "softmax", "--device", "cpu")
    took = _median(command, environment, expected=1)
    yield seconds_row("a candidate rejected on the CPU path (`workbench gate`)", took, 2.0)


def _long_session(folder: Path, environment: dict[str, str]) -> Iterator[Row]:
    path = make_long_session(folder / "long-1", 1000)
    took = _median(_workbench("status", str(path)), environment)
    yield seconds_row("a session of 1,000 transitions opened (`workbench status`)", took, 1.0)


def _first_frame(folder: Path, environment: dict[str, str]) -> Iterator[Row]:
    command = _workbench("attach", str(folder / "long-1"))
    took = statistics.median(_frame_seconds(command, environment) for _ in range(_RUNS))
    what = "the screen's first frame, 1,000 transitions (`workbench attach`)"
    yield seconds_row(what, took, 0.6)


def _frame_seconds(command: list[str], environment: dict[str, str]) -> float:
    """Seconds until the screen's lineage pane is drawn."""
    with Terminal(command, environment) as terminal:
        terminal.until(b"Lineage")
        return time.perf_counter() - terminal.began


def _idle(folder: Path, environment: dict[str, str]) -> Iterator[Row]:
    """Rows of a waiting engine and its children: CPU time and bytes written in three seconds."""
    environment = environment | {"XDG_RUNTIME_DIR": str(folder)}
    command = _workbench(
        *("run", "softmax", "--headless", "--mode", "manual", "--device", "cpu"),
        *("--session", "idle", "--sessions", str(folder)),
    )
    engine = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_until_paused(folder / "idle", engine)
        before = _use(engine.pid)
        time.sleep(3)
        after = _use(engine.pid)
    finally:
        engine.kill()
        engine.wait()
    ticks, written = after[0] - before[0], after[1] - before[1]
    cpu = ticks / os.sysconf("SC_CLK_TCK")
    yield Row(what="CPU of an idle engine in 3 s", says=f"{cpu:.2f} s", goal="0 s", met=cpu == 0)
    yield Row(what="written by it in 3 s", says=f"{written} B", goal="0 B", met=written == 0)


def _wait_until_paused(path: Path, engine: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and engine.poll() is None:
        log = path / ".git" / "workbench" / "events.jsonl"
        if log.exists() and b'"run-paused"' in log.read_bytes():
            if holder(lock_path(SessionReader(path))) is None:
                break
            return
        time.sleep(0.1)
    raise RuntimeError("the engine did not pause")


def _use(pid: int) -> tuple[int, int]:
    """Clock ticks used and bytes written by a process and all its descendants."""
    ticks = written = 0
    for one in (pid, *_below(pid)):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            io = Path(f"/proc/{one}/io").read_text()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
        written += int(next(ln for ln in io.splitlines() if ln.startswith("wchar")).split()[1])
    return ticks, written


def _below(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *_below(int(child))]
    return found
