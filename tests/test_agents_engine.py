"""Runs with a model: through the command, the session in git, and the scripted endpoint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from agents_writer import TalkingWorkplace
from engine_parts import ScriptedWorkplace, new_session, report
from kernel_texts import SEEDS
from model_server import Answer, ModelServer, Request

from workbench.engine import events as ev
from workbench.engine.client import SessionClient
from workbench.engine.create import RunRequest, create_session, request_run
from workbench.engine.serve import serve_session
from workbench.engine.talks import Talks
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.kernels.target import target
from workbench.problems.load import load_problem
from workbench.session.reader import SessionReader
from workbench.session.records import Answer as Decided
from workbench.session.records import Budget, Mode
from workbench.skills.library import Library

KEY = "sk-test-0123456789abcdef"
SEED = SEEDS["softmax"]
LAUNCH = next(line for line in SEED.split("\n") if "BLOCK=1024" in line)
PRICES = '["scripted-1"]\ninput = 1.0\noutput = 10.0\n'


@pytest.fixture(autouse=True)
def home(own_home, monkeypatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_MODEL", "scripted-1")
    prices = own_home / ".config" / "workbench" / "prices.toml"
    prices.parent.mkdir(parents=True)
    prices.write_text(PRICES)
    return own_home


def role_of(request: Request) -> str:
    """Which role asks, by what its prompt asks for."""
    prompt = next(m["content"] for m in request.body["messages"] if m["role"] == "user")
    for words, role in (
        ("Choose exactly one skill", "planner"),
        ("Carry out this plan", "optimizer"),
        ("Name the one cause", "diagnoser"),
        ("Mend this one cause", "repairer"),
    ):
        if words in prompt:
            return role
    return "generator"


def plan(request: Request, place: int = 0, **changes) -> Answer:
    """A plan that cites what its prompt holds, for the skill at a place of those on offer."""
    prompt = request.body["messages"][1]["content"]
    offered = prompt.partition("# Skills that you may choose from\n\n")[2].partition("\n\n#")[0]
    skills = [line.split()[0] for line in offered.split("\n") if " on softmax_kernel" in line]
    held = [
        line.split()[1].rstrip(":") for line in prompt.split("\n") if line.startswith("  yes: ")
    ]
    bottleneck = prompt.partition("\n  bottleneck ")[2].split()[0].rstrip(":")
    form = {
        "skill": skills[place],
        "kernel": "softmax_kernel",
        "bottleneck": bottleneck,
        "modification": f"change the launch for {skills[place]} and keep the loops",
        "evidence": [{"fact": "launch.num_warps", "value": 4}],
        "statement": held[0] if held else "",
        "ruled_out": {"bottleneck": "divergence", "fact": "trace.masked_fraction", "value": 0},
        "expected": [
            {"metric": "loads", "direction": "down"},
            {"metric": "time", "direction": "down"},
        ],
        **changes,
    }
    return Answer(text=json.dumps(form), reasoning="The row is read three times. " * 20, piece=200)


FUSED = """<<<<<<< SEARCH
    highest = -float("inf")
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        highest = tl.maximum(highest, tl.max(x, axis=0))

    total = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(x - highest), axis=0)
