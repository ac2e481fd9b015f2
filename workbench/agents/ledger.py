"""The ledger of a session's model calls: charges the budget, keeps replies, pays for none twice.

A request is on disk before it is sent and its reply before it is used; pieces are written as they
arrive. After a death the reply that had arrived whole is taken as it is; of one that had not, what
arrived is counted at its price, and the question is asked again.
"""

import os
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import structs

from workbench.agents.exchange import (
    ARRIVING,
    JOURNAL,
    LOST,
    Answered,
    AnyLine,
    Asked,
    Fruitless,
    Hinted,
    Place,
    Spent,
    final,
    place_of,
    spent,
)
from workbench.agents.model_settings import ModelSettings
from workbench.agents.model_stream import Gathered, Kind, ended
from workbench.agents.prices import Prices
from workbench.agents.prompts import Prompt
from workbench.agents.records import BudgetEnds, Reply, Role, Usage
from workbench.agents.tokens import estimate, estimate_prompt
from workbench.errors import WorkbenchError
from workbench.session.journal import Journal, Records, read_records

WARNINGS = (0.5, 0.8)
"""Shares of a dollar budget at which a person is told."""

Hear = Callable[[Asked | Answered], None]
Piece = Callable[[Place, Kind, str], None]
Warn = Callable[[str], None]


