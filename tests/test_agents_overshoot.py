"""A budget in dollars holds whatever an endpoint does: one reply late at most, never two."""

import random
from collections.abc import Callable

import pytest
from model_server import Answer, ModelServer

from workbench.agents.exchange import Answered, Asked, Place
from workbench.agents.ledger import Ledger, LedgerMeter
from workbench.agents.model import Model
from workbench.agents.model_settings import ModelSettings, Retries, Timeouts
from workbench.agents.prices import Price, Prices
from workbench.agents.prompts import Prompt
from workbench.agents.records import BudgetEnds, Message, Role

PRICES = Prices({"priced": Price(input=100.0, output=1000.0)})
TEXT = "word " * 24
LIMIT = 1.2
MOST = 300
"""Tokens of one reply: 0.30 dollars."""
REFUSED = {429, 500, 503}

COUNTED = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
WHOLE = Answer(text=TEXT, usage=COUNTED)

FAULTS: dict[str, Callable[[], Answer]] = {
    "whole": lambda: WHOLE,
    "no counts": lambda: Answer(text=TEXT, usage=None),
    "negative counts": lambda: Answer(
        text=TEXT, usage={"prompt_tokens": -5, "completion_tokens": -9, "total_tokens": -14}
    ),
    "no tokens at all": lambda: Answer(
        text=TEXT, usage={"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    ),
    "absurd counts": lambda: Answer(
        text=TEXT, usage={"prompt_tokens": 9, "completion_tokens": 10**9, "total_tokens": 10**9}
    ),
    "counts in words": lambda: Answer(
        text=TEXT, usage={"prompt_tokens": "many", "completion_tokens": "few", "total_tokens": 1}
    ),
    "cut": lambda: Answer(text=TEXT, cut_after=2),
    "cut at once": lambda: Answer(text=TEXT, cut_after=0),
    "ends without an end": lambda: Answer(text=TEXT, finish=None, usage=None),
    "silent": lambda: Answer(text=TEXT, silent_after=1),
    "limited": lambda: Answer(status=429, error={"error": {"message": "slow down"}}),
    "broken": lambda: Answer(status=500, error={"error": {"message": "oh"}}),
    "broken inside": lambda: Answer(text=TEXT, stream_error={"error": {"message": "oh"}}),
}


def ask_until_it_ends(tmp_path, answer: Callable[[int], Answer]) -> tuple[list[Answer], Ledger]:
    """Every answer that was given until the money was spent, and the ledger."""

    def ask() -> None:
        for turn in range(1, 60):
            meter = LedgerMeter(ledger, Place(turn, 1, Role.PLANNER, 1), settings, prompt)
            model.ask(prompt.messages, meter)

    given: list[Answer] = []

    def script(_request, number: int) -> Answer:
        given.append(answer(number))
        return given[-1]

    prompt = Prompt(
        role=Role.PLANNER,
        version=1,
        messages=(Message(role="user", content="x" * 276),),
        tokens=100,
    )
    ledger = Ledger(tmp_path, PRICES)
    ledger.limit = LIMIT
    with ModelServer(script) as server:
        settings = ModelSettings(
            model="priced",
            base_url=server.url,
            reply_tokens=MOST,
            timeouts=Timeouts(first_token=0.3, between_tokens=0.3, whole=5.0),
            retries=Retries(times=2, backoff=0.001),
        )
        model = Model(settings, rng=random.Random(1), sleep=lambda _seconds: None)
        with pytest.raises(BudgetEnds):
            ask()
    return given, ledger


def worst(answer: Answer) -> float:
    """Dollars that the provider may bill for an answer: all that was asked for, unless it was
    refused before any work, or counted by the provider itself."""
    if answer.status in REFUSED:
        return 0.0
    return 0.01 + (0.05 if answer is WHOLE else MOST / 1000)


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in {"limited", "broken"}])
def test_an_endpoint_with_one_fault_is_paid_one_reply_too_many_at_most(tmp_path, fault) -> None:
    given, ledger = ask_until_it_ends(tmp_path, lambda _number: FAULTS[fault]())
    ledger.close()
    assert sum(map(worst, given[:-1])) < LIMIT
    asked = [line for line in ledger.lines if isinstance(line, Asked)]
    assert len(asked) == len(given) == sum(isinstance(x, Answered) for x in ledger.lines)


@pytest.mark.parametrize("seed", range(4))
def test_an_endpoint_with_every_fault_is_too(tmp_path, seed) -> None:
    rng = random.Random(seed)
    # Most are refusals, which cost nothing and must not end anything by themselves.
    names = [*FAULTS, *["limited", "broken"] * 3]
    given, ledger = ask_until_it_ends(tmp_path, lambda _number: FAULTS[rng.choice(names)]())
    ledger.close()
    assert sum(map(worst, given[:-1])) < LIMIT


def test_what_was_not_counted_is_told_when_the_budget_ends(tmp_path) -> None:
    with Ledger(tmp_path, PRICES) as ledger:
        assert ledger.unseen() == 0.0
    _, ledger = ask_until_it_ends(tmp_path, lambda _number: FAULTS["no counts"]())
    with ledger, pytest.raises(BudgetEnds, match=r"more may be \(replies without counts\)"):
        ledger._afford(0.1)


def test_what_was_not_counted_is_remembered_by_the_next_process(tmp_path) -> None:
    _, ledger = ask_until_it_ends(tmp_path, lambda _number: FAULTS["cut"]())
    unseen = ledger.unseen()
    ledger.close()
    with Ledger(tmp_path, PRICES) as again:
        assert again.unseen() == pytest.approx(unseen)
        assert unseen > 0.0
