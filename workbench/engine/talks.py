"""The engine's model calls: which model is asked, what it costs, which events tell of it."""

import random
import threading
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.agents.asking import Asker
from workbench.agents.exchange import Answered, Asked, Place
from workbench.agents.ledger import Ledger
from workbench.agents.memory import Memory, chain
from workbench.agents.model_settings import Models, key_of, load_models
from workbench.agents.model_stream import Kind
from workbench.agents.prices import load_prices, require_prices
from workbench.agents.records import NoCandidate, Role
from workbench.agents.roles.diagnoser import Refused
from workbench.agents.roles.reviewer import review
from workbench.agents.situation import Situation
from workbench.agents.step import carry_out, first_candidate, next_candidate
from workbench.engine import events as ev
from workbench.engine.history import History
from workbench.errors import WorkbenchError
from workbench.kernels.target import Target
from workbench.problems.records import Problem
from workbench.search.records import NoProposal, Proposal
from workbench.session.records import Budget, Cost
from workbench.skills.library import Library
from workbench.skills.records import Plan

FRUITLESS_ROUNDS = 5
"""Rounds towards one transition without a candidate after which no more is asked; ours."""
_PIECE_CHARACTERS = 240
_PIECE_SECONDS = 0.25
"""Pieces of a reply are put together until they are so long or so old."""


def ready_models(budget: Budget) -> Models:
    """The settings, with keys and prices. Raises WorkbenchError where one is missing."""
    models = load_models()
    for role in Role:
        key_of(models.of(role))
    if budget.usd is not None:
        require_prices(load_prices(), models.names())
    return models


