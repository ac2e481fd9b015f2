"""Records of requests to a model: roles, messages, endings, tokens, replies."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct


class Role(StrEnum):
    """The roles that ask a model. Reviewer and feature extractor are deterministic and do not."""

    GENERATOR = "generator"
    """Writes the first candidate of a problem that has none."""
    PLANNER = "planner"
    """Chooses one of the allowed skills and says why, with numbers."""
    OPTIMIZER = "optimizer"
    """Writes the candidate that a plan asks for."""
    DIAGNOSER = "diagnoser"
    """Names the one cause of a refusal."""
    REPAIRER = "repairer"
    """Repairs a refused candidate as the diagnosis says."""
    REMOVER = "remover"
    """Removes a mechanism from an expert when no inverse edit can."""
    RESTORER = "restorer"
    """Restores it, given the kernel without it."""


class Ending(StrEnum):
    """How one request to a model ended. Every fault has a name; none is an empty answer."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    """The reply reached its token limit."""
    REFUSED = "refused"
    """Refused by the model or by its provider's filter."""
    EMPTY = "empty"
    """A complete reply without text."""
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
    """The workbench died during the reply; its tokens are counted, but it cannot be used."""


PAID_FOR = frozenset({Ending.COMPLETE, Ending.TRUNCATED, Ending.REFUSED, Ending.EMPTY})
"""Endings that are an answer of the model, good or bad, and are never asked for again."""

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
"""Endings after which a retry may succeed."""


class Message(Struct, frozen=True, kw_only=True):
    """One part of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one request, and who counted them."""

    prompt_tokens: int = 0
    reply_tokens: int = 0
    """Tokens of the reply, including hidden reasoning if the provider counted them."""
    cached_tokens: int = 0
    """Tokens of the prompt that the provider read from its cache."""
    source: Literal["provider", "counted"] = "counted"
    """`counted` if estimated here from the text, which does not include hidden reasoning."""
    says: str = ""
    """Why the provider's numbers were not used; empty if they were."""


class Reply(Struct, frozen=True, kw_only=True):
    """The outcome of one request."""

    ending: Ending
    text: str = ""
    reasoning: str = ""
    """The part of the model's thinking that the provider streamed, for a person to read."""
    usage: Usage = Usage()
    model: str = ""
    """Name of the model as the provider gives it."""
    seconds: float = 0.0
    says: str = ""
    """The fault in a sentence; it never contains a key."""
    retry_after: float | None = None
    """Seconds that the provider asked us to wait; None if it did not."""


class NoCandidate(Struct, frozen=True, kw_only=True):
    """A round that gave no candidate."""

    says: str
    """Which role failed, and how, in a sentence."""


class BudgetEnds(Exception):
    """Dollars or seconds are spent, or the next request would exceed them; nothing was sent."""
