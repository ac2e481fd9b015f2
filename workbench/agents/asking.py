"""Puts a role's prompt to its model, or takes the reply that was paid for before."""

import random
from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import structs

from workbench.agents.exchange import Place
from workbench.agents.ledger import Ledger, LedgerMeter
from workbench.agents.model import Model
from workbench.agents.model_settings import Models
from workbench.agents.prompts import Prompt
from workbench.agents.records import PAID_FOR, Ending, Reply, Role
from workbench.agents.reply_records import HandedBack
from workbench.errors import WorkbenchError

T = TypeVar("T")

_SHRINK = (1.0, 0.7, 0.45)
"""Shares of the room that a prompt gets when an endpoint says that it reads less; ours."""

_TODO = {
    Ending.FORBIDDEN: "check the key in the variable that key_env names, then `workbench resume`",
    Ending.QUOTA: "add credit at the provider, or name another model, then `workbench resume`",
    Ending.UNKNOWN_MODEL: "correct `model` or `base_url` under [model] of config.toml, then resume",
    Ending.BAD_REQUEST: "see what the endpoint refuses; [model] of config.toml says what is sent",
    Ending.UNREACHABLE: "see that the endpoint runs and is base_url's, then `workbench resume`;"
    " no reply was lost",
    Ending.UNREADABLE: "see that base_url is that of a chat-completions API, then"
    " `workbench resume`",
    Ending.OVERFLOW: "set context_tokens under [model] of config.toml to what the model reads",
}


class Ask(Protocol):
    """How the roles reach a model."""

    def room(self, role: Role) -> int:
        """Tokens that the role's prompt may have."""

    def __call__(self, role: Role, turn: int, prompt: Prompt) -> Reply:
        """The model's answer. Raises BudgetEnds, WorkbenchError, or Overflows."""


class Overflows(Exception):
    """The endpoint reads less than its settings say."""


class Asker:
    """Asks for one round of one transition; the same place is asked once in a session's life."""

    def __init__(
        self,
        models: Models,
        ledger: Ledger,
        *,
        number: int,
        rng: random.Random,
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self._models = models
        self._ledger = ledger
        self._number = number
        self._round = ledger.rounds(number) + 1
        self._rng = rng
        self._leaving = leaving
        self._share = _SHRINK[0]

    def room(self, role: Role) -> int:
        """What the model reads, less its reply, less what an overflow has taught."""
        settings = self._models.of(role)
        return int((settings.context_tokens - settings.reply_tokens) * self._share)

    def shrink(self) -> None:
        """Give prompts less room from now on, where there is less."""
        self._share = next((share for share in _SHRINK if share < self._share), self._share)

    def __call__(self, role: Role, turn: int, prompt: Prompt) -> Reply:
        """The answer, from the ledger where it was paid for."""
        place = Place(self._number, self._round, role, turn)
        known = self._ledger.answer(place)
        if known is not None:
            return known
        settings = self._models.of(role)
        meter = LedgerMeter(self._ledger, place, settings, prompt)
        model = Model(settings, rng=self._rng, leaving=self._leaving)
        reply = model.ask(prompt.messages, meter)
        if reply.ending in PAID_FOR:
            return reply
        if reply.ending is Ending.OVERFLOW and self._share > _SHRINK[-1]:
            raise Overflows(reply.says)
        raise WorkbenchError(
            f"the {role}'s model {settings.model} did not answer: {reply.ending}: {reply.says}",
            where=settings.base_url,
            todo=_TODO.get(reply.ending, "`workbench resume` asks again; no reply was lost"),
        )


def fitting(ask: Asker, work: Callable[[], T]) -> T:
    """Do the work, with shorter prompts when the model reads less than its settings say.

    Raises DoesNotFit where even the shortest is too long.
    """
    while True:
        try:
            return work()
        except Overflows:
            ask.shrink()


def in_two_turns(
    ask: Ask, role: Role, prompt: Prompt, read: Callable[[Reply], T | HandedBack]
) -> T | HandedBack:
    """What a reply says; one that cannot be used is handed back once, with the reason."""
    first = ask(role, 1, prompt)
    found = _used(first, read)
    if not isinstance(found, HandedBack) or first.ending is Ending.REFUSED:
        return found
    return _used(ask(role, 2, prompt.followed(first.text, found.reason, ask.room(role))), read)


def _used(reply: Reply, read: Callable[[Reply], T | HandedBack]) -> T | HandedBack:
    if reply.ending is Ending.REFUSED:
        return HandedBack(code="refused", reason=reply.says)
    if not reply.text.strip():
        says = reply.says if reply.ending is Ending.EMPTY else "the reply holds no text"
        return HandedBack(code="no-text", reason=f"{says}{_limited(reply)}")
    found = read(reply)
    if isinstance(found, HandedBack) and reply.ending is Ending.TRUNCATED:
        return structs.replace(found, reason=f"{found.reason}{_limited(reply)}")
    return found


def _limited(reply: Reply) -> str:
    """That the answer, or the thinking before it, was longer than it may be."""
    if reply.ending is not Ending.TRUNCATED:
        return ""
    return "; it came to its limit of tokens (`reply_tokens`) before its end: answer shorter"
