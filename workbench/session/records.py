"""What a session repository holds: its settings, its transitions and what they cost."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from workbench.gate.records import GateReport
from workbench.measure.records import Speed, Time
from workbench.skills.records import Plan

FORMAT = 1
"""Of the session repository; a reader refuses a newer one by name."""


Baselined = Literal["eager", "both"]
"""What a measured kernel is told against: `both` also times torch.compile, once a day."""


Proposer = Literal["skills", "llm", "both"]
"""Who proposes steps: edits from cards, a model, or a model where no edit is left."""


class Mode(StrEnum):
    """Who says yes."""

    MANUAL = "manual"
    """A person starts every step and decides every candidate that the gate accepted."""
    REVIEW = "review"
    """Steps run by themselves; a person decides every candidate that the gate accepted."""
    AUTO = "auto"
    """The gate's verdict is the decision."""


class Budget(Struct, frozen=True, kw_only=True):
    """Limits of a run; None is no limit."""

    steps: int | None = None
    usd: float | None = None
    gpu_seconds: float | None = None
    wall_seconds: float | None = None
    goal: str | None = None
    """What ends the run as well: `1.5x` against the seed, or a time like `900us`; empty: none."""


class Cost(Struct, frozen=True, kw_only=True):
    """What something cost."""

    usd: float = 0.0
    gpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    """That the run worked; what was done side by side counts once."""
    ahead_seconds: float = 0.0
    """That workers spent on candidates begun before their turn and thrown away. Beside other work,
    so `wall_seconds` holds them already, and they count towards no limit a second time."""

    def plus(self, other: "Cost") -> "Cost":
        """The sum of both."""
        return Cost(
            usd=self.usd + other.usd,
            gpu_seconds=self.gpu_seconds + other.gpu_seconds,
            wall_seconds=self.wall_seconds + other.wall_seconds,
            ahead_seconds=self.ahead_seconds + other.ahead_seconds,
        )


class Answer(StrEnum):
    """What became of a candidate."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """By the gate."""
    VETOED = "vetoed"
    """By a person, although the gate accepted it."""


class Decision(Struct, frozen=True, kw_only=True):
    """Who answered what, and why."""

    answer: Answer
    by: Literal["gate", "person", "nobody"]
    reason: str = ""
    at: str = ""
    """UTC, ISO 8601."""


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`session.toml`: how the session was started."""

    format: int = FORMAT
    name: str
    kind: Literal["run", "lineage"] = "run"
    problem: str
    mode: Mode
    proposer: Proposer = "skills"
    baselines: Baselined = "eager"
    device: str
    """`cpu`, or the name of the GPU."""
    device_index: int | None = None
    target: str
    """`sm90`."""
    budget: Budget
    created: str
    """UTC, ISO 8601."""
    toolchain: dict[str, str] = {}
    ahead: int | None = None
    """Candidates begun beside the running one at most; None: as the machine allows."""
    device_indices: tuple[int, ...] = ()
    """All GPUs of a session that has several, `device_index` the first of them."""
    beam: int = 1
    """Candidates that are looked at before the best of them goes through the whole gate."""


class BackwardStep(Struct, frozen=True, kw_only=True):
    """Of a lineage session: how a step was found by walking back from an expert."""

    category: str
    """The mechanism: `persistent-programs`."""
    locus: str
    """Where in the kernel, in words that hold in other kernels too."""
    before: str
    """`normalized_sha256` of the kernel without the mechanism."""
    after: str
    """Of the kernel with it."""
    backward: str
    """Unified diff that takes it out."""
    forward: str = ""
    """Unified diff of the forward edit on the kernel without it; empty where it was not made."""
    same_text: bool = False
    """Whether the forward edit gives the very kernel that the walk came from."""
    predecessor: str = ""
    """What the gate said of the kernel without the mechanism."""
    roundtrip: str = ""
    """What the gate said of the forward edit's kernel beside the one that the walk came from."""
    ratio: float | None = None
    """Time of the kernel that the walk came from over that of the forward edit's."""
    generated: dict[str, tuple[int, int]] = {}
    """What is not the same in the compiler's code: (without, with) the mechanism."""
    leap: int = 1
    """Steps, from this one on, that pay only together: this one alone loses, and is there for those
    above it. 1 where it does not lose, or nothing above it makes up for it."""
    leap_speed: Speed | None = None
    """Of these steps as one, from the kernel without the first to the one with the last."""


class RungVisit(Struct, frozen=True, kw_only=True):
    """What became of a candidate at one rung of the ladder."""

    rung: str
    """`static`, `smoke`, `bench` or `profile`."""
    action: Literal["promote", "hold", "prune"]
    reason: str
    score: float = 0.0
    speed: Speed | None = None
    """Against the parent, as far as this rung tells."""
    time: Time | None = None
    """Of the candidate, likewise: modeled at `static`."""
    gpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    """Of this rung alone. Done before the candidate's turn, they are no part of its cost."""
    gpu: str = ""
    """Which GPU, as `GateReport.gpu`; empty where none was used."""
    asked: bool = True
    """False where it was left out, because it spares less than it takes."""


class Transition(Struct, frozen=True, kw_only=True):
    """`transition.toml`: one step parent -> candidate. Number 0 is the seed."""

    number: int
    parent: int | None = None
    """Number of the kernel it was made from; None for the seed."""
    plan: Plan | None = None
    """None for the seed."""
    gate: GateReport
    decision: Decision
    cost: Cost
    created: str
    """UTC, ISO 8601."""
    origin: str = ""
    """Where the source came from: `edit block-size`, `shipped seed`, `--kernel mine.py`."""
    backward: BackwardStep | None = None
    """Of a lineage session's steps; None in a run."""
    rungs: tuple[RungVisit, ...] = ()
    """How far it came on the ladder, lowest first."""
