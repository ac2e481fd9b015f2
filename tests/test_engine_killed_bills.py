"""Killed at random, a session's bill is never more than its engines held, and little less."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from beam_parts import WIDTH, Ridge
from engine_parts import new_session
from msgspec import structs

from workbench.engine import holds
from workbench.engine.opening import Opened, holds_path
from workbench.engine.parts import Judged
from workbench.engine.serve import serve_session
from workbench.measure.gpulock import gpu_lock
from workbench.session.records import Budget
from workbench.session.store import SessionStore

HERE = Path(__file__).parent
STEPS = 10
HOLD, BEAT = 0.05, 0.01
KILLS = 6
FOR_EVER = 600.0


class Metered(Ridge):
    """Each look and each gate holds the GPU, and a line of `meter.txt` says from when to when.

    The one after `most` words holds it until somebody kills the engine.
    """

    most: int

    def meter(self) -> float:
        asked, meter = time.monotonic(), self.folder / "meter.txt"
        with gpu_lock("GPU-test", folder=self.folder):
            began = time.monotonic()
            hold = HOLD if words_in(meter) < self.most else FOR_EVER
            with meter.open("a") as file:
                file.write(f"{asked},{began} ")
                file.flush()
                time.sleep(hold)
                ended = time.monotonic()
                file.write(f"{ended}\n")
            return ended - began

    @property
    def folder(self) -> Path:
        return Path(self.store.folder).parent

    def sit(self, source, history, number, step):
        sitting = super().sit(source, history, number, step)
        look, finish, aside = sitting.look, sitting.finish, sitting.put_aside
        paid: list[float] = []

        def looked():
            first = sitting.seen is None
            took = self.meter() if first else 0.0
            found = look()
            if first:
                report = structs.replace(sitting.seen.report, gpu_seconds=took)
                sitting.seen = structs.replace(sitting.seen, report=report)
            if not sitting.seen.paid:
                paid.append(sitting.seen.report.gpu_seconds)
            return found

        def billed(judged: Judged, *more: float) -> Judged:
            report = structs.replace(judged.report, gpu_seconds=sum((*paid, *more)))
            return structs.replace(judged, report=report)

        def finished(at):
            whole = not sitting.visits or sitting.visits[0].action != "prune"
            return billed(finish(at), *([self.meter()] if whole else []))

        sitting.look, sitting.finish = looked, finished
        sitting.put_aside = lambda code, says: billed(aside(code, says))
        return sitting


def metered(folder: Path, most: int) -> None:
    """Run a session of `folder`."""
    serve_session(folder, open_workplace=type("Kind", (Metered,), {"most": most}))


def beating(folder: Path, most: int) -> None:
    """In a process of its own: what is held is written down often."""
    holds.BEAT = BEAT
    metered(folder, most)


def killed(folder: Path, words_more: int, later: float) -> float:
    """Run an engine and kill it a moment after so many words of the meter; for how long nothing
    had been written down of a hold that it cut."""
    meter = folder.parent / "meter.txt"
    wanted = words_in(meter) + words_more
    call = f"beating(Path({str(folder)!r}), {wanted + 2})"
    words = f"from test_engine_killed_bills import Path, beating; {call}"
    engine = subprocess.Popen([sys.executable, "-c", words], cwd=HERE)
    while engine.poll() is None and words_in(meter) < wanted:
        time.sleep(0.002)
    time.sleep(later)
    engine.send_signal(signal.SIGKILL)
    assert engine.wait(60) == -signal.SIGKILL
    if not words_in(meter) % 2:
        return 0.0
    since = time.time() - holds_path(SessionStore.open(folder)).stat().st_mtime
    with meter.open("a") as file:
        file.write(f"{time.monotonic()}\n")
    return since


def words_in(meter: Path) -> int:
    return len(meter.read_text().split()) if meter.exists() else 0


def really_held(folder: Path) -> tuple[list[float], float]:
    """What each hold lasted at least, and all of them at most; one that was cut lasted until the
    kill, and none began before it was asked for or before the one before it ended."""
    words = (folder.parent / "meter.txt").read_text().split()
    least, most, last = [], 0.0, 0.0
    for begun, end in zip(words[::2], words[1::2], strict=True):
        asked, began = map(float, begun.split(","))
        ended = float(end)
        least.append(ended - began)
        most += ended - max(asked, last)
        last = ended
    return least, most


@pytest.mark.parametrize("seed", [5])
def test_killed_anywhere_the_bill_is_a_lower_bound_and_a_close_one(tmp_path, seed):
    folder = tmp_path / "one"
    new_session(folder, budget=Budget(steps=STEPS))
    rng = random.Random(seed)
    unsaid = [killed(folder, rng.randint(1, 4), rng.random() * HOLD) for _ in range(KILLS)]
    metered(folder, 1_000_000)
    billed = Opened(folder).snapshot().spent.gpu_seconds
    held, at_most = really_held(folder)
    assert billed <= at_most + 0.002 * STEPS, "never more than was held"
    lost = sum(held) - billed
    most = sum(unsaid) + KILLS * (WIDTH - 1) * (max(held) + 0.02)
    assert lost <= most, "of each kill what ended while the queue was written down"
    spends = SessionStore.open(folder).overview().spends
    assert all(one.cost.gpu_seconds > 0 for one in spends)
