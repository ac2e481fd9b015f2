"""Nonsense without end: each kind of it ends at the budget, bounded in memory, and says why."""

import gzip
import itertools
import json
import random
import resource
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from agents_kit import SEED, bad, diagnosis, plan_reply, situation
from agents_writer import TalkingWorkplace
from engine_parts import new_session
from model_server import Answer, ModelServer, Request, event

from workbench.agents.exchange import Place
from workbench.agents.ledger import Ledger, LedgerMeter
from workbench.agents.model import Model
from workbench.agents.model_settings import ModelSettings, Retries, Timeouts
from workbench.agents.prices import Price, Prices
from workbench.agents.prompts import Prompt
from workbench.agents.records import BudgetEnds, Ending, Message, Reply, Role
from workbench.engine.client import SessionClient
from workbench.engine.serve import serve_session
from workbench.gate.records import Stage
from workbench.session.reader import SessionReader
from workbench.session.records import Budget

MB = b"x" * (1 << 20)
ROOM = 200 << 20
"""Bytes that reading any of these may add to the process; each of them sends ten times as much."""
HEAD = event({"content": "@"}).partition("@")[0].encode()
TOKEN = event({"content": "word "}).encode()


class Silent:
    """A meter that keeps nothing."""

    def asking(self, attempt: int) -> None: ...
    def heard(self, kind: str, piece: str) -> None: ...
    def answered(self, attempt: int, reply: Reply) -> None: ...
    def waiting(self, seconds: float, reply: Reply) -> None: ...


def ask(url: str, **limits: float) -> Reply:
    settings = ModelSettings(
        model="m",
        base_url=url,
        key_env="",
        reply_tokens=300,
        timeouts=Timeouts(**{"first_token": 20.0, "between_tokens": 20.0, **limits}),
        retries=Retries(times=0),
    )
    model = Model(settings, rng=random.Random(1))
    return model.ask([Message(role="user", content="x" * 400)], Silent())


def one_line() -> Iterator[bytes]:
    yield HEAD
    yield from itertools.repeat(MB, 2000)


def events(delta: dict[str, str]) -> Callable[[], Iterable[bytes]]:
    return lambda: itertools.repeat(event(delta).encode() * 100, 100_000)


JSON = {"Content-Type": "application/json"}
POURED = {
    "one event without end": (Answer(body=one_line), Ending.TRUNCATED),
    "text without end": (Answer(body=events({"content": "word "})), Ending.TRUNCATED),
    "thinking without end": (Answer(body=events({"reasoning_content": "hm "})), Ending.TRUNCATED),
    "refusal without end": (Answer(body=events({"refusal": "no "})), Ending.TRUNCATED),
    "events without text": (Answer(body=events({})), Ending.TRUNCATED),
    "remarks": (Answer(body=lambda: itertools.repeat(b": alive\n\n" * 999)), Ending.TRUNCATED),
    "blanks": (Answer(body=lambda: itertools.repeat(b"\n" * 99999)), Ending.TRUNCATED),
    "no stream": (Answer(body=lambda: itertools.repeat(MB, 2000), headers=JSON), Ending.TRUNCATED),
    "error": (
        Answer(body=lambda: itertools.repeat(MB, 2000), status=500, headers=JSON),
        Ending.SERVER,
    ),
    "refused request": (
        Answer(body=lambda: itertools.repeat(MB, 2000), status=400, headers=JSON),
        Ending.BAD_REQUEST,
    ),
    "compressed": (
        Answer(
            body=lambda: [gzip.compress(HEAD + b"x" * (64 << 20))],
            headers={"Content-Encoding": "gzip"},
        ),
        Ending.UNREADABLE,
    ),
}


@pytest.mark.parametrize("kind", POURED)
def test_a_gigabyte_is_not_read(kind):
    answer, ending = POURED[kind]
    with ModelServer([answer]) as server:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        reply = ask(server.url)
        assert (reply.ending, bool(reply.says)) == (ending, True)
        assert server.poured < ROOM
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before < ROOM


def drip(text: bytes, pause: float, stopped: threading.Event) -> Iterator[bytes]:
    for byte in itertools.cycle(text):
        if stopped.wait(pause):
            return
        yield bytes([byte])


def test_a_byte_at_a_time_is_no_reply_and_a_token_at_a_time_is_one_for_so_long():
    stopped = threading.Event()
    try:
        with ModelServer([Answer(body=lambda: drip(TOKEN, 0.05, stopped))]) as server:
            bytewise = ask(server.url, first_token=0.5)
        assert (bytewise.ending, bytewise.text) == (Ending.SLOW, "")
        tokens = (TOKEN for _ in drip(b".", 0.05, stopped))
        with ModelServer([Answer(body=lambda: tokens)]) as server:
            slow = ask(server.url, whole=0.6)
        assert slow.ending is Ending.SLOW
        assert "not whole after 0.6 s" in slow.says
        assert slow.usage.reply_tokens > 0, "what came is counted"
    finally:
        stopped.set()


PROMPT = Prompt(
    role=Role.PLANNER, version=1, messages=(Message(role="user", content="x"),), tokens=9
)


def test_no_request_begins_when_the_seconds_of_a_run_are_spent(tmp_path):
    free = Prices({"m": Price(input=0, output=0)})
    settings = ModelSettings(model="m")
    with Ledger(tmp_path, free) as ledger:
        ledger.wall_limit = 60
        ledger.committed_seconds = 20
        meter = LedgerMeter(ledger, Place(1, 1, Role.PLANNER, 1), settings, PROMPT)
        meter.asking(1)
        limited = Reply(ending=Ending.LIMITED, seconds=15, says="slow down")
        meter.answered(1, limited)
        meter.waiting(20, limited)
        meter.asking(2)
        meter.answered(2, limited)
        with pytest.raises(BudgetEnds, match="70 of 60 seconds are spent"):
            meter.asking(3)


