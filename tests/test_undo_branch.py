"""A person takes an accepted step back or goes on from another: in git, in a run, at rest."""

import asyncio
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from engine_parts import new_session
from session_kit import kernel, new_store, transition
from test_cli import Shell
from test_engine import Running, ask, scripted

from workbench.bench.long_session import make_long_session
from workbench.engine import events as ev
from workbench.engine.client import SessionClient
from workbench.engine.moving import read_history
from workbench.engine.serve import serve_session
from workbench.engine.view import State
from workbench.engine.wishes import Submit
from workbench.errors import WorkbenchError
from workbench.session.bundle import export_bundle, import_bundle
from workbench.session.check import check_session
from workbench.session.moves import Move
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Budget, Mode
from workbench.session.store import SessionStore


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "softmax-1"


@pytest.fixture
def done(folder: Path) -> Path:
    """v0 v1 v2 v4 v5 accepted on one line, v3 and v6 refused by the gate."""
    new_session(folder)
    serve_session(folder, open_workplace=scripted(steps=6))
    return folder


def stands(folder: Path) -> tuple[int | None, int | None, set[int]]:
    """Where main is, where best is, and what was taken back."""
    snapshot = SessionClient(folder).snapshot()
    return snapshot.incumbent, snapshot.best, {v.number for v in snapshot.versions if v.undone}


# -- at rest ----------------------------------------------------------------------------------


def test_undo_takes_the_last_step_back_and_git_tells_it(done: Path) -> None:
    commit = SessionReader(done).commit_of(5)
    says = ask(SessionClient(done), lambda c: c.undo(5, "slower in the whole model"))
    assert says == "undo v5: main goes back to v4: slower in the whole model"
    assert stands(done) == (4, 4, {5})
    snapshot = SessionClient(done).snapshot()
    assert (snapshot.state, snapshot.says) == (State.STOPPED, says)
    assert (done / "kernel.py").read_text() == "# v4\n"
    assert git(done, "status", "--porcelain") == ""
    assert SessionReader(done).commit_of(5) == commit, "the version itself stays as it was"
    assert git(done, "log", "-1", "--format=%s", "refs/moves/0001") == (
        "undo v5: main goes back to v4"
    )
    assert git(done, "rev-parse", "refs/moves/0001^") == commit, "a revert of what it takes back"
    assert git(done, "diff", "--stat", "refs/moves/0001", "main") == ""
    decision = SessionClient(done).transition(5).decision
    assert (decision.answer, decision.by) == (Answer.VETOED, "person")
    assert decision.reason == "undone, main went back to v4: slower in the whole model"
    assert check_session(SessionReader(done)) == ()


def test_an_undone_step_is_not_where_the_run_goes_on(done: Path) -> None:
    ask(SessionClient(done), lambda c: c.undo(5))
    serve_session(done, open_workplace=scripted(steps=7))
    snapshot = SessionClient(done).snapshot()
    assert [v.parent for v in snapshot.versions][7] == 4
    assert (snapshot.incumbent, snapshot.best) == (7, 7)
    assert snapshot.state is State.FINISHED


def test_a_branch_goes_on_from_any_accepted_version_and_best_stays(done: Path) -> None:
    assert "main goes there from v5" in ask(SessionClient(done), lambda c: c.branch(1))
    assert stands(done) == (1, 5, set())
    assert (done / "kernel.py").read_text() == "# v1\n"
    serve_session(done, open_workplace=scripted(steps=7))
    snapshot = SessionClient(done).snapshot()
    assert snapshot.versions[7].parent == 1
    assert [v.number for v in snapshot.versions if v.accepted_line] == [0, 1, 7]


def test_what_was_taken_back_stands_again_when_a_person_goes_there(done: Path) -> None:
    ask(SessionClient(done), lambda c: c.undo(5))
    ask(SessionClient(done), lambda c: c.undo(4))
    assert stands(done) == (2, 2, {4, 5})
    ask(SessionClient(done), lambda c: c.branch(5))
    assert stands(done) == (5, 5, set())
    assert SessionClient(done).transition(4).decision.answer is Answer.ACCEPTED
    assert check_session(SessionReader(done)) == ()


