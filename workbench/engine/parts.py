"""What the loop needs of everything around it: store, workplace, purse."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from workbench.agents.records import NoCandidate
from workbench.engine.history import History
from workbench.engine.wishes import Choose
from workbench.gate.records import GateReport
from workbench.search.records import NoProposal, Proposal
from workbench.session.moves import Move
from workbench.session.queue import Queued, Seen
from workbench.session.records import Cost, Decision, RungVisit, Transition
from workbench.session.spends import Spend
from workbench.session.worktree import WorktreeState
from workbench.skills.records import Plan


class Store(Protocol):
    """What the loop needs of a session repository; every method returns once it is durable."""

    @property
    def state(self) -> Path:
        """The folder of the session's journals."""

    @property
    def worktree(self) -> WorktreeState:
        """How the files in the session's folder stand to `main` since the last call."""

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

    def record_spend(self, spend: Spend) -> None:
        """Keep what was spent beside the versions."""

    def move_main(self, move: Move) -> str:
        """Make another version the incumbent; returns the id of the commit that records it."""

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
        """The prompts and replies that led to a transition."""

    def rounds(self) -> int:
        """Rounds of the session that gave no candidate; they count as steps."""

    def hint(self, number: int, text: str) -> None:
        """Add a person's hint to every prompt from this transition on."""

    def begin(self, history: History) -> None:
        """Take note of the session's present history."""

    def says(self) -> str:
        """Everything that was spent, in one line of text."""


class Chooser(Protocol):
    """What the loop needs of a person's choices of the next step; both block, in a thread."""

    def choose(self, wish: Choose) -> str:
        """Note a choice; returns what is done about it. Raises WorkbenchError for a wrong one."""

    def next(self, history: History) -> Proposal | NoCandidate | None:
        """The step that was asked for; None where none was, or it cannot be made, which is told."""


class Judged(Struct, frozen=True, kw_only=True):
    """What became of a candidate before the gate."""

    report: GateReport
    rungs: tuple[RungVisit, ...] = ()
    """How far it came on the ladder."""


class Look(Struct, frozen=True, kw_only=True):
    """What ranks a candidate beside others."""

    action: Literal["promote", "hold", "prune"]
    """`prune`: to be finished, which costs no more; `hold`: to be put aside."""
    reason: str
    score: float
    """`search.rungs.Standing.score`."""


class GivenUp(Exception):
    """Nobody waits for this candidate any more."""


class Sitting(Protocol):
    """One candidate before the gate. `begin` and `finish` block, in a thread, once and in order."""

    def begin(self) -> None:
        """Do what may be done before its turn. Raises GivenUp, and WorkbenchError as `finish`."""

    def attend(self) -> None:
        """Its turn has come: pass on the events held back so far, and later ones as they happen."""

    def finish(self, history: History) -> Judged:
        """What became of it, with what is committed by now. Raises WorkbenchError when no worker
        can start."""

    def called(self, number: int) -> None:
        """Give it the number of its transition, whatever it was begun as; before `attend`."""

    def look(self) -> Look:
        """After `begin`: what ranks it. `finish` may still follow."""

    def recall(self, seen: Seen) -> None:
        """Before `begin`: reuse what an earlier engine found instead of measuring again."""

    @property
    def seen(self) -> Seen | None:
        """After `look`: what a GPU found; None where none was asked."""

    def put_aside(self, code: str, says: str) -> Judged:
        """After `look`: what became of it, when others go first."""

    def give_up(self) -> None:
        """Cancel it; may be called from any thread."""

    @property
    def gpu_seconds(self) -> float:
        """Spent so far."""


class Workplace(Protocol):
    """What the loop needs of everything that runs candidates; methods block, in a thread."""

    @property
    def talks(self) -> Purse | None:
        """Where models are asked; None in a session that asks none."""

    def seed(self) -> tuple[str, str]:
        """The seed's source and where it came from. Raises WorkbenchError when there is none."""

    @property
    def depth(self) -> int:
        """Candidates that may be begun beside the running one; 0: no looking ahead."""

    @property
    def beam(self) -> int:
        """Candidates that are looked at before the best of them is gated; 1: no beam."""

    def keep_queue(self, queue: Sequence[Queued]) -> None:
        """Write down which candidates are open; durable when it returns."""

    def queue(self) -> Sequence[Queued]:
        """Candidates that were open when an engine last wrote them down."""

    def held(self, history: History) -> Proposal | None:
        """A candidate that was put aside and comes back when nothing else helps."""

    def sit(self, source: str, history: History, number: int, plan: Plan | None) -> Sitting:
        """A candidate before the gate, against the incumbent unless it is a seed, which has no
        plan. Does not block."""

    @property
    def last_look_price(self) -> Cost | None:
        """What a last look is likely to take; None where nothing can look."""

    def last_look(self, version: Transition) -> GateReport | None:
        """The checks of the top rung except for its timing; None where they cannot run."""

    @property
    def chooser(self) -> Chooser | None:
        """Takes down what a person wants next, and makes it; None where nobody may choose."""

    def propose(self, history: History) -> Proposal | NoProposal | NoCandidate:
        """The next step from the incumbent. Raises BudgetEnds where a model costs too much."""

    def foresee(self, history: History, drafts: Mapping[int, str]) -> Proposal | NoProposal:
        """The next step if this were the history; asks no model.

        `drafts` are sources of its versions that git does not hold.
        """
