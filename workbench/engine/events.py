"""What the engine says while it works; one JSON line each in the log and on the socket."""

from msgspec import Struct

from workbench.gate.records import StageReport
from workbench.session.records import Answer, Budget, Cost
from workbench.skills.records import Plan


class Event(Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events. `seq` counts from 1 over the whole session and never repeats."""

    seq: int = 0
    at: str = ""
    """UTC, ISO 8601 with milliseconds."""


class RunStarted(Event, frozen=True, kw_only=True, tag="run-started"):
    """An engine process took the session (also on resume)."""

    pid: int
    mode: str
    device: str
    target: str
    resumed: bool
    budget: Budget = Budget()
    """Of this run; `resume` may widen the one in `session.toml`."""


class PlanMade(Event, frozen=True, kw_only=True, tag="plan-made"):
    """The next step was chosen."""

    number: int
    parent: int
    plan: Plan


class StageStarted(Event, frozen=True, kw_only=True, tag="stage-started"):
    """A gate stage began on transition `number`."""

    number: int
    stage: str


class StageProgress(Event, frozen=True, kw_only=True, tag="stage-progress"):
    """A stage came further: `3 of 9 calls`. For meters; may be dropped."""

    number: int
    stage: str
    done: int
    total: int
    says: str = ""


class StageFinished(Event, frozen=True, kw_only=True, tag="stage-finished"):
    """A gate stage ended."""

    number: int
    report: StageReport


class DecisionWanted(Event, frozen=True, kw_only=True, tag="decision-wanted"):
    """A person must answer for transition `number`; survives a restart."""

    number: int


class DecisionTaken(Event, frozen=True, kw_only=True, tag="decision-taken"):
    """The answer for transition `number`."""

    number: int
    answer: Answer
    by: str
    reason: str = ""


class TransitionCommitted(Event, frozen=True, kw_only=True, tag="transition-committed"):
    """Transition `number` is in git under `refs/attempts/NNNN`."""

    number: int
    commit: str


class BudgetSpent(Event, frozen=True, kw_only=True, tag="budget-spent"):
    """Total spent so far, over all runs of the session."""

    steps: int
    cost: Cost


class RunPaused(Event, frozen=True, kw_only=True, tag="run-paused"):
    """The engine waits for `go` before the next step."""

    says: str = ""


class RunResumed(Event, frozen=True, kw_only=True, tag="run-unpaused"):
    """The engine goes on after a pause."""


class RunEnded(Event, frozen=True, kw_only=True, tag="run-ended"):
    """The engine left the session: `finished`, `budget`, `stopped` or `failed`."""

    how: str
    says: str


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """Something a person should know; `level` is `info`, `warning` or `error`."""

    level: str
    says: str


AnyEvent = (
    RunStarted
    | PlanMade
    | StageStarted
    | StageProgress
    | StageFinished
    | DecisionWanted
    | DecisionTaken
    | TransitionCommitted
    | BudgetSpent
    | RunPaused
    | RunResumed
    | RunEnded
    | Note
)