def test_who_leaves_does_not_sit_out_a_pause_that_a_provider_asks_for():
    left = threading.Event()

    class Waiting(Silent):
        def waiting(self, *_: object) -> None:
            left.set()

    slow_down = Answer(status=429, error={}, headers={"Retry-After": "250"})
    with ModelServer([slow_down] * 9) as server:
        settings = ModelSettings(model="m", base_url=server.url, key_env="")
        model = Model(settings, rng=random.Random(1), leaving=left.is_set)
        began = time.monotonic()
        reply = model.ask([Message(role="user", content="x")], Waiting())
        assert (reply.ending, len(server.requests)) == (Ending.LIMITED, 1)
    assert time.monotonic() - began < 200


@pytest.fixture
def model(monkeypatch, own_home) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setenv("OPENAI_MODEL", "scripted-1")
    folder = own_home / ".config" / "workbench"
    folder.mkdir(parents=True)
    (folder / "prices.toml").write_text('["scripted-1"]\ninput = 1.0\noutput = 10.0\n')
    quick = "[model]\nreply_tokens = 300\n[model.retries]\ntimes = 0\n"
    (folder / "config.toml").write_text(quick)
    return own_home


def planned(request: Request, code: str, folder: Path) -> Answer:
    """Whatever the roles ask, and always the same code."""
    prompt = request.body["messages"][1]["content"]
    if "Choose exactly one skill" not in prompt:
        return Answer(text=code, piece=4000)
    tried = [line.split()[1] for line in prompt.split("\n") if line.startswith("- v")]
    number = len(request.prompt) % 1000
    changes = {
        "modification": f"change the block a little, the way number {number} does",
        "earlier": int(tried[-1].strip("v:,")) if tried else None,
        "difference": f"another block than before, number {number}" if tried else "",
    }
    return Answer(text=plan_reply(situation(folder), **changes), piece=4000)


SAME = f"```python\n{SEED}```\n"
NONSENSE: dict[str, Callable[[Request, Path], Answer]] = {
    "empty": lambda _r, _f: Answer(text=""),
    "blank": lambda _r, _f: Answer(text=" \n\t" * 50),
    "prose": lambda _r, _f: Answer(text="Certainly! " * 500, piece=4000),
    "text without end": lambda _r, _f: Answer(body=events({"content": "word "})),
    "thinking without end": lambda _r, _f: Answer(body=events({"reasoning_content": "hm "})),
    "one event without end": lambda _r, _f: Answer(body=one_line),
    "code that is none": lambda r, f: planned(r, "```python\ndef f(:\n```\n", f),
    "an empty object": lambda _r, _f: Answer(text="{}"),
    "an object of everything": lambda _r, _f: Answer(text=json.dumps({"skill": [1] * 300})),
    "refusals": lambda _r, _f: Answer(refusal="I would rather not", text=""),
}


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("kind", NONSENSE)
def test_every_kind_of_nonsense_ends_at_its_budget(tmp_path, monkeypatch, kind):
    with ModelServer(lambda request, _n: NONSENSE[kind](request, tmp_path / "kit")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        path = new_session(tmp_path / "one-1", budget=Budget(steps=2), proposer="llm").folder
        ended = serve_session(path, open_workplace=TalkingWorkplace)
    assert ended.how == "budget"
    assert "2 of 2 steps are done, 2 of the steps without a candidate" in ended.says
    assert "the best is v0" in ended.says
    client = SessionClient(path)
    snapshot = client.snapshot()
    assert [version.number for version in snapshot.versions] == [0]
    assert (snapshot.state, snapshot.unread) == ("budget spent", ())
    assert sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) < 4 << 20


@pytest.mark.usefixtures("model")
def test_the_same_code_again_is_gated_once(tmp_path, monkeypatch):
    with ModelServer(lambda request, _n: planned(request, SAME, tmp_path / "kit")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        path = new_session(tmp_path / "one-1", budget=Budget(steps=3), proposer="llm").folder
        ended = serve_session(path, open_workplace=TalkingWorkplace)
    assert (ended.how, "2 of the steps without a candidate" in ended.says) == ("budget", True)
    assert [version.number for version in SessionClient(path).snapshot().versions] == [0, 1]


class Refusing(TalkingWorkplace):
    """Nothing that a model writes gets past the policy."""

    def gate(self, source, parent, number, tell):
        return super().gate(source, parent, number, tell) if parent is None else bad(Stage.POLICY)


@pytest.mark.usefixtures("model")
def test_code_that_the_policy_always_refuses_ends_at_the_budget(tmp_path, monkeypatch):
    numbers = itertools.count(1)

    def script(request: Request, _number: int) -> Answer:
        prompt = request.body["messages"][1]["content"]
        if "Name the one cause" in prompt:
            said = prompt.partition("# What the gate said\n\n")[2].partition("\n")[0]
            return Answer(text=diagnosis(evidence=[said], patch_anchor="class ModelNew"))
        code = SEED.replace("BLOCK=1024", f"BLOCK={1024 + next(numbers)}")
        return planned(request, f"```python\n{code}```\n", tmp_path / "kit")

    with ModelServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        path = new_session(tmp_path / "one-1", budget=Budget(steps=6), proposer="llm").folder
        ended = serve_session(path, open_workplace=Refusing)
    assert (ended.how, "6 of 6 steps are done; the best is v0" in ended.says) == ("budget", True)
    reader = SessionReader(path)
    repaired = [reader.transition(number).plan.repairs for number in range(1, 7)]
    # A plan is mended so often, and then another one is made.
    assert repaired == [None, 1, 2, 3, None, 5]
