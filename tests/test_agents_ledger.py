"""What requests cost, and that no reply is lost or paid for twice."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from model_server import Answer, ModelServer, Request

from workbench.agents.exchange import ARRIVING, JOURNAL, Answered, AnyLine, Asked, Place, final
from workbench.agents.ledger import Ledger, LedgerMeter
from workbench.agents.model import Model
from workbench.agents.model_settings import ModelSettings, Retries
from workbench.agents.prices import Price, Prices
from workbench.agents.prompts import Prompt
from workbench.agents.records import BudgetEnds, Ending, Message, Reply, Role, Usage
from workbench.agents.tokens import estimate, estimate_prompt
from workbench.session.journal import read_records

PRICES = Prices({"priced": Price(input=1000.0, output=10_000.0)})
"""A cent for 10 prompt tokens or one of the reply."""
MESSAGES = (Message(role="user", content="x" * 276),)
"""100 tokens by our estimate."""


def prompt(messages: tuple[Message, ...]) -> Prompt:
    return Prompt(role=Role.PLANNER, version=1, messages=messages, tokens=100)


PROMPT = prompt(MESSAGES)


def settings(url: str = "http://127.0.0.1:9/v1", model: str = "priced") -> ModelSettings:
    return ModelSettings(
        model=model, base_url=url, reply_tokens=300, retries=Retries(times=3, backoff=0.01)
    )


def reply(tokens: int = 10, ending: Ending = Ending.COMPLETE) -> Reply:
    return Reply(
        ending=ending,
        text="fine",
        usage=Usage(prompt_tokens=100, reply_tokens=tokens, source="provider"),
        seconds=2.0,
    )


def place(number: int = 1, turn: int = 1, role: Role = Role.PLANNER) -> Place:
    return Place(number, 1, role, turn)


def pay(ledger: Ledger, where: Place, answer: Reply, model: str = "priced") -> None:
    meter = LedgerMeter(ledger, where, settings(model=model), PROMPT)
    meter.asking(1)
    meter.answered(1, answer)


def test_cost_is_kept_by_request_transition_and_session(tmp_path):
    with Ledger(tmp_path, PRICES) as ledger:
        pay(ledger, place(1), reply(10))
        pay(ledger, place(1, role=Role.OPTIMIZER), reply(20))
        pay(ledger, place(2), reply(30), model="unpriced")
        assert ledger.spent(1).usd == pytest.approx(0.1 + 0.1 + 0.1 + 0.2)
        assert ledger.spent(1).says() == "2 requests, 200 + 30 tokens, $0.5000"
        assert ledger.spent(2).says() == "1 request, 100 + 30 tokens, dollars unknown"
        ledger.number = 2
        assert (ledger.open().requests, ledger.open().seconds) == (1, 2.0)


def test_what_was_answered_is_known_after_a_restart_and_never_asked_again(tmp_path):
    with Ledger(tmp_path, PRICES) as ledger:
        pay(ledger, place(), reply())
        pay(ledger, place(turn=2), reply(ending=Ending.SERVER))
    with Ledger(tmp_path, PRICES) as ledger:
        assert ledger.answer(place()).text == "fine"
        # A fault is no answer: its place is asked again.
        assert ledger.answer(place(turn=2)) is None
        assert ledger.spent(1).requests == 2
        assert ledger.exchange(1)[0]["messages"][0]["content"] == MESSAGES[0].content


def test_a_reply_that_had_arrived_whole_is_kept_though_its_process_died(tmp_path):
    dead = Ledger(tmp_path, PRICES)
    meter = LedgerMeter(dead, place(), settings(), PROMPT)
    meter.asking(1)
    for kind, piece in (
        ("reasoning", "hm"),
        ("text", "a ker"),
        ("text", "nel"),
        ("finish", "stop"),
    ):
        meter.heard(kind, piece)
    with Ledger(tmp_path, PRICES) as ledger:
        found = ledger.answer(place())
        assert (found.ending, found.text, found.reasoning) == (Ending.COMPLETE, "a kernel", "hm")
        assert found.usage.source == "counted"


def test_a_reply_that_had_not_is_counted_at_its_price_and_asked_again(tmp_path):
    dead = Ledger(tmp_path, PRICES)
    meter = LedgerMeter(dead, place(), settings(), PROMPT)
    meter.asking(1)
    meter.heard("text", "half a kernel")
    with Ledger(tmp_path, PRICES) as ledger:
        assert ledger.answer(place()) is None
        used = ledger.spent(1)
        assert used.prompt_tokens == estimate_prompt(MESSAGES) == 100
        assert used.reply_tokens == estimate("half a kernel")
        assert used.usd > 0
        assert used.says().startswith("1 request, about")
    with Ledger(tmp_path, PRICES) as ledger:
        assert ledger.spent(1).requests == 1


def test_a_torn_last_line_costs_nothing_that_was_before_it(tmp_path):
    with Ledger(tmp_path, PRICES) as ledger:
        pay(ledger, place(), reply())
    with (tmp_path / "exchange.jsonl").open("ab") as file:
        file.write(b'{"line":"answered","numb')
    with Ledger(tmp_path, PRICES) as ledger:
        assert ledger.answer(place()) is not None


def test_a_budget_is_overshot_by_one_reply_at_most_and_told_at_its_marks(tmp_path):
    told: list[str] = []
    with Ledger(tmp_path, PRICES, warn=told.append) as ledger:
        ledger.limit = 1.0
        # 0.25 a request: the fourth begins at 0.75, and its prompt alone fits.
        for turn in range(1, 5):
            pay(ledger, place(turn=turn), reply(15))
        with pytest.raises(BudgetEnds, match=r"of \$1.0000"):
            pay(ledger, place(turn=5), reply(15))
        assert ledger.open().usd == pytest.approx(1.0)
        assert [line.split()[0] for line in told] == ["50%", "80%"]
        assert len([line for line in ledger.lines if isinstance(line, Asked)]) == 4


def test_a_prompt_that_cannot_be_afforded_is_not_sent(tmp_path):
    with Ledger(tmp_path, PRICES) as ledger:
        ledger.limit, ledger.committed = 1.0, 0.95
        with pytest.raises(BudgetEnds):
            LedgerMeter(ledger, place(), settings(), PROMPT).asking(1)
        assert ledger.lines == []


def test_the_estimate_before_a_request_is_written_down_with_it(tmp_path):
    with Ledger(tmp_path, PRICES) as ledger:
        LedgerMeter(ledger, place(), settings(), PROMPT).asking(1)
        asked = ledger.lines[0]
        assert isinstance(asked, Asked)
        assert asked.prompt_tokens == 100
        assert asked.usd_at_most == pytest.approx(0.1 + 3.0)


def test_hints_and_fruitless_rounds_survive(tmp_path):
    with Ledger(tmp_path, PRICES) as ledger:
        ledger.hint(2, "try one pass")
        ledger.fruitless(2, "no code in the reply")
        ledger.fruitless(2, "refused")
    with Ledger(tmp_path, PRICES) as ledger:
        assert ledger.rounds(2) == 2
        assert ledger.hints(1) == ()
        assert ledger.hints(2) == ledger.hints(7) == ("try one pass",)


# -- kill -9 ------------------------------------------------------------------------------------

TURNS = 5


def talk(folder: str, url: str) -> None:
    """Ask five questions, one after another; what is known is not asked."""
    with Ledger(Path(folder), PRICES) as ledger:
        for turn in range(1, TURNS + 1):
            where = place(turn=turn)
            if ledger.answer(where) is None:
                messages = (Message(role="user", content=f"question {turn}"),)
                asking = settings(url)
                meter = LedgerMeter(ledger, where, asking, prompt(messages))
                Model(asking, rng=random.Random(1)).ask(messages, meter)


def nursery(folder: str, url: str) -> None:
    """A talker for each line of input, one at a time; says its process, then how it ended."""
    import openai  # noqa: F401 -- once, for all that are forked

    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            talk(folder, url)
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else "done", flush=True)


def arrived(folder: Path) -> set[str]:
    """Questions whose reply a process had received whole when it died, read from the files."""
    lines = read_records(folder / JOURNAL, AnyLine).records
    known = {f"question {x.turn}" for x in lines if isinstance(x, Answered) and final(x)}
    if lines and isinstance(lines[-1], Asked):
        pieces = read_records(folder / ARRIVING, tuple[str, str]).records
        if any(kind == "finish" for kind, _ in pieces):
            known.add(f"question {lines[-1].turn}")
    return known


def test_killed_at_any_moment_no_reply_that_came_is_lost_and_none_is_asked_again(tmp_path):
    def script(request: Request, _number: int) -> Answer:
        return Answer(text=f"answer to {request.prompt} " * 8, piece=20, delay=0.002)

    rng = random.Random(7)
    command = [sys.executable, __file__, str(tmp_path)]
    with (
        ModelServer(script) as server,
        subprocess.Popen(
            [*command, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as home,
    ):
        kills, ended = 0, ""
        while ended != "done\n":
            known, asked = arrived(tmp_path), len(server.requests)
            home.stdin.write("go\n")
            home.stdin.flush()
            talker = int(home.stdout.readline())
            # Killed before a request, inside a reply, just behind one, or between two.
            if kills < 15:
                server.wait_until(server.sent + rng.randint(0, 24), 0.5)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(talker, signal.SIGKILL)
            ended = home.stdout.readline()
            kills += ended == "killed\n"
            assert not known & {request.prompt for request in server.requests[asked:]}
        home.stdin.close()
    assert kills > 5
    with Ledger(tmp_path, PRICES) as ledger:
        for turn in range(1, TURNS + 1):
            found = ledger.answer(place(turn=turn))
            assert found.ending is Ending.COMPLETE
            assert found.text == f"answer to question {turn} " * 8
        # Every request is in the books, those that were lost too.
        assert ledger.spent(1).requests == len([x for x in ledger.lines if isinstance(x, Asked)])


if __name__ == "__main__":
    nursery(sys.argv[1], sys.argv[2])
