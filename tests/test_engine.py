"""The engine through its doors: the session repository, the log, the socket."""

import asyncio
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from engine_parts import SECONDS, SEED, ScriptedWorkplace, new_session

from workbench.engine import events as ev
from workbench.engine.client import SessionClient
from workbench.engine.create import request_run
from workbench.engine.serve import serve_session
from workbench.engine.view import State
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.session.lock import SessionBusyError
from workbench.session.records import Answer, Budget, Mode

PARTS = Path(__file__).parent / "engine_parts.py"


def scripted(made: list | None = None, **options):
    def opened(store, settings, own_seed, emit):
        workplace = ScriptedWorkplace(store, settings, own_seed, emit, **options)
        if made is not None:
            made.append(workplace)
        return workplace

    return opened


class Running:
    """An engine in a thread, with the client's view of it."""

    def __init__(self, path: Path, **options) -> None:
        self.path = path
        self.seen: list[ev.AnyEvent] = []
        self.ended: ev.RunEnded | None = None
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(options,), daemon=True)
        self._thread.start()

    def _run(self, options) -> None:
        self.ended = serve_session(self.path, listen=self._hear, open_workplace=scripted(**options))

    def _hear(self, event) -> None:
        with self._news:
            self.seen.append(event)
            self._news.notify_all()

    def wait_for(self, kind, **fields):
        def found():
            for event in self.seen:
                if isinstance(event, kind) and all(
                    getattr(event, k) == v for k, v in fields.items()
                ):
                    return event
            return None

        with self._news:
            assert self._news.wait_for(found, SECONDS), [type(e).__name__ for e in self.seen]
            return found()

    def join(self) -> ev.RunEnded:
        self._thread.join(SECONDS)
        assert self.ended is not None
        return self.ended


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "softmax-1"


def ask(client: SessionClient, wish) -> str:
    return asyncio.run(wish(client))


def test_auto_mode_commits_every_step_and_keeps_the_best(folder):
    new_session(folder)
    ended = serve_session(folder, open_workplace=scripted(steps=6))
    snapshot = SessionClient(folder).snapshot()
    assert ended.how == "finished"
    assert "the best is v5" in ended.says
    answers = [v.answer for v in snapshot.versions]
    assert answers == [
        Answer.ACCEPTED,
        Answer.ACCEPTED,
        Answer.ACCEPTED,
        Answer.REJECTED,
        Answer.ACCEPTED,
        Answer.ACCEPTED,
        Answer.REJECTED,
    ]
    assert [v.parent for v in snapshot.versions] == [None, 0, 1, 2, 2, 4, 5]
    assert (snapshot.best, snapshot.incumbent) == (5, 5)
    assert snapshot.state is State.FINISHED
    assert (folder / "kernel.py").read_text() == "# v5\n"
    assert snapshot.versions[5].speed_vs_seed.ratio == pytest.approx(100 / 95)


def test_the_seeds_cost_counts_from_looking_at_the_problem(folder, monkeypatch):
    def slow(_self) -> tuple[str, str]:
        time.sleep(0.2)
        return SEED, "slowly found"

    monkeypatch.setattr(ScriptedWorkplace, "seed", slow)
    new_session(folder)
    serve_session(folder, open_workplace=scripted(steps=0))
    assert SessionClient(folder).transition(0).cost.wall_seconds >= 0.2


def test_a_step_limit_ends_the_run_and_a_wider_one_goes_on(folder):
    new_session(folder, budget=Budget(steps=2))
    ended = serve_session(folder, open_workplace=scripted())
    assert (ended.how, "2 of 2 steps" in ended.says) == ("budget", True)
    request_run(folder, mode=None, budget=Budget(steps=4))
    made: list[ScriptedWorkplace] = []
    serve_session(folder, open_workplace=scripted(made))
    snapshot = SessionClient(folder).snapshot()
    assert len(snapshot.versions) == 5
    assert sorted(made[0].parents) == [3, 4], "resume repeats no step"


def test_a_seed_that_fails_is_committed_and_ends_the_run(folder):
    new_session(folder)
    ended = serve_session(folder, open_workplace=scripted(seed_verdict=Verdict.REJECTED))
    snapshot = SessionClient(folder).snapshot()
    assert ended.how == "failed"
    assert "correctness.error-above-bound" in ended.says
    assert [v.answer for v in snapshot.versions] == [Answer.REJECTED]
    assert snapshot.best is None


def test_review_mode_waits_and_a_veto_keeps_main_where_it_was(folder):
    new_session(folder, mode=Mode.REVIEW, budget=Budget(steps=2))
    run = Running(folder)
    run.wait_for(ev.DecisionWanted, number=1)
    client = SessionClient(folder)
    assert client.snapshot().state is State.WAITING
    assert client.snapshot().pending == 1
    ask(client, lambda c: c.decide(1, Answer.VETOED, "reads past the row"))
    run.wait_for(ev.DecisionWanted, number=2)
    ask(client, lambda c: c.decide(2, Answer.ACCEPTED))
    run.join()
    client = SessionClient(folder)
    first, second = client.transition(1), client.transition(2)
    assert (first.decision.answer, first.decision.by) == (Answer.VETOED, "person")
    assert first.decision.reason == "reads past the row"
    assert second.parent == 0, "the next step starts from what was kept"
    assert client.snapshot().incumbent == 2


