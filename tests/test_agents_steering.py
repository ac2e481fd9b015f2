"""Steering by hand: candidates that are handed in, hints, and the plan of the next step."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from engine_parts import ScriptedWorkplace, new_session
from kernel_texts import SEEDS
from msgspec import structs

from workbench.agents.ledger import hints_of, read_lines
from workbench.engine import events as ev
from workbench.engine.client import SessionClient
from workbench.engine.opening import lock_path
from workbench.engine.serve import serve_session
from workbench.engine.submitting import reply_submission, submission
from workbench.engine.wishes import Submit
from workbench.errors import WorkbenchError
from workbench.session.lock import EngineLock
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Mode

MINE = Submit(source="# mine\n", origin="submitted mine.py", hint="one pass, not two")


def scripted(**options):
    return lambda *given: ScriptedWorkplace(*given, **options)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "softmax-1"


def test_a_candidate_is_gated_without_an_engine_as_the_next_transition(folder):
    new_session(folder)
    serve_session(folder, open_workplace=scripted(steps=1))
    ended = serve_session(folder, open_workplace=scripted(), only=MINE)
    record = SessionReader(folder).record_of(2)
    assert ended.how == "finished"
    assert record.source == MINE.source
    assert record.transition.origin == "submitted mine.py"
    assert record.transition.plan.intent == "one pass, not two"
    assert (record.transition.parent, record.transition.decision.answer) == (1, Answer.ACCEPTED)
    assert SessionReader(folder).next_number() == 3


def test_in_review_it_waits_for_the_persons_decision_and_the_next_one_is_refused(folder):
    new_session(folder, mode=Mode.REVIEW)
    serve_session(folder, open_workplace=scripted(), only=MINE)
    assert SessionClient(folder).snapshot().pending == 1
    again = serve_session(folder, open_workplace=scripted(), only=MINE)
    assert again.how == "failed"
    assert "v1 waits" in again.says


def test_a_running_engine_gates_it_between_two_steps_and_answers_when_it_is_in_git(folder):
    new_session(folder, mode=Mode.MANUAL)
    paused, told = threading.Event(), []

    def hear(event) -> None:
        told.append(event)
        if isinstance(event, ev.RunPaused):
            paused.set()

    options = {"listen": hear, "open_workplace": scripted()}
    engine = threading.Thread(target=serve_session, args=(folder,), kwargs=options, daemon=True)
    engine.start()
    assert paused.wait(20)

    async def talk() -> str:
        client = SessionClient(folder)
        waiting = asyncio.create_task(client.submit(MINE))
        async for snapshot in SessionClient(folder).changes():
            if snapshot.pending is not None:
                break
        await client.decide(1, Answer.ACCEPTED)
        says = await waiting
        await client.stop()
        return says

    says = asyncio.run(talk())
    engine.join(20)
    assert says.startswith("v1 accepted")
    # The pause goes on behind it: nothing else was started.
    assert [e.number for e in told if isinstance(e, ev.PlanMade)] == [1]


def test_a_hint_is_kept_for_an_outside_agent_too_and_a_walk_reads_none(folder):
    store = new_session(folder)
    command = [sys.executable, "-m", "workbench.cli.main", "hint", "faster", "--session"]

    def hint() -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)

    assert hint().stdout == "kept for the prompts from v0 on\n"
    with EngineLock(lock_path(store), session=store.folder.name):
        # The cards' own engine writes nothing there, so it is not in the way.
        assert hint().returncode == 0
    assert hints_of(read_lines(store.state), 1) == ("faster", "faster")
    store.save_settings(structs.replace(store.settings(), kind="lineage"))
    assert "which reads no hints" in hint().stderr


def test_a_skill_that_is_not_there_is_told_with_the_nearest(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(SEEDS["softmax"])
    assert submission(file, "online-softmax", "").skill == "online-softmax"
    with pytest.raises(WorkbenchError, match="online-sofmax") as fault:
        submission(file, "online-sofmax", "")
    assert "online-softmax" in fault.value.todo


def test_a_whole_reply_is_read_as_the_workbench_reads_its_own(tmp_path):
    new_session(tmp_path / "softmax-1")
    serve_session(tmp_path / "softmax-1", open_workplace=scripted(steps=0))
    file = tmp_path / "reply.txt"
    code = SEEDS["softmax"].replace("import triton.language as tl\n", "")
    file.write_text(f"Here it is:\n\n```python\n{code}```\n")
    wish = reply_submission(tmp_path / "softmax-1", file, "", "")
    assert "import triton.language as tl" in wish.source
    assert wish.origin == "submitted reply.txt (repaired: missing-import)"
    file.write_text("I would rather not.")
    with pytest.raises(WorkbenchError, match="no code"):
        reply_submission(tmp_path / "softmax-1", file, "", "")


def workbench(*words: str, sessions: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", *words, "--sessions", str(sessions)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_an_outside_agent_reads_the_prompt_and_hands_in_its_candidate(tmp_path):
    run = workbench(
        *["run", "softmax", "--headless", "--steps", "0", "--device", "cpu"], sessions=tmp_path
    )
    assert run.returncode == 0, run.stderr
    before = sorted(path.name for path in (tmp_path / "softmax-1").rglob("*"))
    planned = json.loads(workbench("plan", "softmax-1", "--json", sessions=tmp_path).stdout)
    assert (planned["number"], planned["parent"], planned["role"]) == (1, 0, "planner")
    assert planned["plan"]["card"] in {skill["id"] for skill in planned["allowed"]}
    assert "softmax_kernel" in planned["prompt"][1]["content"]
    assert sorted(path.name for path in (tmp_path / "softmax-1").rglob("*")) == before
    mine = tmp_path / "mine.py"
    mine.write_text(SEEDS["softmax"].replace("x - highest) / total", "x - highest) / (total + 1)"))
    words = ["submit", "softmax-1", str(mine), "--skill", "divide-once", "--hint", "as I see it"]
    done = workbench(*words, sessions=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "rejected by gate" in done.stdout
    record = SessionReader(tmp_path / "softmax-1").record_of(1)
    assert record.transition.plan.card == "divide-once"
    assert record.transition.gate.stage == "correctness"
    told = workbench("plan", "softmax-1", "--prompt", sessions=tmp_path).stdout
    assert "as I see it" in told
    assert "rejected at correctness" in told
    # What a person chooses and says is what the next prompt asks for.
    other = planned["allowed"][1]
    assert workbench("choose", "softmax-1", other["id"], sessions=tmp_path).returncode == 0
    assert workbench("hint", "softmax-1", "two rows a time", sessions=tmp_path).returncode == 0
    optimizer = ["plan", "softmax-1", "--prompt", "--role", "optimizer"]
    told = workbench(*optimizer, sessions=tmp_path).stdout
    assert f"# The plan\n\n{other['id']} on softmax_kernel" in told
    assert "- two rows a time" in told
