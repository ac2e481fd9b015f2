"""What the engine says while it works; one JSON line each in the log and on the socket."""

from msgspec import Struct

from workbench.gate.records import StageReport
from workbench.session.records import Answer, Budget, Cost, RungVisit
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
    """Budget of this run; `resume` may widen the one in `session.toml`."""


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
    unproven: bool = False
    """Not kept since nobody could judge it, which is no fault of the candidate."""


class TransitionCommitted(Event, frozen=True, kw_only=True, tag="transition-committed"):
    """Transition `number` is in git under `refs/attempts/NNNN`."""

    number: int
    commit: str


class MainMoved(Event, frozen=True, kw_only=True, tag="main-moved"):
    """A person took accepted versions back, or went on from another one."""

    before: int
    to: int
    undone: tuple[int, ...] = ()
    commit: str
    """The commit under `refs/moves` that records it."""
    says: str


class RungReached(Event, frozen=True, kw_only=True, tag="rung-reached"):
    """Transition `number` was evaluated at a rung of the ladder, and what that means for it."""

    number: int
    visit: RungVisit


class AheadUsed(Event, frozen=True, kw_only=True, tag="ahead-used"):
    """Transition `number` was begun before its turn, and its gate goes on from there."""

    number: int
    seconds: float
    """Since it was begun, or that it took if it is done."""


class AheadDropped(Event, frozen=True, kw_only=True, tag="ahead-dropped"):
    """A candidate that was begun as `number` did not become it: it is thrown away."""

    number: int
    cost: Cost
    """Added to what is spent, with the next transition."""


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


class ModelAsked(Event, frozen=True, kw_only=True, tag="model-asked"):
    """A request goes to a model; the estimate is made before it is sent."""

    number: int
    """Number of the transition that it leads to."""
    role: str
    model: str
    attempt: int = 1
    prompt_tokens: int = 0
    """Estimated."""
    usd_at_most: float | None = None
    """Dollars with a reply of full length; None if the price is unknown."""
    because: str = ""
    """Why the reply before was handed back; empty on a first turn."""


class ModelSaid(Event, frozen=True, kw_only=True, tag="model-said"):
    """More of a reply arrived. For a screen to show; may be dropped."""

    number: int
    role: str
    kind: str
    """`reasoning` or `text`."""
    text: str


class ModelAnswered(Event, frozen=True, kw_only=True, tag="model-answered"):
    """A request ended, and what it cost."""

    number: int
    role: str
    model: str
    attempt: int = 1
    ending: str = ""
    """`complete`, `truncated`, `rate limited`, ..."""
    says: str = ""
    """The fault, where there was one."""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    cached_tokens: int = 0
    counted: bool = False
    """The tokens are our estimate, because the provider's counts were absent or absurd."""
    counts: str = ""
    """Why the provider's counts were not taken."""
    usd: float | None = None
    """None where the price is unknown."""
    seconds: float = 0.0


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
    | MainMoved
    | RungReached
    | AheadUsed
    | AheadDropped
    | BudgetSpent
    | RunPaused
    | RunResumed
    | RunEnded
    | ModelAsked
    | ModelSaid
    | ModelAnswered
    | Note
)
