"""kill -9 in a model call, a gate or a commit: nothing that was paid for is lost or repeated."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from agents_kit import SEED, plan_reply, situation
from engine_parts import new_session
from model_server import Answer, ModelServer, Request

from workbench.agents.exchange import ARRIVING, Answered, Asked, final
from workbench.agents.ledger import read_lines
from workbench.session.journal import read_records
from workbench.session.reader import SessionReader
from workbench.session.records import Budget

STEPS = 5
WRITER = Path(__file__).with_name("agents_writer.py")


@pytest.fixture(autouse=True)
def model(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setenv("OPENAI_MODEL", "scripted-1")


def known(folder: Path) -> set[tuple]:
    """Places whose reply a process had received whole when it died, read from the files."""
    state = folder / ".git" / "workbench"
    lines = read_lines(state)
    places = {(x.number, x.role, x.turn) for x in lines if isinstance(x, Answered) and final(x)}
    talks = [x for x in lines if isinstance(x, Asked | Answered)]
    if talks and isinstance(talks[-1], Asked):
        pieces = read_records(state / ARRIVING, tuple[str, str]).records
        if any(kind == "finish" for kind, _ in pieces):
            places.add((talks[-1].number, talks[-1].role, talks[-1].turn))
    return places


def asked(folder: Path) -> list[tuple]:
    lines = read_lines(folder / ".git" / "workbench")
    return [(x.number, x.role, x.turn) for x in lines if isinstance(x, Asked)]


def script(tmp_path: Path):
    """A planner that always names a difference, and a candidate of its own for every version."""
    now = situation(tmp_path)

    def answer(request: Request, number: int) -> Answer:
        prompt = request.body["messages"][1]["content"]
        if "Choose exactly one skill" in prompt:
            tried = re.findall(r"^- v(\d+) from", prompt, re.MULTILINE)
            told = {
                "modification": f"change the block a little, the way number {number} does",
                "earlier": int(tried[-1]) if tried else None,
                "difference": f"another block than before, number {number}" if tried else "",
            }
            return Answer(text=plan_reply(now, **told), piece=60, delay=0.001)
        if "Name the one cause" in prompt:
            said = prompt.partition("# What the gate said\n\n")[2].partition("\n")[0]
            form = {
                "critical_issue": "wrong",
                "evidence": [said],
                "root_cause": "the block",
                "minimal_fix": "another block",
                "patch_anchor": "class ModelNew",
            }
            return Answer(text=json.dumps(form), piece=60, delay=0.001)
        code = SEED.replace("BLOCK=1024", f"BLOCK={1024 + number}")
        return Answer(text=f"```python\n{code}```\n", piece=200, delay=0.001)

    return answer


def test_killed_at_any_moment_a_run_loses_no_reply_and_asks_none_again(tmp_path, monkeypatch):
    folder = tmp_path / "softmax-1"
    rng = random.Random(3)
    with ModelServer(script(tmp_path)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        store = new_session(folder, budget=Budget(steps=STEPS))
        del store
        with subprocess.Popen(
            [sys.executable, str(WRITER), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as home:
            kills, ended = 0, ""
            while not ended.startswith("ended"):
                paid, before = known(folder), len(asked(folder))
                home.stdin.write("go\n")
                home.stdin.flush()
                engine = int(home.stdout.readline())
                if kills < 14:
                    # In a reply, in the gate behind it, in a commit, or before all of them.
                    server.wait_until(server.sent + rng.randint(0, 60), 0.4)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(engine, signal.SIGKILL)
                ended = home.stdout.readline()
                kills += ended == "killed\n"
                assert not paid & set(asked(folder)[before:])
            home.stdin.close()
    assert ended == "ended 0\n"
    assert kills > 4
    reader = SessionReader(folder)
    records = [reader.record_of(v.number) for v in reader.summaries()]
    assert [r.transition.number for r in records] == list(range(STEPS + 1))
    # Every third is refused, and the next one mends it.
    assert [r.transition.plan.repairs for r in records[1:]] == [None, None, None, 3, None]
    lines = read_lines(reader.state)
    for record in records[1:]:
        # Git has every talk that led to a step, those that were lost with a process too.
        number = record.transition.number
        talks = [x for x in lines if x.number == number]
        assert len(record.exchange) == len(talks)
        assert {"planner", "diagnoser"} & {line["role"] for line in record.exchange}
    assert sum(isinstance(x, Asked) for x in lines) == sum(isinstance(x, Answered) for x in lines)