class Ledger:
    """The writing end; its owner holds the session's lock. Used from one thread at a time."""

    def __init__(
        self,
        state: Path,
        prices: Prices,
        *,
        hear: Hear | None = None,
        piece: Piece | None = None,
        warn: Warn | None = None,
    ) -> None:
        """Open the journal and settle what a dead process left. WorkbenchError: not writable."""
        self._prices = prices
        self._hear = hear
        self._piece = piece
        self._warn = warn
        self._arriving = state / ARRIVING
        self._stream = -1
        self._writing = threading.Lock()
        self._journal = Journal(state / JOURNAL)
        found = read_journal(state)
        self.lines = list(found.records)
        if found.damaged and warn is not None:
            says = f"{found.damaged} lines of {state / JOURNAL} cannot be read"
            warn(f"{says}: what they cost is counted in git alone")
        self.limit: float | None = None
        """Dollars that the session may spend."""
        self.committed = 0.0
        """Dollars of the transitions that git holds, which are not counted here again."""
        self.wall_limit: float | None = None
        """Seconds of work that the session may take."""
        self.committed_seconds = 0.0
        """Seconds of what git holds."""
        self._waited = 0.0
        self.number = 0
        """Of the transition that is being worked on; earlier ones are in `committed`."""
        self._settle()

    def close(self) -> None:
        """Give the files back."""
        self._end_stream()
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- what is known ----------------------------------------------------------------------

    def answer(self, place: Place) -> Reply | None:
        """The reply that was paid for at this place; None when it is still to be asked."""
        for line in reversed(self.lines):
            if isinstance(line, Answered) and place_of(line) == place and final(line):
                return line.reply
        return None

    def of(self, number: int) -> list[AnyLine]:
        """Everything that led to one transition."""
        return [line for line in self.lines if line.number == number]

    def spent(self, number: int) -> Spent:
        """What one transition cost in requests."""
        return spent(self.of(number))

    def open(self) -> Spent:
        """What was spent since the last transition in git."""
        return spent(line for line in self.lines if line.number >= self.number)

    def unseen(self) -> float:
        """Dollars that requests may have cost beyond what is counted: a reply that broke off, or
        came without believable counts, may have had as many tokens as were asked for.
        """
        dollars = 0.0
        at_most: float | None = None
        for line in self.lines:
            if isinstance(line, Asked):
                at_most = line.usd_at_most
            elif isinstance(line, Answered) and at_most is not None:
                usage = line.reply.usage
                if usage.source == "counted" and usage.prompt_tokens:
                    dollars += max(0.0, at_most - (line.usd or 0.0))
                at_most = None
        return dollars

    def rounds(self, number: int) -> int:
        """Rounds towards a transition that gave no candidate."""
        return sum(isinstance(line, Fruitless) for line in self.of(number))

    def all_rounds(self) -> int:
        """Rounds of the whole session that gave no candidate."""
        return sum(isinstance(line, Fruitless) for line in self.lines)

    def last_fruitless(self, number: int) -> str:
        """Why the newest round towards a transition gave no candidate."""
        return next(
            (line.says for line in reversed(self.of(number)) if isinstance(line, Fruitless)), ""
        )

    def all(self) -> Spent:
        """What the whole session spent on requests."""
        return spent(self.lines)

    def hints(self, number: int) -> tuple[str, ...]:
        """What a person has said up to a transition, oldest first."""
        return hints_of(self.lines, number)

    def exchange(self, number: int) -> list[dict[str, Any]]:
        """The lines of one transition as its commit keeps them."""
        return [msgspec.to_builtins(line) for line in self.of(number)]

    # -- what is written --------------------------------------------------------------------

    def hint(self, number: int, text: str) -> None:
        """Keep a person's words for the prompts from transition `number` on."""
        self._append(Hinted(number=number, text=text))

    def fruitless(self, number: int, says: str) -> None:
        """Note that a round gave no candidate."""
        self._append(Fruitless(number=number, round=self.rounds(number) + 1, says=says))

    def ask(self, place: Place, settings: ModelSettings, prompt: Prompt, attempt: int) -> None:
        """Write a request down before it is sent. Raises BudgetEnds when it cannot be afforded."""
        tokens = estimate_prompt(prompt.messages)
        whole = Usage(prompt_tokens=tokens, reply_tokens=settings.reply_tokens)
        least = self._prices.cost(settings.model, Usage(prompt_tokens=tokens))
        self._afford(least)
        asked = Asked(
            number=place.number,
            round=place.round,
            role=place.role,
            turn=place.turn,
            attempt=attempt,
            model=settings.model,
            messages=prompt.messages if attempt == 1 else (),
            version=prompt.version,
            trimmed=prompt.trimmed,
            because=prompt.because,
            prompt_tokens=tokens,
            usd_at_most=self._prices.cost(settings.model, whole),
        )
        self._begin_stream()
        self._append(asked)
        if self._hear is not None:
            self._hear(asked)

    def heard(self, place: Place, kind: Kind, piece: str) -> None:
        """Keep a piece of the reply that is arriving."""
        try:
            os.write(self._stream, msgspec.json.encode((kind, piece)) + b"\n")
        except OSError as fault:
            raise self._unwritable(fault) from fault
        if self._piece is not None:
            self._piece(place, kind, piece)

    def answered(self, place: Place, model: str, attempt: int, reply: Reply) -> None:
        """Keep a reply, and tell when a share of the budget is passed."""
        before = self.committed + self.open().usd
        line = Answered(
            number=place.number,
            round=place.round,
            role=place.role,
            turn=place.turn,
            attempt=attempt,
            model=model,
            reply=reply,
            usd=self._prices.cost(model, reply.usage),
        )
        self._append(line)
        self._end_stream()
        if self._hear is not None:
            self._hear(line)
        self._warn_at(before, self.committed + self.open().usd)

    def waits(self, seconds: float, says: str) -> None:
        """Tell that a passing fault is waited out, and count the seconds."""
        self._waited += seconds
        if self._warn is not None:
            self._warn(says)

    # -- pieces -----------------------------------------------------------------------------

    def _append(self, line: AnyLine) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        kept: list[AnyLine] = []

        def encode(seq: int) -> bytes:
            kept.append(structs.replace(line, seq=seq, at=at))
            return msgspec.json.encode(kept[-1])

        # A person's hint may come while a model is being asked.
        with self._writing:
            self._journal.append(encode, durable=True)
            self.lines.append(kept[-1])

    def _afford(self, least: float | None) -> None:
        """A request is sent while its prompt alone fits and there is time: the last reply may pass
        a limit, and none before it, whatever was not counted.
        """
        seconds = self.committed_seconds + self.open().seconds + self._waited
        if self.wall_limit is not None and seconds >= self.wall_limit:
            raise BudgetEnds(f"{seconds:.0f} of {self.wall_limit:.0f} seconds are spent")
        if self.limit is None:
            return
        spent_by_now, unseen = self.committed + self.open().usd, self.unseen()
        if spent_by_now + unseen + (least or 0.0) >= self.limit:
            more = f", ${unseen:.4f} more may be (replies without counts)" if unseen else ""
            raise BudgetEnds(
                f"${spent_by_now:.4f} of ${self.limit:.4f} are spent{more}, and the next prompt"
                f" costs ${least or 0.0:.4f}"
            )

    def _warn_at(self, before: float, after: float) -> None:
        if self.limit is None or self._warn is None:
            return
        passed = [s for s in WARNINGS if before < s * self.limit <= after]
        if passed:
            self._warn(
                f"{passed[-1]:.0%} of the budget is spent: ${after:.4f} of ${self.limit:.4f}"
            )

    def _begin_stream(self) -> None:
        self._end_stream()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._stream = os.open(self._arriving, flags, 0o600)
        except OSError as fault:
            raise self._unwritable(fault) from fault

    def _unwritable(self, fault: OSError) -> WorkbenchError:
        return WorkbenchError(
            f"a model's reply cannot be kept: {fault.strerror}",
            where=str(self._arriving),
            todo="free some space or make the folder writable, then `workbench resume`",
        )

    def _end_stream(self) -> None:
        if self._stream >= 0:
            os.close(self._stream)
            self._stream = -1

    def _settle(self) -> None:
        """Answer the request that was on its way when the process died, with what had arrived."""
        requests = [line for line in self.lines if isinstance(line, Asked | Answered)]
        if not requests or isinstance(requests[-1], Answered):
            return
        asked = requests[-1]
        gathered = self._arrived()
        usage = Usage(
            prompt_tokens=asked.prompt_tokens,
            reply_tokens=estimate(gathered.reasoning + gathered.text),
            says="the workbench ended before the provider's counts came",
        )
        reply = structs.replace(
            LOST, usage=usage, text=gathered.text, reasoning=gathered.reasoning, model=asked.model
        )
        if gathered.finish:
            fault = ended(gathered)
            reply = structs.replace(reply, ending=fault.ending, says=fault.says)
        self.answered(place_of(asked), asked.model, asked.attempt, reply)

    def _arrived(self) -> Gathered:
        """What the dead process had received."""
        gathered = Gathered(1 << 30, lambda _kind, _piece: None)
        found = read_records(self._arriving, tuple[Kind, str])
        for kind, piece in found.records:
            gathered.add(kind, piece)
        gathered.events = max(1, len(found.records))
        return gathered