@pytest.mark.parametrize(
    ("kind", "number", "says"),
    [
        ("undo", 0, "v0 is the seed"),
        ("undo", 3, "v3 is not on the accepted line"),
        ("undo", 99, "no version v99"),
        ("branch", 3, "v3 did not pass the gate"),
        ("branch", 5, "main is at v5 already"),
        ("branch", 99, "no version v99"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_changes(
    done: Path, kind: str, number: int, says: str
) -> None:
    before = git(done, "for-each-ref")
    with pytest.raises(WorkbenchError, match=says):
        ask(SessionClient(done), lambda c: getattr(c, kind)(number))
    assert git(done, "for-each-ref") == before


def test_the_commands_say_what_was_done(done: Path, tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path)
    where = ("--sessions", str(done.parent))
    assert "undo v5: main goes back to v4" in shell("undo", "softmax-1", *where)
    assert "undone" in shell("log", "softmax-1", *where).splitlines()[1]
    assert "branch from v1" in shell("branch", "softmax-1", "v1", *where, "--json")
    assert "v3 did not pass the gate" in shell.refused("branch", "softmax-1", "v3", *where)


# -- in a run ---------------------------------------------------------------------------------


def test_a_version_that_waits_on_what_is_taken_back_is_vetoed_with_it(folder: Path) -> None:
    new_session(folder, mode=Mode.REVIEW, budget=Budget(steps=3))
    run = Running(folder)
    run.wait_for(ev.DecisionWanted, number=1)
    ask(SessionClient(folder), lambda c: c.decide(1, Answer.ACCEPTED))
    run.wait_for(ev.DecisionWanted, number=2)
    with pytest.raises(WorkbenchError, match="v2 waits for your decision first"):
        ask(SessionClient(folder), lambda c: c.branch(0))
    assert "main goes back to v0" in ask(SessionClient(folder), lambda c: c.undo(1))
    assert run.join().how == "budget"
    client = SessionClient(folder)
    second = client.transition(2).decision
    assert (second.answer, second.by) == (Answer.VETOED, "person")
    assert second.reason == "v1, which it was made from, is taken back"
    assert client.transition(3).parent == 0
    assert stands(folder)[0] == 0


class HeldSecond:
    """Holds the second step in the gate."""

    def __init__(self) -> None:
        self.calls = 0
        self.let = threading.Event()

    def wait(self, seconds: float) -> None:
        self.calls += 1
        if self.calls == 2:
            self.let.wait(seconds)


def test_a_move_waits_for_the_step_in_the_gate_and_takes_it_back_too(folder: Path) -> None:
    hold = HeldSecond()
    new_session(folder)
    run = Running(folder, hold=hold, steps=2)
    run.wait_for(ev.StageStarted, number=2)
    client = SessionClient(folder)

    async def undo_meanwhile() -> str:
        asked = asyncio.create_task(client.undo(1))
        await client.pause()
        assert not asked.done()
        hold.let.set()
        await client.go()
        return await asked

    assert asyncio.run(undo_meanwhile()) == "undo v1, v2: main goes back to v0"
    assert run.join().how == "finished"
    assert stands(folder) == (0, 0, {1, 2})


def test_an_engine_that_gates_one_candidate_answers_a_move_before_it_ends(folder: Path) -> None:
    new_session(folder)
    serve_session(folder, open_workplace=scripted(steps=1))
    hold, gating = threading.Event(), threading.Event()
    thread = threading.Thread(
        target=serve_session,
        args=(folder,),
        kwargs={
            "open_workplace": scripted(hold=hold),
            "only": Submit(source="# mine\n", origin="submitted mine.py"),
            "listen": lambda e: gating.set() if isinstance(e, ev.StageStarted) else None,
        },
        daemon=True,
    )
    thread.start()
    assert gating.wait(20)
    client = SessionClient(folder)

    async def undo_meanwhile() -> None:
        asked = asyncio.create_task(client.undo(1))
        await client.pause()
        hold.set()
        with pytest.raises(WorkbenchError, match="ended before main was moved"):
            await asked

    asyncio.run(undo_meanwhile())
    thread.join(20)
    assert stands(folder) == (2, 2, set())


def test_a_paused_run_moves_at_once_and_stays_paused(folder: Path) -> None:
    new_session(folder, mode=Mode.MANUAL, budget=Budget(steps=2))
    run = Running(folder)
    run.wait_for(ev.RunPaused)
    client = SessionClient(folder)
    ask(client, lambda c: c.go())
    run.wait_for(ev.DecisionWanted, number=1)
    ask(client, lambda c: c.decide(1, Answer.ACCEPTED))
    ask(client, lambda c: c.undo(1))
    assert stands(folder) == (0, 0, {1})
    assert SessionClient(folder).snapshot().state is State.PAUSED
    ask(client, lambda c: c.go())
    run.wait_for(ev.DecisionWanted, number=2)
    assert SessionClient(folder).transition(2).parent == 0
    ask(client, lambda c: c.stop())
    assert run.join().how == "stopped"


def test_a_run_that_died_while_a_version_waited_is_resumed_first(folder: Path) -> None:
    new_session(folder, mode=Mode.REVIEW)
    run = Running(folder)
    run.wait_for(ev.DecisionWanted, number=1)
    ask(SessionClient(folder), lambda c: c.decide(1, Answer.ACCEPTED))
    run.wait_for(ev.DecisionWanted, number=2)
    ask(SessionClient(folder), lambda c: c.stop())
    run.join()
    with pytest.raises(WorkbenchError, match="v2 waits for your decision first"):
        ask(SessionClient(folder), lambda c: c.undo(1))
    assert stands(folder)[0] == 1


# -- in git -----------------------------------------------------------------------------------

MOVE = Move(kind="undo", before=2, to=1, best=1, undone=(2,), at="2026-11-29T10:00:00+00:00")


def three(tmp_path: Path) -> SessionStore:
    store = new_store(tmp_path)
    store.record(transition(0, None), kernel(0))
    for number in (1, 2):
        store.record(transition(number, number - 1), kernel(number), best=True)
    return store


@pytest.mark.parametrize("moved", [(), ("main",)])
def test_a_move_that_was_cut_short_is_finished(tmp_path: Path, moved: tuple[str, ...]) -> None:
    """What a kill after the first or second of its references would have left."""
    store = three(tmp_path)
    store.move_main(MOVE)
    for branch in {"main", "best"} - set(moved):
        git(store.folder, "update-ref", f"refs/heads/{branch}", store.commit_of(2))
    left = [name for name in ("main", "best") if name not in moved]
    assert store.recover() == tuple(f"finished refs/heads/{name}" for name in left)
    assert (store.overview().main, store.overview().best) == (1, 1)
    assert store.recover() == ()
    assert check_session(store) == ()


TO_AND_FRO = """
import sys
from pathlib import Path
from workbench.engine.moving import move_alone
from workbench.engine.wishes import Branch, Undo
while True:
    for wish in (Undo(number=5), Branch(number=5)):
        move_alone(Path(sys.argv[1]), wish, "2026-11-29T10:00:00+00:00")
        print("moved", flush=True)
"""


def test_a_move_killed_at_any_moment_is_whole_or_was_never_made(done: Path) -> None:
    """Kills a real process between and within its moves; the next owner finds a lawful session."""
    rng = random.Random(5)
    for _ in range(8):
        mover = subprocess.Popen(
            [sys.executable, "-c", TO_AND_FRO, str(done)], stdout=subprocess.PIPE, text=True
        )
        assert mover.stdout is not None
        for _ in range(rng.randint(1, 2)):
            assert mover.stdout.readline() == "moved\n"
        time.sleep(rng.random() * 0.1)
        mover.kill()
        mover.communicate()
        store = SessionStore.open(done)
        store.recover()
        moves, overview = store.moves(), store.overview()
        assert overview.main == (moves[-1].to if moves else 5)
        assert overview.best == overview.main
        assert overview.undone == (set() if overview.main == 5 else {5})
        assert check_session(store) == ()
        if overview.main == 4:
            ask(SessionClient(done), lambda c: c.branch(5))
    assert len(store.moves()) >= 8


def test_moves_travel_in_a_bundle(tmp_path: Path) -> None:
    store = three(tmp_path)
    store.move_main(MOVE)
    export_bundle(store, tmp_path / "s.bundle")
    again = import_bundle(tmp_path / "s.bundle", tmp_path / "there")
    assert again.moves() == (MOVE,)
    assert again.overview().undone == {2}


def test_a_move_that_is_none_is_a_fault_of_the_session(tmp_path: Path) -> None:
    store = three(tmp_path)
    store.move_main(MOVE)
    git(store.folder, "update-ref", "refs/moves/0002", "refs/attempts/0001")
    assert ["is not a move of the workbench" in f.says for f in check_session(store)] == [True]


@pytest.mark.parametrize(
    ("parent", "says"),
    [
        ("refs/attempts/0001", "its commit's parent is not where `main` was"),
        ("refs/attempts/0002", "its files are not those of the version it went to"),
    ],
)
def test_a_forged_move_is_a_fault_of_the_session(tmp_path: Path, parent: str, says: str) -> None:
    store = three(tmp_path)
    store.move_main(MOVE)
    text = git(store.folder, "log", "-1", "--format=%B", "refs/moves/0001")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    seeds = "refs/attempts/0000^{tree}"
    forged = git(store.folder, *who, "commit-tree", seeds, "-p", parent, "-m", text)
    git(store.folder, "update-ref", "refs/moves/0001", forged)
    assert [fault.says for fault in check_session(store)] == [says]


def test_main_goes_only_to_accepted_versions_and_only_from_where_it_is(tmp_path: Path) -> None:
    store = three(tmp_path)
    store.record(transition(3, 2, Answer.REJECTED), kernel(3))
    with pytest.raises(WorkbenchError, match="attempts/0003 is not an accepted version"):
        store.move_main(Move(kind="branch", before=2, to=3, best=2))
    with pytest.raises(WorkbenchError, match="main is not at v1"):
        store.move_main(Move(kind="branch", before=1, to=0, best=2))


def test_a_long_history_is_read_in_a_few_git_calls(tmp_path, monkeypatch):
    reader = SessionReader(make_long_session(tmp_path / "long-1", 150))
    counted = tmp_path / "bin" / "git"
    counted.parent.mkdir()
    counted.write_text(f'#!/bin/sh\necho >> {tmp_path}/calls\nexec {shutil.which("git")} "$@"\n')
    counted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{counted.parent}:{os.environ['PATH']}")
    history = read_history(reader)
    assert len(history.transitions) == 150
    assert len((tmp_path / "calls").read_text().splitlines()) < 20