def test_a_late_or_empty_decision_changes_nothing(folder):
    new_session(folder, mode=Mode.REVIEW, budget=Budget(steps=1))
    run = Running(folder)
    run.wait_for(ev.DecisionWanted, number=1)
    client = SessionClient(folder)
    with pytest.raises(WorkbenchError, match="v0 is not the one"):
        ask(client, lambda c: c.decide(0, Answer.ACCEPTED))
    with pytest.raises(WorkbenchError, match="needs a reason"):
        ask(client, lambda c: c.decide(1, Answer.VETOED, "  "))
    with pytest.raises(WorkbenchError, match="not a decision"):
        ask(client, lambda c: c.decide(1, Answer.PENDING))
    assert SessionClient(folder).snapshot().pending == 1
    ask(client, lambda c: c.decide(1, Answer.ACCEPTED))
    run.join()
    with pytest.raises(WorkbenchError, match="no engine runs"):
        ask(client, lambda c: c.decide(1, Answer.VETOED, "late"))
    assert SessionClient(folder).transition(1).decision.answer is Answer.ACCEPTED


def test_a_pending_decision_survives_a_restart(folder):
    new_session(folder, mode=Mode.REVIEW, budget=Budget(steps=1))
    run = Running(folder)
    run.wait_for(ev.DecisionWanted, number=1)
    ask(SessionClient(folder), lambda c: c.stop())
    assert run.join().how == "stopped"
    assert SessionClient(folder).snapshot().pending == 1
    again = Running(folder)
    again.wait_for(ev.DecisionWanted, number=1)
    ask(SessionClient(folder), lambda c: c.decide(1, Answer.ACCEPTED))
    again.join()
    assert SessionClient(folder).snapshot().incumbent == 1


def test_manual_mode_starts_no_step_unasked(folder):
    new_session(folder, mode=Mode.MANUAL, budget=Budget(steps=1))
    run = Running(folder)
    run.wait_for(ev.RunPaused)
    client = SessionClient(folder)
    assert client.snapshot().state is State.PAUSED
    assert [v.number for v in client.snapshot().versions] == [0]
    ask(client, lambda c: c.go())
    run.wait_for(ev.DecisionWanted, number=1)
    ask(client, lambda c: c.decide(1, Answer.ACCEPTED))
    assert run.join().how == "budget"


def test_pause_waits_after_the_running_step(folder):
    hold = threading.Event()
    new_session(folder)
    run = Running(folder, hold=hold, steps=2)
    run.wait_for(ev.StageStarted, number=1)
    client = SessionClient(folder)
    ask(client, lambda c: c.pause())
    hold.set()
    run.wait_for(ev.RunPaused)
    assert [v.number for v in SessionClient(folder).snapshot().versions] == [0, 1]
    ask(client, lambda c: c.go())
    assert run.join().how == "finished"


def test_two_engines_cannot_own_one_session(folder):
    hold = threading.Event()
    new_session(folder)
    run = Running(folder, hold=hold, steps=1)
    run.wait_for(ev.StageStarted, number=1)
    with pytest.raises(SessionBusyError, match="is being run"):
        serve_session(folder, open_workplace=scripted())
    hold.set()
    run.join()


def test_followers_see_every_event_once_and_in_order(folder):
    hold = threading.Event()
    new_session(folder)
    run = Running(folder, hold=hold, steps=3)
    run.wait_for(ev.StageStarted, number=1)

    async def follow() -> list[int]:
        client = SessionClient(folder)
        numbers = []
        async for event in client.events():
            numbers.append(event.seq)
            hold.set()
        return numbers

    numbers = asyncio.run(follow())
    run.join()
    assert numbers == list(range(1, numbers[-1] + 1))
    assert [e.seq for e in run.seen] == numbers


def test_an_error_of_a_workplace_ends_the_run_in_words(folder):
    new_session(folder)

    class Broken(ScriptedWorkplace):
        def seed(self):
            raise WorkbenchError("the reference raises", where="p.py, line 3", todo="mend it")

    ended = serve_session(folder, open_workplace=Broken)
    assert (ended.how, ended.says) == (
        "failed",
        "the reference raises (p.py, line 3) - mend it",
    )
    assert SessionClient(folder).snapshot().state is State.FAILED


def test_an_engine_killed_at_any_moment_loses_no_committed_step(folder):
    """Kills a real engine process at random moments until all its steps are done."""
    new_session(folder)
    rng = random.Random(11)
    promised: dict[int, str] = {}
    kills = 0
    while SessionClient(folder).snapshot().steps < 24:
        lines = rng.randint(1, 5)
        engine = subprocess.Popen(
            [sys.executable, str(PARTS), str(folder), str(lines + 3)],
            stdout=subprocess.PIPE,
            text=True,
        )
        first = "".join(engine.stdout.readline() for _ in range(lines))
        time.sleep(rng.random() * 0.02)
        engine.send_signal(signal.SIGKILL)
        said = first + engine.stdout.read()
        engine.wait()
        kills += 1
        assert kills < 60
        for line in said.splitlines():
            number, commit = line.split()
            promised[int(number)] = commit
        client = SessionClient(folder)
        commits = {v.number: v.commit for v in client.snapshot().versions}
        assert {n: commits.get(n) for n in promised} == promised
        assert client.snapshot().state in {State.LOST, State.FINISHED}
    assert kills > 3
    fsck = subprocess.run(
        ["git", "-C", str(folder), "fsck", "--strict"], capture_output=True, text=True, check=False
    )
    assert fsck.returncode == 0, fsck.stderr
    numbers = [v.number for v in SessionClient(folder).snapshot().versions]
    assert numbers == list(range(len(numbers)))
