"""One moment of a session as screens and printers need it; built from git and the event log."""

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
    """A decision is wanted."""
    PAUSED = "paused"
    FINISHED = "finished"
    STOPPED = "stopped"
    BUDGET = "budget spent"
    FAILED = "failed"
    SAVED = "saved"
    """No engine runs; opened from git."""
    LOST = "interrupted"
    """The engine died without saying so; `resume` goes on."""


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
    """On `main`."""
    ladder: str = ""
    """`static promote, smoke prune`: how far it came, and what became of it there."""
    undone: bool = False
    """Accepted once, and taken back by a person; its answer reads `vetoed`."""


class StripStage(Struct, frozen=True, kw_only=True):
    """One stage in the gate strip."""

    stage: Stage
    outcome: Outcome | None
    """None: not begun, or running when `running`."""
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
    level: str
    says: str
    news: bool = False
    """Worth more than a line: a screen shows it once where the person looks."""


class Talk(Struct, frozen=True, kw_only=True):
    """The request to a model that is running, or the newest."""

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


class Snapshot(Struct, frozen=True, kw_only=True):
    """One moment of a session."""

    revision: int
    """Goes up with every change."""
    name: str
    path: str
    kind: str = "run"
    """`lineage`: an expert taken apart by `learn`."""
    unwritten: int = 0
    """Of a lineage whose chain is not whole in git: removals that its walk has judged."""
    unread: tuple[str, ...] = ()
    """What git has under the session's names and cannot be used, a sentence each."""
    problem: str
    size: str = ""
    """Where the problem was made smaller than its file: the values it is judged at."""
    device: str
    target: str
    mode: str
    state: State
    says: str = ""
    """Why it is in this state, where there is something to say."""
    engine_pid: int | None = None
    versions: tuple[Version, ...] = ()
    """By number, ascending."""
    current: int | None = None
    """The transition the strip is about."""
    strip: tuple[StripStage, ...] = ()
    plan: Plan | None = None
    """Of `current`."""
    pending: int | None = None
    """The transition that waits for a decision."""
    baselines: Baselines | None = None
    """What there is to beat, as the first kernel's report has it."""
    best: int | None = None
    incumbent: int | None = None
    budget: Budget = Budget()
    steps: int = 0
    spent: Cost = Cost()
    elapsed_seconds: float = 0.0
    """Wall time over all runs of the session."""
    climbers: tuple[Climber, ...] = ()
    """The newest candidates that came to a rung, by number."""
    talk: Talk | None = None
    """None while no model was asked."""
    log: tuple[LogLine, ...] = ()
    """The newest 200."""

    @property
    def bottom(self) -> str:
        """What a lineage's first kernel is: `naive` where its walk was complete, else `start`."""
        return bottom(self.versions[0].title if self.versions else "")


def unwritten_lines(snapshot: Snapshot) -> list[str]:
    """Of a walk whose chain is not in git: what it judged, and the command that builds the chain.

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
