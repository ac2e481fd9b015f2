"""What the loop needs of everything around it: store, workplace, purse."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from workbench.agents.records import NoCandidate
from workbench.engine.history import History
from workbench.gate.records import GateReport
from workbench.search.records import NoProposal, Proposal
from workbench.session.moves import Move
from workbench.session.records import Cost, Decision, Transition


class Store(Protocol):
    """What the loop needs of a session repository; every method returns once it is durable."""

    def record(
        self,
        transition: Transition,
        source: str,
        *,
        exchange: Sequence[Mapping[str, Any]] = (),
        best: bool = False,
    ) -> str:
        """Commit a decided transition; returns the commit id."""

    def record_pending(
        self, transition: Transition, source: str, *, exchange: Sequence[Mapping[str, Any]] = ()
    ) -> str:
        """Commit a transition that waits for a person."""

    def decide(self, number: int, decision: Decision, *, best: bool = False) -> str:
        """Finish a pending transition; returns the final commit id."""

    def move_main(self, move: Move) -> str:
        """Make another version the incumbent; returns the telling commit's id."""

    def transition(self, number: int) -> Transition:
        """The record of a version as it stands now."""

    def source(self, number: int) -> str:
        """`kernel.py` of a transition."""


class Purse(Protocol):
    """What the loop needs of talks with models."""

    def open_cost(self) -> Cost:
        """What was spent since the last transition in git."""

    def cost_of(self, number: int) -> Cost:
        """What the requests towards a transition cost."""

    def exchange(self, number: int) -> list[dict[str, Any]]:
        """The talks that led to a transition."""

    def rounds(self) -> int:
        """Rounds of the session that gave no candidate; they count as steps."""

    def hint(self, number: int, text: str) -> None:
        """Keep a person's words for the prompts from a transition on."""

    def begin(self, history: History) -> None:
        """Hear where the session stands."""

    def says(self) -> str:
        """Everything that was spent, in a line."""


class Workplace(Protocol):
    """What the loop needs of everything that runs candidates; methods block, in a thread."""

    @property
    def talks(self) -> Purse | None:
        """Where models are asked; None in a session that asks none."""

    def seed(self) -> tuple[str, str]:
        """The seed's source and where it came from. Raises WorkbenchError when there is none."""

    def gate(self, source: str, parent: Transition | None, number: int) -> GateReport:
        """The gate's report on a candidate, against its parent when there is one."""

    def propose(self, history: History) -> Proposal | NoProposal | NoCandidate:
        """The next step from the incumbent. Raises BudgetEnds where a model costs too much."""