class Talks:
    """One session's talks. Asking blocks, in a thread; costs may be asked for from another."""

    def __init__(self, state: Path, budget: Budget, emit: Callable[[ev.AnyEvent], None]) -> None:
        """Open the ledger; settings, keys and prices are looked for when a model is first asked."""
        self._budget = budget
        self._emit = emit
        self._rng = random.Random()  # noqa: S311 -- jitter between retries, no secret
        self._leaving = threading.Event()
        self._asking = threading.Lock()
        self._history = History()
        self._said: list[str] = []
        self._said_kind = ""
        self._said_at = 0.0
        self.ledger = Ledger(
            state, load_prices(), hear=self._hear, piece=self._piece, warn=self._warn
        )
        self.ledger.limit = budget.usd
        self.ledger.wall_limit = budget.wall_seconds

    @cached_property
    def _models(self) -> Models:
        return ready_models(self._budget)

    def close(self) -> None:
        """Wait no longer for a reply, and give the ledger back."""
        self._leaving.set()
        with self._asking:
            self.ledger.close()

    # -- costs ------------------------------------------------------------------------------

    def begin(self, history: History) -> None:
        """Tell the ledger where the session stands: what git holds is not counted again."""
        self._history = history
        self.ledger.number = history.next_number
        self.ledger.committed = history.cost.usd
        self.ledger.committed_seconds = history.cost.wall_seconds

    def open_cost(self) -> Cost:
        """What was spent since the last transition in git."""
        spent = self.ledger.open()
        return Cost(usd=spent.usd, wall_seconds=spent.seconds)

    def cost_of(self, number: int) -> Cost:
        """What the requests towards a transition cost."""
        spent = self.ledger.spent(number)
        return Cost(usd=spent.usd, wall_seconds=spent.seconds)

    def exchange(self, number: int) -> list[dict[str, Any]]:
        """The talks that led to a transition, as its commit keeps them."""
        return self.ledger.exchange(number)

    def rounds(self) -> int:
        """Rounds of the session that gave no candidate; they count as steps."""
        return self.ledger.all_rounds()

    def hint(self, number: int, text: str) -> None:
        """Keep a person's words for the prompts from a transition on."""
        self.ledger.hint(number, text)

    def hints(self, number: int) -> tuple[str, ...]:
        """What a person has said up to a transition, oldest first."""
        return self.ledger.hints(number)

    def says(self) -> str:
        """Everything that was spent on models, in a line."""
        return self.ledger.all().says()

    # -- asking -----------------------------------------------------------------------------

    def first(self, problem: Problem, library: Library, target: Target) -> tuple[str, str]:
        """Source and origin of a first candidate. Raises WorkbenchError when none is made."""
        history = self._history
        number = history.next_number
        earlier = review(history.transitions[-1].gate) if history.transitions else ""
        with self._asking:
            found = first_candidate(problem, library, target, self._asker(number), earlier)
        if isinstance(found, NoCandidate):
            self.ledger.fruitless(number, found.says)
            raise WorkbenchError(
                f"no first candidate: {found.says}", todo="start from one with --kernel FILE"
            )
        return found.source, f"model {self._models.of(Role.GENERATOR).model}"

    def next(
        self, situation: Situation, source_of: Callable[[int], str]
    ) -> Proposal | NoProposal | NoCandidate:
        """The next candidate. Raises BudgetEnds; WorkbenchError when no model can be reached."""
        number = self._history.next_number
        if given_up := self._given_up(number):
            return NoProposal(reason=given_up)
        # A round that could not mend what was refused is followed by a new plan.
        rounds = self.ledger.rounds(number)
        refused = None if rounds else refused_of(self._history, situation.memory, source_of)
        if refused is None and not situation.allowed:
            return NoProposal(reason="the policy allows no skill here, so a model is not asked")
        return self._round(number, lambda ask: next_candidate(situation, refused, ask))

    def carry_out(self, situation: Situation, plan: Plan) -> Proposal | NoProposal | NoCandidate:
        """The candidate of a plan that a person made; raises as `next`."""
        number = self._history.next_number
        if given_up := self._given_up(number):
            return NoProposal(reason=given_up)
        return self._round(number, lambda ask: carry_out(situation, plan, ask))

    def _given_up(self, number: int) -> str:
        """Why no more is asked towards a transition; empty while it is."""
        rounds = self.ledger.rounds(number)
        if rounds < FRUITLESS_ROUNDS:
            return ""
        why = self.ledger.last_fruitless(number)
        return f"the model gave no candidate in {rounds} rounds: {why}"

    def _round(
        self, number: int, work: Callable[[Asker], Proposal | NoCandidate]
    ) -> Proposal | NoCandidate:
        with self._asking:
            found = work(self._asker(number))
        if isinstance(found, NoCandidate):
            self.ledger.fruitless(number, found.says)
        return found

    def _asker(self, number: int) -> Asker:
        leaving = self._leaving.is_set
        return Asker(self._models, self.ledger, number=number, rng=self._rng, leaving=leaving)

    # -- telling ----------------------------------------------------------------------------

    def _hear(self, line: Asked | Answered) -> None:
        self._flush(line.number, line.role)
        if isinstance(line, Asked):
            self._emit(
                ev.ModelAsked(
                    number=line.number,
                    role=line.role.value,
                    model=line.model,
                    attempt=line.attempt,
                    prompt_tokens=line.prompt_tokens,
                    usd_at_most=line.usd_at_most,
                    because=line.because,
                )
            )
            return
        usage = line.reply.usage
        self._emit(
            ev.ModelAnswered(
                number=line.number,
                role=line.role.value,
                model=line.model,
                attempt=line.attempt,
                ending=line.reply.ending.value,
                says=line.reply.says,
                prompt_tokens=usage.prompt_tokens,
                reply_tokens=usage.reply_tokens,
                cached_tokens=usage.cached_tokens,
                counted=usage.source == "counted" and usage.prompt_tokens > 0,
                counts=usage.says,
                usd=line.usd,
                seconds=line.reply.seconds,
            )
        )

    def _piece(self, place: Place, kind: Kind, piece: str) -> None:
        if kind == "finish":
            return
        if kind != self._said_kind:
            self._flush(place.number, place.role)
        self._said_kind = kind
        self._said.append(piece)
        long = sum(map(len, self._said)) >= _PIECE_CHARACTERS
        if long or time.monotonic() - self._said_at >= _PIECE_SECONDS:
            self._flush(place.number, place.role)

    def _flush(self, number: int, role: Role) -> None:
        self._said_at = time.monotonic()
        if self._said:
            text = "".join(self._said)
            self._said.clear()
            self._emit(
                ev.ModelSaid(number=number, role=role.value, kind=self._said_kind, text=text)
            )

    def _warn(self, says: str) -> None:
        self._emit(ev.Note(level="warning", says=says))


def refused_of(history: History, memory: Memory, source_of: Callable[[int], str]) -> Refused | None:
    """The refused candidate that the next round mends; None when it begins with a plan."""
    links = chain(history.transitions)
    plan = links[-1].plan if links else None
    if plan is None:
        return None
    last = links[-1]
    numbers = {link.number for link in links[:-1]}
    return Refused(
        number=last.number,
        source=source_of(last.number),
        gate=last.gate,
        plan=plan,
        chain=tuple(a for a in memory.attempts if a.number in numbers),
    )
