"""Asks a model for removals that no inverse edit finds, and for the way back; keeps each exchange.

The same client, reply parser, journal and dollar limit as in a session that proposes by a model: an
answer that was paid for is never paid for again, also after a walk's process has died.
"""

import random
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from workbench.agents.asking import Asker, fitting, in_two_turns
from workbench.agents.ledger import Ledger
from workbench.agents.model_settings import Models
from workbench.agents.prices import load_prices
from workbench.agents.prompts import DoesNotFit
from workbench.agents.records import BudgetEnds, Role
from workbench.agents.reply_records import HandedBack, Parsed
from workbench.agents.roles.remover import (
    About,
    Removal,
    read_removal,
    read_restored,
    removal_prompt,
    restorer_prompt,
)
from workbench.engine.talks import ready_models
from workbench.kernels.source import normalized_sha256, read_source
from workbench.lineage.ideas import Idea, NoIdea, NoWayBackError
from workbench.lineage.records import Attempt
from workbench.session.records import Budget

T = TypeVar("T")


class Suggesting:
    """The ideas of one walk, by the model of `config.toml`."""

    def __init__(
        self,
        state: Path,
        budget: Budget,
        about: Callable[[], About],
        earlier: Sequence[Attempt],
        warn: Callable[[str], None],
    ) -> None:
        """`earlier` are the attempts of the walk so far, which may be another session's."""
        self._budget = budget
        self._about = about
        self._leaving = threading.Event()
        self.ledger = Ledger(state, load_prices(), warn=warn)
        self.ledger.limit = budget.usd
        spent = sum(one.cost.usd for one in earlier)
        # What this session's own journal holds is counted from there.
        self.ledger.committed = max(0.0, spent - self.ledger.all().usd)

    @cached_property
    def _models(self) -> Models:
        return ready_models(self._budget)

    def close(self) -> None:
        """Wait no longer for a reply, and give the ledger back."""
        self._leaving.set()
        self.ledger.close()

    def exchange(self, number: int) -> list[dict[str, Any]]:
        """The talks about the attempt of that number, from 1, as a commit keeps them."""
        return self.ledger.exchange(number)

    def removal(self, state: str, left: Sequence[str], tried: Sequence[Attempt]) -> Idea | NoIdea:
        """See `lineage.ideas`."""
        number, about = len(tried) + 1, self._about()
        ask = self._asker(number)
        told = [_told(one) for one in tried]
        known = {normalized_sha256(one.source): one for one in tried}

        def asked() -> Removal | HandedBack:
            prompt = removal_prompt(about, state, left, told, ask.room(Role.REMOVER))
            found = in_two_turns(
                ask, Role.REMOVER, prompt, lambda reply: read_removal(reply, about.problem, state)
            )
            if isinstance(found, HandedBack) or not found.mechanism:
                return found
            again = known.get(normalized_sha256(found.source))
            return found if again is None else HandedBack(code="known-source", reason=_told(again))

        try:
            found = _fitted(ask, asked)
        except BudgetEnds as over:
            return NoIdea(says=f"a model is not asked: {over}", spent=True)
        if isinstance(found, HandedBack):
            self.ledger.fruitless(number, found.reason)
            return NoIdea(says=f"the model's reply could not be used: {found.reason}")
        if not found.mechanism:
            return NoIdea(says="the model finds nothing either")
        launched = read_source(state).launched
        return Idea(
            category=found.mechanism,
            locus=found.at,
            kernel=next((k for k in launched if k in f"{found.at} {found.says}"), launched[0]),
            says=found.says or found.mechanism.replace("-", " "),
            source=found.source,
            by=self._models.of(Role.REMOVER).model,
            usd=self.ledger.spent(number).usd,
        )

    def forward(self, idea: Idea, target: str, tried: int) -> tuple[str, float]:
        """See `lineage.ideas`."""
        number, about = tried + 1, self._about()
        before = self.ledger.spent(number).usd
        ask = self._asker(number)
        removal = Removal(mechanism=idea.category, at=idea.locus, says=idea.says)

        def asked() -> Parsed | HandedBack:
            prompt = restorer_prompt(about, idea.source, removal, target, ask.room(Role.RESTORER))
            return in_two_turns(
                ask,
                Role.RESTORER,
                prompt,
                lambda reply: read_restored(reply, about.problem, idea.source),
            )

        try:
            found = _fitted(ask, asked)
        except BudgetEnds as over:
            raise NoWayBackError(f"a model is not asked: {over}") from over
        if isinstance(found, HandedBack):
            raise NoWayBackError(found.reason)
        return found.source, self.ledger.spent(number).usd - before

    def _asker(self, number: int) -> Asker:
        rng = random.Random()  # noqa: S311 -- jitter between retries, no secret
        return Asker(
            self._models, self.ledger, number=number, rng=rng, leaving=self._leaving.is_set
        )


def _fitted(ask: Asker, work: Callable[[], T | HandedBack]) -> T | HandedBack:
    """Do the work in prompts that fit; handed back where none does."""
    try:
        return fitting(ask, work)
    except DoesNotFit as fault:
        return HandedBack(code="does-not-fit", reason=str(fault))


def _told(one: Attempt) -> str:
    """One attempt as a model reads it."""
    where = f" at {one.locus}" if one.locus else ""
    end = "taken out" if one.accepted else f"refused: {one.why}"
    return f"{one.category}{where} ({one.says}): {end}"
