"""A session's journal of its exchanges with models: each request and each reply is a line."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from workbench.agents.records import PAID_FOR, Ending, Message, Reply, Role

JOURNAL = "exchange.jsonl"
"""Name of the journal in the session's state folder."""
ARRIVING = "arriving.jsonl"
"""Beside it: the reply that is being streamed, piece by piece, so that a death costs none of it."""


class Place(NamedTuple):
    """Where in a session a question stands; the same place is never paid for twice."""

    number: int
    """Number of the transition that the question leads to."""
    round: int
    """Which try at it, from 1: a round that gave no candidate is followed by another."""
    role: Role
    turn: int
    """1, or 2 when an answer was handed back."""


class Line(Struct, frozen=True, kw_only=True, tag_field="line"):
    """Base of all lines."""

    seq: int = 0
    at: str = ""
    """UTC, ISO 8601."""
    number: int
    """Number of the transition that this leads to."""


class Asked(Line, frozen=True, kw_only=True, tag="asked"):
    """Written before the request is sent."""

    round: int
    role: Role
    turn: int
    attempt: int
    """Number of the attempt, from 1; retries of a passing fault count."""
    model: str
    messages: tuple[Message, ...] = ()
    """Messages of the first attempt; those of later ones are the same."""
    version: int = 0
    """Version of the role's prompt file."""
    trimmed: tuple[str, ...] = ()
    """What gave way in the prompt for want of room."""
    because: str = ""
    """Why the first reply was handed back; empty in a first turn."""
    prompt_tokens: int
    """Estimated; see `tokens.py`."""
    usd_at_most: float | None = None
    """Dollars with a reply of full length; None if the price is unknown."""


class Answered(Line, frozen=True, kw_only=True, tag="answered"):
    """Written before anything is done with the reply."""

    round: int
    role: Role
    turn: int
    attempt: int
    model: str
    """Name with which the model was asked for, and under which it is priced."""
    reply: Reply
    usd: float | None = None


class Fruitless(Line, frozen=True, kw_only=True, tag="fruitless"):
    """A round that gave no candidate."""

    round: int
    says: str


class Hinted(Line, frozen=True, kw_only=True, tag="hint"):
    """What a person wants the next prompts to say; holds from transition `number` on."""

    text: str


AnyLine = Asked | Answered | Fruitless | Hinted


class Spent(Struct, frozen=True, kw_only=True):
    """Tokens, dollars and time of some requests."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    reply_tokens: int = 0
    usd: float = 0.0
    """Dollars for the requests whose price is known."""
    unpriced: int = 0
    """Requests whose price is not: dollars are unknown while there is one."""
    counted: int = 0
    """Requests whose tokens we estimated, because the provider's counts were absent or absurd."""
    seconds: float = 0.0

    def says(self) -> str:
        """`3 requests, 12,400 + 2,100 tokens, $0.04`."""
        requests = f"{self.requests} request{'' if self.requests == 1 else 's'}"
        about = "about " if self.counted else ""
        tokens = f"{about}{self.prompt_tokens:,} + {self.reply_tokens:,} tokens"
        dollars = f"${self.usd:.4f}"
        if self.unpriced:
            dollars = "dollars unknown" if not self.usd else f"{dollars} and an unknown rest"
        return f"{requests}, {tokens}, {dollars}"


def place_of(line: Asked | Answered) -> Place:
    """Where a request belongs."""
    return Place(line.number, line.round, line.role, line.turn)


def spent(lines: Iterable[AnyLine]) -> Spent:
    """What the requests among these lines cost."""
    answered = [line for line in lines if isinstance(line, Answered)]
    usages = [line.reply.usage for line in answered]
    return Spent(
        requests=len(answered),
        prompt_tokens=sum(u.prompt_tokens for u in usages),
        cached_tokens=sum(u.cached_tokens for u in usages),
        reply_tokens=sum(u.reply_tokens for u in usages),
        usd=sum(line.usd or 0.0 for line in answered),
        unpriced=sum(line.usd is None for line in answered),
        counted=sum(u.source == "counted" and u.prompt_tokens > 0 for u in usages),
        seconds=sum(line.reply.seconds for line in answered),
    )


def final(line: Answered) -> bool:
    """Whether this is the model's answer, which is never asked for again."""
    return line.reply.ending in PAID_FOR


LOST = Reply(ending=Ending.LOST, says="the workbench ended while the reply was on its way")
