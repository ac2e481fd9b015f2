"""Snapshots of a session for screens and printers, built from git and the event log."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from workbench.gate.records import Outcome, Stage, Verdict
from workbench.lineage.records import bottom
from workbench.measure.baselines import Baselines
from workbench.measure.records import Speed, Time
from workbench.session.names import spoken
from workbench.session.records import Answer, Budget, Cost, RungVisit
from workbench.skills.records import Plan


class State(StrEnum):
    """What the session is doing."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "your review"
    """A version waits for a person's decision."""
    PAUSED = "paused"
    FINISHED = "finished"
    STOPPED = "stopped"
    BUDGET = "budget spent"
    FAILED = "failed"
    SAVED = "saved"
    """No engine runs; the session was opened from git."""
    LOST = "interrupted"
    """The engine died without a message; `resume` continues."""


class Version(Struct, frozen=True, kw_only=True):
    """One row of the lineage."""

    number: int
    parent: int | None
    commit: str
    title: str
    verdict: Verdict
    stage: Stage
    """Where the gate ended."""
    code: str
    answer: Answer
    speed_vs_seed: Speed | None
    speed_vs_parent: Speed | None
    time: Time | None = None
    card: str = ""
    best: bool = False
    accepted_line: bool = False
    """Whether it is on `main`."""
    ladder: str = ""
    """Its visits to the rungs of the ladder: `static promote, smoke prune`."""
    undone: bool = False
    """Whether it was accepted and then taken back by a person; its answer is then `vetoed`."""


class StripStage(Struct, frozen=True, kw_only=True):
    """One stage in the gate strip."""

    stage: Stage
    outcome: Outcome | None
    """None if it has not begun or is running."""
    running: bool = False
    seconds: float = 0.0
    says: str = ""
    """`3 of 9 calls` while running, the report's line when done."""


class Climber(Struct, frozen=True, kw_only=True):
    """One candidate on the ladder."""

    number: int
    visits: tuple[RungVisit, ...]
    """Lowest rung first."""


class LogLine(Struct, frozen=True, kw_only=True):
    """One line of the log of events, for a person."""

    at: str
    """UTC, ISO 8601."""
    level: str
    """`info`, `warning` or `error`."""
    says: str
    news: bool = False
    """Whether a screen should also show it as a message."""


class Talk(Struct, frozen=True, kw_only=True):
    """The running request to a model, or else the last one."""

    number: int
    role: str
    model: str
    running: bool = True
    says: str = ""
    """`about 12,400 tokens, at most $0.21`, then how it ended."""
    reasoning: str = ""
    """The end of what the model thought aloud."""
    text: str = ""
    """The end of its answer."""


def in_steps(count: int) -> str:
    """A number of steps in words: `1 step`, `5 steps`."""
    return "1 step" if count == 1 else f"{count} steps"


class Snapshot(Struct, frozen=True, kw_only=True):
    """The state of a session at one moment."""

    revision: int
    """Increases with every change."""
    name: str
    path: str
    kind: str = "run"
    """`run`, or `lineage` for an expert taken apart by `learn`."""
    unwritten: int = 0
    """Number of removals judged by a lineage's walk whose chain is not in git yet."""
    unread: tuple[str, ...] = ()
    """Sentences about parts of the session in git that cannot be read."""
    problem: str
    size: str = ""
    """The values at which the problem is judged, if smaller than in its file; else empty."""
    device: str
    target: str
    mode: str
    state: State
    says: str = ""
    """Why it is in this state; empty if there is nothing to say."""
    engine_pid: int | None = None
    versions: tuple[Version, ...] = ()
    """Committed versions in order of number."""
    current: int | None = None
    """Number of the transition that the strip shows."""
    strip: tuple[StripStage, ...] = ()
    plan: Plan | None = None
    """The plan of `current`."""
    pending: int | None = None
    """Number of the transition that waits for a decision."""
    baselines: Baselines | None = None
    """The baselines in the first kernel's report."""
    best: int | None = None
    incumbent: int | None = None
    budget: Budget = Budget()
    steps: int = 0
    """Steps done, the seed not counted."""
    spent: Cost = Cost()
    gpu_seconds: dict[str, float] = {}
    """GPU-seconds of what is in git, by what they were for; without what took none."""
    elapsed_seconds: float = 0.0
    """Seconds of work over all runs of the session."""
    climbers: tuple[Climber, ...] = ()
    """The latest candidates that visited a rung, in order of number."""
    talk: Talk | None = None
    """None if no model has been asked."""
    log: tuple[LogLine, ...] = ()
    """The latest 200 lines."""

    @property
    def bottom(self) -> str:
        """The kind of a lineage's first kernel: `naive` if its walk was complete, else `start`."""
        return bottom(self.versions[0].title if self.versions else "")


def unwritten_lines(snapshot: Snapshot) -> list[str]:
    """Lines about a walk whose chain is not in git: what it judged, and how to write the chain.

    Empty for every other session.
    """
    count, name = snapshot.unwritten, spoken(Path(snapshot.path))
    if not count:
        return []
    if snapshot.engine_pid is not None:
        return [f"{count} removals are judged; their chain is written when the walk ends"]
    return [
        f"{count} removals were judged, and their chain is not in git:",
        f"workbench learn --session {name} --stop writes it; without --stop the walk goes on",
    ]
