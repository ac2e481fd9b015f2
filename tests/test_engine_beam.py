"""A beam looks at several candidates, gates the best, and puts the others aside for later."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from beam_parts import HELD, WIDTH, Ridge, opened, speed_of
from engine_parts import new_session
from msgspec import structs
from session_kit import step, transition

from workbench.engine import events as ev
from workbench.engine.held import comes_back
from workbench.engine.history import History
from workbench.engine.serve import serve_session
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.measure.records import Kind, Speed
from workbench.search.rungs import Ladder
from workbench.session import queue
from workbench.session.records import Answer, Budget, RungVisit
from workbench.session.store import SessionStore

STEPS = 24
LADDER = Ladder.load()


def run(folder: Path, open_workplace=opened) -> list[ev.AnyEvent]:
    heard: list[ev.AnyEvent] = []
    serve_session(folder, open_workplace=open_workplace, listen=heard.append)
    return heard


def rows(folder: Path) -> list[tuple]:
    """What was committed, without when and at which cost."""
    store = SessionStore.open(folder)
    found = []
    for version in store.overview().versions:
        made = store.transition(version.number)
        found.append(
            (
                *(made.number, made.parent, made.plan, made.gate.code, made.decision.answer),
                store.source(made.number),
                tuple((v.rung, v.action, v.reason) for v in made.rungs),
            )
        )
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A session that nobody interrupted."""
    folder = tmp_path_factory.mktemp("beam") / "whole"
    new_session(folder, budget=Budget(steps=STEPS))
    run(folder)
    return folder


def test_what_is_kept_went_through_the_whole_gate_and_was_the_best_of_its_beam(whole):
    store = SessionStore.open(whole)
    kept = [t for t in (store.transition(n) for n in range(1, STEPS + 1)) if _accepted(t)]
    assert kept
    for one in kept:
        assert one.gate.verdict is Verdict.ACCEPTED
        assert one.gate.rung == 2
        rivals = [
            store.source(t.number)
            for t in (store.transition(n) for n in range(one.number + 1, STEPS + 1))
            if t.parent == one.parent and t.plan.held is None
        ]
        own = speed_of(store.source(one.number)).low
        assert all(speed_of(source).low <= own for source in rivals[: WIDTH - 1])


def _accepted(one) -> bool:
    return one.decision.answer is Answer.ACCEPTED


def test_every_candidate_is_a_transition_with_the_reason_for_what_became_of_it(whole):
    found = rows(whole)
    assert [row[0] for row in found] == list(range(STEPS + 1))
    codes = {row[3] for row in found}
    assert {HELD, "profile.pruned-smoke", ""} <= codes
    for row in found:
        if row[3] == HELD:
            ((rung, action, reason),) = row[6]
            assert (rung, action) == ("smoke", "hold")
            assert reason.startswith("put aside: ")
            assert "at smoke" in reason


def test_what_was_put_aside_comes_back_once_when_nothing_else_helps(whole):
    found = rows(whole)
    back = [row for row in found if row[2] is not None and row[2].held is not None]
    assert back
    sources = {row[0]: row[5] for row in found}
    for row in back:
        assert sources[row[2].held] == row[5]
        assert row[2].held < row[0]
    assert len({row[2].held for row in back}) == len(back)


def test_a_beam_begins_no_more_than_the_steps_have_room_for(tmp_path):
    new_session(tmp_path / "one", budget=Budget(steps=4))
    made: list[Ridge] = []

    def watched(*given):
        made.append(Ridge(*given))
        return made[0]

    run(tmp_path / "one", watched)
    assert len(rows(tmp_path / "one")) == 5
    assert len(set(made[0].began)) <= 5


def test_a_beam_killed_anywhere_goes_on_with_the_same_queue(tmp_path, whole):
    folder = tmp_path / "killed"
    new_session(folder, budget=Budget(steps=STEPS))
    rng, killed = random.Random(7), 0
    program = Path(__file__).with_name("beam_parts.py")
    for _ in range(40):
        lines = rng.randint(2, 8)
        engine = subprocess.Popen(
            [sys.executable, str(program), str(folder), str(lines + 2)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=program.parent,
        )
        if all(engine.stdout.readline() for _ in range(lines)):
            time.sleep(rng.random() * 0.02)
            engine.send_signal(signal.SIGKILL)
        engine.communicate(timeout=120)
        if engine.returncode == 0:
            break
        killed += 1
    else:
        pytest.fail("it never came to its end")
    assert killed > 1
    assert rows(folder) == rows(whole)


def test_the_queue_is_readable_with_git_and_a_damaged_one_is_told(whole):
    store = SessionStore.open(whole)
    waiting = queue.read(store.git)
    assert all(one.action for one in waiting)
    one = queue.Queued(parent=0, plan=step(), source="# a\n", action="hold", reason="why")
    queue.keep(store.git, [one])
    assert queue.read(store.git) == (one,)
    shown = subprocess.run(
        ["git", "show", f"{queue.QUEUE}:queue.json"],
        cwd=whole,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert '"reason": "why"' in shown
    subprocess.run(["git", "update-ref", queue.QUEUE, "main"], cwd=whole, check=True)
    with pytest.raises(WorkbenchError, match="refs/session/queue"):
        queue.read(store.git)


# Which one comes back


def measured(ratio: float, width: float = 0.02) -> Speed:
    return Speed(kind=Kind.MEASURED, ratio=ratio, low=ratio - width, high=ratio + width)


def kept(number: int, parent: int | None, speed: Speed | None = None):
    made = transition(number, parent)
    return structs.replace(made, gate=structs.replace(made.gate, speed=speed))


def aside(number: int, parent: int, speed: Speed | None, *, held: int | None = None):
    made = transition(number, parent, Answer.REJECTED)
    visit = RungVisit(rung="smoke", action="hold", reason="others went first", speed=speed)
    plan = structs.replace(step(), held=held)
    gate = structs.replace(made.gate, code=HELD if held is None else "profile.slower")
    return structs.replace(made, gate=gate, rungs=(visit,), plan=plan)


def history(*some) -> History:
    made = History()
    for one in some:
        made = made.plus(one)
    return made


def number(known: History) -> int | None:
    found = comes_back(known, LADDER, trusted=True)
    return None if found is None else found[0].number


def test_the_one_with_most_to_be_said_for_it_comes_back_once():
    seed, low, high = kept(0, None), aside(1, 0, measured(1.02)), aside(2, 0, measured(1.08))
    assert number(history(seed, low, high)) == 2
    assert number(history(seed, low, high, aside(3, 0, None, held=2))) == 1
    assert number(history(seed)) is None


def test_against_a_later_incumbent_the_steps_between_count():
    seed, one = kept(0, None), aside(1, 0, measured(1.10))
    assert number(history(seed, one, kept(2, 0, measured(1.08)))) == 1, "it may be faster still"
    assert number(history(seed, one, kept(2, 0, measured(1.30)))) is None, "it is slower"
    twice = history(seed, one, kept(2, 0, measured(1.1)), kept(3, 2, measured(1.1)))
    assert number(twice) is None
    assert number(history(seed, one, kept(2, 0, None))) is None, "nobody can tell"


def test_what_was_made_from_a_line_that_was_left_does_not_come_back():
    seed, first, other = kept(0, None), kept(1, 0, measured(1.2)), kept(2, 0, measured(1.3))
    known = structs.replace(history(seed, first, other, aside(3, 1, measured(1.5))), main=2)
    assert number(known) is None
