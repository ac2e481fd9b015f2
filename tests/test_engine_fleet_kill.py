"""A beam of four on two GPUs, killed anywhere, one GPU sick: the same session as undisturbed."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from beam_parts import Ridge
from engine_parts import new_session
from fleet_parts import opener
from test_engine_beam import rows

from workbench.engine import events as ev
from workbench.engine.serve import serve_session
from workbench.session.records import Answer, Budget
from workbench.session.store import SessionStore

STEPS = 16


class Alone(Ridge):
    """The same beam where nothing is shared out."""

    beam = 4


def session(folder: Path, open_workplace) -> list[ev.AnyEvent]:
    new_session(folder, budget=Budget(steps=STEPS))
    heard: list[ev.AnyEvent] = []
    serve_session(folder, open_workplace=open_workplace, listen=heard.append)
    return heard


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> list[tuple]:
    folder = tmp_path_factory.mktemp("fleet") / "alone"
    session(folder, lambda *given: Alone(*given, gate_seconds=0.003))
    return rows(folder)


@pytest.mark.parametrize("ill", [None, 0, 1])
def test_two_gpus_make_the_session_that_none_shared_and_a_sick_one_is_left_out(
    tmp_path, alone, ill
):
    heard = session(tmp_path / "two", opener(ill))
    assert rows(tmp_path / "two") == alone
    assert {row[4] for row in alone} == {Answer.ACCEPTED, Answer.REJECTED}
    out = [e.says for e in heard if isinstance(e, ev.Note) and "left out" in e.says]
    assert len(out) == (0 if ill is None else 1)
    store = SessionStore.open(tmp_path / "two")
    last = [store.transition(row[0]).gate.gpu.partition(" ")[0] for row in alone[-6:]]
    if ill is not None:
        assert set(last) <= {"", f"cuda:{1 - ill}"}, "the other GPU goes on"


@pytest.mark.parametrize("ill", [None, 1])
def test_killed_anywhere_it_goes_on_with_the_same_queue(tmp_path, alone, ill):
    folder = tmp_path / "killed"
    new_session(folder, budget=Budget(steps=STEPS))
    program = Path(__file__).with_name("fleet_parts.py")
    sick = [] if ill is None else [str(ill)]
    rng, killed = random.Random(11), 0
    for _ in range(40):
        lines = rng.randint(1, 5)
        engine = subprocess.Popen(
            [sys.executable, str(program), str(folder), str(lines + 2), *sick],
            stdout=subprocess.PIPE,
            text=True,
            cwd=program.parent,
        )
        told = [engine.stdout.readline() for _ in range(lines)]
        if all(told):
            engine.send_signal(signal.SIGKILL)
        engine.communicate(timeout=120)
        if engine.returncode == 0:
            break
        killed += 1
    else:
        pytest.fail("it never came to its end")
    assert killed > 1
    assert rows(folder) == alone
