"""A whole evening in tmux: started, vetoed, accepted, the terminal killed, everything found again.

Real tmux, the real command, a real engine, the path without a GPU.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tmux_kit import PATIENCE, Tmux, terminal, workbench

from workbench.engine.opening import lock_path
from workbench.session.lock import holder
from workbench.session.reader import SessionReader
from workbench.session.records import Answer

FILES = Path(__file__).parent / "recorded" / "affine"
SESSION = "night-1"
REASON = "keep the two kernels apart"

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    with terminal() as opened:
        yield opened


@pytest.fixture
def session(own_home: Path) -> Iterator[Path]:
    folder = own_home / ".local" / "share" / "workbench" / "sessions" / SESSION
    yield folder
    if folder.exists() and (held := holder(lock_path(SessionReader(folder)))) is not None:
        os.kill(held.pid, signal.SIGTERM)


@contextmanager
def submitted(file: str) -> Iterator[None]:
    """Handed in from another terminal; whoever did hears the answer once the person gave it."""
    command = workbench("submit", SESSION, str(FILES / file))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as agent:
        try:
            yield
            assert agent.wait(PATIENCE) == 0
        finally:
            agent.kill()


@pytest.mark.slow
def test_a_killed_terminal_loses_nothing_of_an_evening(
    tmux: Tmux, session: Path, tmp_path: Path
) -> None:
    shutil.copytree(FILES, tmp_path / "mine")
    run = workbench("run", "affine.py", "--kernel", "start.py")
    tmux.open([*run, "--mode", "manual", "--session", SESSION], tmp_path / "mine")
    tmux.until(r"★\s+v0 .* best")

    with submitted("fused.py"):
        tmux.until("your decision")
        tmux.press("r")
        tmux.until("Veto…")
        tmux.press("v")
        tmux.until("because…")
        tmux.type(REASON)
        tmux.press("Enter")
        tmux.until(r"v1 .* veto")
    with submitted("wide.py"):
        tmux.until("your decision")
        tmux.press("r")
        tmux.until("Accept")
        tmux.press("a")
        tmux.until(r"★\s+v2 .* best")

    tmux.kill()
    engine = holder(lock_path(SessionReader(session)))
    assert engine is not None, "the engine died with the terminal"

    tmux.open(workbench("attach", SESSION), tmp_path)
    tmux.until(r"★\s+v2 .* best")
    tmux.press("j")
    tmux.until(REASON)
    tmux.press("q")

    store = SessionReader(session)
    assert store.overview().line() == (0, 2)
    assert store.overview().best == 2
    vetoed = store.transition(1).decision
    assert (vetoed.answer, vetoed.by, vetoed.reason) == (Answer.VETOED, "person", REASON)
    assert holder(lock_path(store)) == engine