def read_journal(state: Path) -> Records[AnyLine]:
    """Every whole line of a session's journal, and how many cannot be read; changes nothing."""
    found: Records[AnyLine] = read_records(state / JOURNAL, AnyLine)  # type: ignore[arg-type]  # msgspec decodes unions, which are no `type`
    return found


def read_lines(state: Path) -> list[AnyLine]:
    """Every whole line of a session's journal that can be read; changes nothing."""
    return list(read_journal(state).records)


def hints_of(lines: Iterable[AnyLine], number: int) -> tuple[str, ...]:
    """What a person has said up to a transition, oldest first."""
    return tuple(x.text for x in lines if isinstance(x, Hinted) and x.number <= number)


def spent_by_role(lines: Iterable[AnyLine]) -> dict[Role, Spent]:
    """What the requests of each role cost, for the roles that asked."""
    answered = [line for line in lines if isinstance(line, Answered)]
    return {role: spent(mine) for role in Role if (mine := [x for x in answered if x.role is role])}


class LedgerMeter:
    """What `Model.ask` reports about the requests at one place."""

    def __init__(
        self, ledger: Ledger, place: Place, settings: ModelSettings, prompt: Prompt
    ) -> None:
        self._ledger = ledger
        self._place = place
        self._settings = settings
        self._prompt = prompt

    def asking(self, attempt: int) -> None:
        """Write it down first. Raises BudgetEnds."""
        self._ledger.ask(self._place, self._settings, self._prompt, attempt)

    def heard(self, kind: Kind, piece: str) -> None:
        """Keep what arrives."""
        self._ledger.heard(self._place, kind, piece)

    def answered(self, attempt: int, reply: Reply) -> None:
        """Keep the reply."""
        self._ledger.answered(self._place, self._settings.model, attempt, reply)

    def waiting(self, seconds: float, reply: Reply) -> None:
        """Say why nothing happens."""
        self._ledger.waits(
            seconds,
            f"{self._settings.model}: {reply.ending} ({reply.says}); again in {seconds:.1f} s",
        )
