"""The model client against a real server on loopback, through the real `openai` package."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import Answer, ModelServer, counts

from workbench.agents.model import Model
from workbench.agents.model_settings import (
    ModelSettings,
    Retries,
    Timeouts,
)
from workbench.agents.records import Ending, Message, Reply
from workbench.agents.tokens import checked_usage, estimate, estimate_prompt

KEY = "sk-test-0123456789abcdef"
PROMPT = [
    Message(role="system", content="You make kernels faster. " * 20),
    Message(role="user", content="Write one. " * 30),
]


class Heard:
    """A meter that only remembers."""

    def __init__(self) -> None:
        self.log: list[tuple] = []
        self.text = ""
        self.reasoning = ""
        self.finish = ""

    def asking(self, attempt: int) -> None:
        self.log.append(("asking", attempt))

    def heard(self, kind: str, piece: str) -> None:
        setattr(self, kind, getattr(self, kind) + piece)

    def answered(self, attempt: int, reply: Reply) -> None:
        self.log.append(("answered", attempt, reply.ending))

    def waiting(self, seconds: float, _reply: Reply) -> None:
        self.log.append(("waiting", seconds))

    @property
    def endings(self) -> list[Ending]:
        return [entry[2] for entry in self.log if entry[0] == "answered"]

    @property
    def pauses(self) -> list[float]:
        return [entry[1] for entry in self.log if entry[0] == "waiting"]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("TEST_KEY", KEY)


def ask(
    script: list[Answer] | Callable, **changes
) -> tuple[Reply, Heard, ModelServer, list[float]]:
    slept: list[float] = []
    meter = Heard()
    with ModelServer(script) as server:
        settings = ModelSettings(
            **{
                "model": "scripted-1",
                "base_url": server.url,
                "key_env": "TEST_KEY",
                "reply_tokens": 2000,
                "retries": Retries(times=2, backoff=1.0),
                **changes,
            }
        )
        model = Model(settings, rng=random.Random(1), sleep=slept.append)
        return model.ask(PROMPT, meter), meter, server, slept


def test_a_streamed_reply_arrives_whole_with_its_reasoning_and_counts():
    text = "The kernel reads each row twice. " * 40
    reply, meter, server, _ = ask([Answer(text=text, reasoning="Let me think. " * 9)])
    assert reply.ending is Ending.COMPLETE
    assert reply.text == text == meter.text
    assert reply.reasoning == "Let me think. " * 9 == meter.reasoning
    assert reply.usage.source == "provider"
    assert reply.usage.prompt_tokens == len(server.requests[0].prompt) // 4
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_what_is_not_set_is_not_sent():
    _, _, server, _ = ask([Answer(text="ok")])
    assert "temperature" not in server.requests[0].body
    assert "reasoning_effort" not in server.requests[0].body
    _, _, server, _ = ask([Answer(text="ok")], temperature=0.0, reasoning_effort="low")
    assert server.requests[0].body["temperature"] == 0.0
    assert server.requests[0].body["reasoning_effort"] == "low"
    assert server.requests[0].body["max_tokens"] == 2000


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (Answer(text="half a ker", finish="length"), Ending.TRUNCATED),
        (Answer(refusal="I cannot help with that."), Ending.REFUSED),
        (Answer(text="", finish="content_filter"), Ending.REFUSED),
        (Answer(text="   \n"), Ending.EMPTY),
        (Answer(text="x" * 200_000, piece=20_000), Ending.TRUNCATED),
        (
            Answer(
                status=400,
                error={
                    "error": {
                        "message": "This model's maximum context length is 8192 tokens.",
                        "code": "context_length_exceeded",
                    }
                },
            ),
            Ending.OVERFLOW,
        ),
        (Answer(status=413, error={"error": {"message": "prompt is too long"}}), Ending.OVERFLOW),
        (Answer(status=401, error={"error": {"message": f"bad key {KEY}"}}), Ending.FORBIDDEN),
        (Answer(status=404, error={"error": {"message": "no such model"}}), Ending.UNKNOWN_MODEL),
        (
            Answer(status=429, error={"error": {"message": "quota", "code": "insufficient_quota"}}),
            Ending.QUOTA,
        ),
        (Answer(status=400, error={"error": {"message": "messages: wrong"}}), Ending.BAD_REQUEST),
    ],
)
def test_what_waiting_cannot_cure_is_named_and_not_asked_again(answer, ending):
    reply, meter, server, slept = ask([answer])
    assert reply.ending is ending
    assert reply.says
    assert len(server.requests) == 1
    assert not slept
    assert meter.endings == [ending]


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (Answer(status=500, error={"error": {"message": "oops"}}), Ending.SERVER),
        (Answer(status=503, error="<html>busy</html>"), Ending.SERVER),
        (Answer(text="a kernel", cut_after=2), Ending.CUT),
        (Answer(text="a kernel", finish=None), Ending.CUT),
        (Answer(raw=["data: {not json\n\n"]), Ending.UNREADABLE),
        (Answer(text="abc", stream_error={"error": {"message": "overloaded"}}), Ending.SERVER),
        (Answer(error={"choices": []}), Ending.UNREADABLE),
        (Answer(status=429, error={"error": {"message": "slow down"}}), Ending.LIMITED),
    ],
)
def test_a_passing_fault_is_named_waited_out_and_the_next_reply_taken(answer, ending):
    reply, meter, server, slept = ask([answer, Answer(text="a whole kernel")])
    assert (reply.ending, reply.text) == (Ending.COMPLETE, "a whole kernel")
    assert meter.endings == [ending, Ending.COMPLETE]
    assert len(server.requests) == 2
    assert len(slept) == 1
    assert 0 <= slept[0] <= 1.0


def test_backoff_doubles_with_jitter_and_gives_up_with_the_last_ending():
    oops = Answer(status=500, error={"error": {"message": "oops"}})
    reply, meter, server, slept = ask([oops] * 9, retries=Retries(times=5, longest=4.0))
    assert reply.ending is Ending.SERVER
    assert len(server.requests) == 6
    assert all(pause <= most for pause, most in zip(slept, (1, 2, 4, 4, 4), strict=True))
    assert len(set(slept)) == 5
    assert meter.pauses == slept


def test_retry_after_is_kept_and_one_beyond_patience_ends_the_asking():
    limited = {"status": 429, "error": {"error": {"message": "slow down"}}}
    reply, _, _, slept = ask([Answer(**limited, headers={"Retry-After": "7"}), Answer(text="k")])
    assert reply.ending is Ending.COMPLETE
    assert 7 <= slept[0] <= 8
    reply, _, server, slept = ask([Answer(**limited, headers={"Retry-After": "86400"})])
    assert (reply.ending, len(server.requests), slept) == (Ending.LIMITED, 1, [])
    assert reply.retry_after == 86400


@pytest.mark.parametrize(
    ("answer", "timeouts", "says"),
    [
        (Answer(text="k", silent_after=0), Timeouts(first_token=0.15), "no first token"),
        (
            Answer(text="kernel " * 40, silent_after=3),
            Timeouts(between_tokens=0.15),
            "nothing more came",
        ),
        (Answer(text="k" * 4000, piece=10, delay=0.01), Timeouts(whole=0.3), "not whole"),
    ],
)
def test_each_silence_has_its_own_limit(answer, timeouts, says):
    reply, meter, _, _ = ask([answer], timeouts=timeouts, retries=Retries(times=0))
    assert reply.ending is Ending.SLOW
    assert says in reply.says
    assert reply.text == meter.text
    # What arrived before is paid for, so it is counted.
    assert reply.usage.source == "counted"
    assert reply.usage.prompt_tokens == estimate_prompt(PROMPT)


def test_a_fault_of_whoever_listens_is_not_taken_for_one_of_the_endpoint():
    class Full(Heard):
        def heard(self, *_: str) -> None:
            raise OSError(28, "No space left on device")

    with ModelServer([Answer(text="kernel")]) as server:
        model = Model(ModelSettings(model="m", base_url=server.url), rng=random.Random(1))
        with pytest.raises(OSError, match="No space"):
            model.ask(PROMPT, Full())


def test_who_leaves_does_not_wait_for_a_reply_and_what_came_is_counted():
    meter = Heard()
    with ModelServer([Answer(text="kernel " * 40, silent_after=3)]) as server:
        settings = ModelSettings(model="m", base_url=server.url)
        model = Model(settings, rng=random.Random(1), leaving=lambda: "kernel" in meter.text)
        reply = model.ask(PROMPT, meter)
    assert reply.ending is Ending.LOST
    assert reply.text
    assert reply.usage.prompt_tokens == estimate_prompt(PROMPT)
    assert len(server.requests) == 1


def test_an_endpoint_that_is_not_there_is_unreachable_and_costs_nothing():
    with ModelServer([]) as server:
        url = server.url
    model = Model(
        ModelSettings(model="m", base_url=url, retries=Retries(times=0)), rng=random.Random(1)
    )
    reply = model.ask(PROMPT, Heard())
    assert reply.ending is Ending.UNREACHABLE
    assert (reply.usage.prompt_tokens, reply.usage.reply_tokens) == (0, 0)


def test_an_optional_part_that_the_endpoint_refuses_is_left_out_without_waiting():
    def script(request, _number):
        for name in ("temperature", "stream_options", "max_tokens"):
            if name in request.body:
                says = f"Unsupported parameter: '{name}' is not supported with this model."
                return Answer(status=400, error={"error": {"message": says, "param": name}})
        return Answer(text="fine")

    reply, _, server, slept = ask(script, temperature=0.2)
    assert reply.ending is Ending.COMPLETE
    assert not slept
    assert server.requests[-1].body["max_completion_tokens"] == 2000
    assert reply.usage.source == "counted"


def test_the_key_is_in_no_word_of_a_reply():
    def script(_request, number):
        if number == 1:
            return Answer(status=500, error={"error": {"message": f"boom {KEY}"}})
        if number == 2:
            return Answer(text="x", stream_error={"error": {"message": f"key {KEY[:12]}****"}})
        return Answer(status=401, error={"error": {"message": f"Incorrect API key: {KEY}"}})

    reply, _, _, _ = ask(script)
    assert reply.ending is Ending.FORBIDDEN
    assert KEY not in reply.says
    assert KEY[:12] not in reply.says


@pytest.mark.parametrize(
    "usage",
    [
        None,
        counts(-5, 10),
        counts(0, 0),
        counts(10_000_000, 5),
        counts(150, 99_999_999),
        counts("many", "few"),
        {"prompt_tokens": 1.5},
    ],
)
def test_absent_or_absurd_counts_are_named_and_replaced_by_our_own(usage):
    text = "k" * 3000
    reply, _, _, _ = ask([Answer(text=text, usage=usage)])
    assert reply.ending is Ending.COMPLETE
    assert reply.usage.source == "counted"
    assert reply.usage.says
    assert reply.usage.reply_tokens == estimate(text)
    assert reply.usage.prompt_tokens == estimate_prompt(PROMPT)


@given(st.text(max_size=300), st.integers(), st.integers())
def test_no_claim_can_make_counts_that_are_negative_or_beyond_the_texts(text, prompt, reply):
    class Claim:
        prompt_tokens = prompt
        completion_tokens = reply
        prompt_tokens_details = None

    messages = [Message(role="user", content=text)]
    usage = checked_usage(Claim(), messages, text, 1000)
    size = len(text.encode("utf-8", "replace"))
    assert 0 <= usage.prompt_tokens <= size + 128
    assert 0 <= usage.reply_tokens <= max(1064, size)


def test_importing_the_client_does_not_import_openai():
    import subprocess
    import sys

    code = "import sys, workbench.agents.model; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