=======
    highest = -float("inf")
    total = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(highest, tl.max(x, axis=0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(x - higher), axis=0)
        highest = higher
>>>>>>> REPLACE
"""
WRONG = (
    f"<<<<<<< SEARCH\n{LAUNCH}\n=======\n        out = torch.softmax(x, dim=-1)\n>>>>>>> REPLACE\n"
)


def start(url: str, folder: Path, monkeypatch, proposer: str = "llm", **budget) -> Path:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    return create_session(
        RunRequest(
            problem="softmax",
            kernel=None,
            mode=Mode.AUTO,
            device="cpu",
            target="sm90",
            budget=Budget(**budget),
            proposer=proposer,
            name="softmax-1",
            sessions=folder,
        )
    )


def quick(url: str, folder: Path, monkeypatch, **budget) -> Path:
    """A session whose gate is written down, so that only the talks are real."""
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    return new_session(folder / "softmax-1", budget=Budget(**budget), proposer="llm").folder


@pytest.mark.slow
def test_a_run_with_a_model_keeps_the_good_candidate_and_the_reason_of_the_bad(tmp_path):
    asked: list[str] = []

    def script(request: Request, _number: int) -> Answer:
        asked.append(role_of(request))
        if asked[-1] == "planner":
            return plan(request)
        return Answer(text=FUSED if asked.count("optimizer") == 1 else WRONG)

    with ModelServer(script) as server:
        command = [sys.executable, "-m", "workbench.cli.main", "run", "softmax", "--headless"]
        options = ["--proposer", "llm", "--steps", "2", "--usd", "5", "--device", "cpu"]
        done = subprocess.run(
            [*command, *options, "--sessions", str(tmp_path)],
            env={**os.environ, "OPENAI_BASE_URL": server.url},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    reader = SessionReader(tmp_path / "softmax-1")
    good, bad = reader.record_of(1), reader.record_of(2)
    assert good.transition.decision.answer is Decided.ACCEPTED, done.stderr
    assert "higher" in good.source
    assert bad.transition.decision.answer is Decided.REJECTED
    assert bad.transition.gate.code == "policy.torch-compute"
    # What was said and what it cost is in git, with the transition that it led to.
    assert [line["line"] for line in good.exchange] == ["asked", "answered"] * 2
    assert good.exchange[0]["role"] == "planner"
    assert "three times" in good.exchange[1]["reply"]["reasoning"]
    assert good.transition.cost.usd == pytest.approx(
        sum(line["usd"] for line in good.exchange if line["line"] == "answered")
    )
    assert good.transition.plan.method
    assert good.transition.plan.policy is not None
    told = reader.record_of(2).exchange[0]["messages"]
    assert "accepted" in told[1]["content"]
    # A person sees what is spent, before and after, and no key stands anywhere.
    assert "asks scripted-1 as planner: about" in done.stderr
    assert "at most $" in done.stderr
    assert "spent     2 steps" in done.stdout
    assert "planner: 2 requests" in done.stdout
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()
    assert KEY not in done.stderr + done.stdout


def test_a_model_that_returns_nonsense_ends_at_its_budget_with_a_clean_session(
    tmp_path, monkeypatch
):
    with ModelServer(lambda *_: Answer(text="Certainly! " * 30)) as server:
        path = quick(server.url, tmp_path, monkeypatch, steps=3)
        ended = serve_session(path, open_workplace=TalkingWorkplace)
        assert len(server.requests) == 6
        assert ended.how == "budget"
        assert "3 of the steps without a candidate" in ended.says
        assert "the best is v0" in ended.says
        # Nothing is asked again, and nothing is forgotten, by going on.
        again = serve_session(path, open_workplace=TalkingWorkplace)
        assert (again.how, len(server.requests)) == ("budget", 6)
    snapshot = SessionClient(path).snapshot()
    assert [version.number for version in snapshot.versions] == [0]
    assert snapshot.spent.usd > 0


def test_dollars_end_a_run_at_most_one_reply_late(tmp_path, monkeypatch):
    told: list[ev.AnyEvent] = []
    with ModelServer(lambda *_: Answer(text="Certainly! " * 4000, piece=5000)) as server:
        path = quick(server.url, tmp_path, monkeypatch, usd=0.2)
        ended = serve_session(path, listen=told.append, open_workplace=TalkingWorkplace)
    assert ended.how == "budget"
    costs = [e.usd for e in told if isinstance(e, ev.ModelAnswered)]
    assert sum(costs[:-1]) < 0.2 <= sum(costs) + max(costs)
    notes = [e.says for e in told if isinstance(e, ev.Note)]
    assert any(says.startswith("50% of the budget") for says in notes)
    assert any(says.startswith("80% of the budget") for says in notes)


def test_thoughts_stream_as_events_and_are_in_the_view(tmp_path, monkeypatch):
    told: list[ev.AnyEvent] = []
    with ModelServer([Answer(reasoning="Two passes. " * 60, text="no")] * 2) as server:
        path = quick(server.url, tmp_path, monkeypatch, steps=1)
        serve_session(path, listen=told.append, open_workplace=TalkingWorkplace)
    thoughts = "".join(
        e.text for e in told if isinstance(e, ev.ModelSaid) and e.kind == "reasoning"
    )
    assert thoughts == "Two passes. " * 120
    talk = SessionClient(path).snapshot().talk
    assert (talk.role, talk.model, talk.running) == ("planner", "scripted-1", False)


@pytest.mark.parametrize(
    ("drop", "usd", "wrong"),
    [
        ("OPENAI_MODEL", None, "no model is named"),
        ("OPENAI_API_KEY", None, "no key"),
        ("prices", 1.0, "a dollar budget needs a price"),
    ],
)
def test_what_is_missing_is_told_before_anything_is_made(
    own_home, tmp_path, monkeypatch, drop, usd, wrong
):
    if drop == "prices":
        (own_home / ".config" / "workbench" / "prices.toml").unlink()
    else:
        monkeypatch.delenv(drop)
    with pytest.raises(WorkbenchError, match=wrong):
        start("https://models.example/v1", tmp_path, monkeypatch, usd=usd)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_both_takes_edits_while_they_last_and_asks_the_model_where_none_is_left(
    tmp_path, monkeypatch
):
    told: list[ev.AnyEvent] = []
    with ModelServer(lambda *_: Answer(text="no")) as server:
        path = start(server.url, tmp_path, monkeypatch, proposer="both", steps=1)
        serve_session(path, listen=told.append)
        assert [e.plan.edit != "" for e in told if isinstance(e, ev.PlanMade)] == [True]
        assert server.requests == []
        request_run(path, mode=None, budget=Budget(steps=2))
        no_cards = lambda *given: SessionWorkplace(*given, library=Library({}))  # noqa: E731
        ended = serve_session(path, open_workplace=no_cards)
    # Without a card there are still the policy's methods, which only a model can carry out.
    assert len(server.requests) == 2
    assert ended.how == "budget"


def test_a_problem_without_a_kernel_gets_one_from_the_model(tmp_path, monkeypatch):
    class Seedless(ScriptedWorkplace):
        """The first candidate is refused, the second is right."""

        tries = 0

        def __init__(self, store, settings, seed, emit) -> None:
            super().__init__(store, settings, seed, emit, steps=0)
            self.talks = Talks(store.state, settings.budget, emit)

        def seed(self):
            problem = load_problem("softmax")
            return self.talks.first(problem, Library({}), target("sm90"))

        def gate(self, *_):
            type(self).tries += 1
            verdict = Verdict.REJECTED if self.tries == 1 else Verdict.ACCEPTED
            return report(verdict=verdict)

    def script(request: Request, number: int) -> Answer:
        assert role_of(request) == "generator"
        return Answer(text=f"```python\n{SEED}# {number}\n```")

    with ModelServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        new_session(tmp_path / "one-1", proposer="llm")
        ended = serve_session(tmp_path / "one-1", open_workplace=Seedless)
        assert "A first try was refused" in server.requests[1].prompt
        assert "correctness.error-above-bound" in server.requests[1].prompt
    assert ended.how == "finished"
    snapshot = SessionClient(tmp_path / "one-1").snapshot()
    assert [v.answer for v in snapshot.versions] == [Decided.REJECTED, Decided.ACCEPTED]
    assert snapshot.best == 1


def test_a_refused_key_ends_the_run_with_what_to_do_and_resume_goes_on(tmp_path, monkeypatch):
    refused = Answer(status=401, error={"error": {"message": f"Incorrect API key: {KEY}"}})
    with ModelServer([refused]) as server:
        path = quick(server.url, tmp_path, monkeypatch, steps=1)
        ended = serve_session(path, open_workplace=TalkingWorkplace)
    assert ended.how == "failed"
    assert "key refused" in ended.says
    assert "workbench resume" in ended.says
    assert KEY not in ended.says
