"""What is said to a model and what came back, as data: messages, endings, tokens, dollars."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct


class Role(StrEnum):
    """The parts that ask a model. Reviewer and feature extractor are deterministic and never do."""

    GENERATOR = "generator"
    """Writes the first candidate of a problem that has none."""
    PLANNER = "planner"
    """Chooses one of the allowed skills and says why, with numbers."""
    OPTIMIZER = "optimizer"
    """Writes the candidate that a plan asks for."""
    DIAGNOSER = "diagnoser"
    """Names the one cause of a refusal."""
    REPAIRER = "repairer"
    """Mends a refused candidate where the diagnosis says."""
    REMOVER = "remover"
    """Takes a mechanism out of an expert where no inverse finds one."""
    RESTORER = "restorer"
    """Puts it back, from the kernel without it."""


class Ending(StrEnum):
    """How one request to a model ended. Every fault has a name; none is an empty answer."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    """The reply reached its token limit."""
    REFUSED = "refused"
    """By the model or by its provider's filter."""
    EMPTY = "empty"
    """A whole reply without text."""
    CUT = "cut off"
    """The connection ended inside the reply."""
    SLOW = "timed out"
    LIMITED = "rate limited"
    QUOTA = "out of quota"
    OVERFLOW = "context overflow"
    SERVER = "server error"
    UNREACHABLE = "unreachable"
    UNREADABLE = "not the protocol"
    FORBIDDEN = "key refused"
    UNKNOWN_MODEL = "unknown model"
    BAD_REQUEST = "request refused"
    LOST = "lost with its process"
    """The workbench died while the reply came; what arrived is counted, nothing can be used."""


PAID_FOR = frozenset({Ending.COMPLETE, Ending.TRUNCATED, Ending.REFUSED, Ending.EMPTY})
"""Endings that are the model's answer, good or bad: never asked for a second time."""

WORTH_A_RETRY = frozenset(
    {
        Ending.CUT,
        Ending.SLOW,
        Ending.LIMITED,
        Ending.SERVER,
        Ending.UNREACHABLE,
        Ending.UNREADABLE,
    }
)
"""Endings that waiting may cure."""


class Message(Struct, frozen=True, kw_only=True):
    """One part of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one request, and who counted them."""

    prompt_tokens: int = 0
    reply_tokens: int = 0
    """With hidden reasoning, where the provider counted."""
    cached_tokens: int = 0
    """Of the prompt, read from the provider's cache."""
    source: Literal["provider", "counted"] = "counted"
    """`counted`: estimated here from the text, which cannot see hidden reasoning."""
    says: str = ""
    """Why the provider's numbers were not taken; empty when they were."""


class Reply(Struct, frozen=True, kw_only=True):
    """The outcome of one request."""

    ending: Ending
    text: str = ""
    reasoning: str = ""
    """What the provider streamed of the model's thinking, for a person to read."""
    usage: Usage = Usage()
    model: str = ""
    """As the provider names it."""
    seconds: float = 0.0
    says: str = ""
    """The fault in a sentence; never holds a key."""
    retry_after: float | None = None
    """Seconds that the provider asked us to wait."""


class NoCandidate(Struct, frozen=True, kw_only=True):
    """A round that gave no candidate."""

    says: str
    """Which role failed, and how, in a sentence."""


class BudgetEnds(Exception):
    """The dollars are spent, or would be by the next request; nothing was sent."""
