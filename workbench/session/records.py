"""Records in a session's repository: its settings, transitions, decisions and costs."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from workbench.gate.records import GateReport
from workbench.measure.records import Speed, Time
from workbench.skills.records import Plan

FORMAT = 1
"""Version of the repository's format; a reader refuses a newer one and names it."""

PUT_ASIDE = "profile.held"
"""Reason code of a candidate that was put aside before its gate ended, with no fault found."""

Baselined = Literal["eager", "both"]
"""Baselines that are timed on a GPU: only eager PyTorch, or `both` it and torch.compile."""


Proposer = Literal["skills", "llm", "both"]
"""Who proposes steps: edits from cards, a model, or a model when no edit is left."""


class Mode(StrEnum):
    """Who starts and who decides steps."""

    MANUAL = "manual"
    """A person starts every step and decides every candidate that the gate accepted."""
    REVIEW = "review"
    """Steps run by themselves; a person decides every candidate that the gate accepted."""
    AUTO = "auto"
    """The gate's verdict is the decision."""


class Budget(Struct, frozen=True, kw_only=True):
    """Limits of a run; None means no limit."""

    steps: int | None = None
    usd: float | None = None
    gpu_seconds: float | None = None
    wall_seconds: float | None = None
    goal: str | None = None
    """Also ends the run: `1.5x` against the seed, or a time like `900us`; empty for none."""


class Cost(Struct, frozen=True, kw_only=True):
    """What a step or a run cost."""

    usd: float = 0.0
    gpu_seconds: float = 0.0
    """Seconds for which a GPU was held."""
    wall_seconds: float = 0.0
    """Seconds of work; parallel work counts once, and waiting for a person not at all."""
    ahead_seconds: float = 0.0
    """Seconds of workers spent on candidates that were begun ahead and thrown away. They passed
    beside other work, so no limit counts them again."""

    def plus(self, other: "Cost") -> "Cost":
        """The sum of both."""
        return Cost(
            usd=self.usd + other.usd,
            gpu_seconds=self.gpu_seconds + other.gpu_seconds,
            wall_seconds=self.wall_seconds + other.wall_seconds,
            ahead_seconds=self.ahead_seconds + other.ahead_seconds,
        )


class Answer(StrEnum):
    """The decision on a candidate."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """Refused by the gate."""
    VETOED = "vetoed"
    """Refused by a person although the gate accepted it."""


class Decision(Struct, frozen=True, kw_only=True):
    """Who decided what about a candidate, and why."""

    answer: Answer
    by: Literal["gate", "person", "nobody"]
    reason: str = ""
    at: str = ""
    """Time of the decision, UTC, ISO 8601."""


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
    """Most candidates to begin ahead of the running one; None for as many as the machine allows."""
    device_indices: tuple[int, ...] = ()
    """All GPUs of a session with several; `device_index` is the first of them."""
    beam: int = 1
    """Candidates to look at cheaply before the best of them goes through the whole gate."""


class BackwardStep(Struct, frozen=True, kw_only=True):
    """How a step of a lineage was found by walking back from an expert."""

    category: str
    """The mechanism: `persistent-programs`."""
    locus: str
    """Where it is in the kernel, in words that also fit other kernels."""
    before: str
    """`normalized_sha256` of the kernel without the mechanism."""
    after: str
    """`normalized_sha256` of the kernel with it."""
    backward: str
    """Unified diff that removes it."""
    forward: str = ""
    """Unified diff of the forward edit on the kernel without it; empty if it was not made."""
    same_text: bool = False
    """Whether the forward edit restores exactly the kernel that the walk came from."""
    predecessor: str = ""
    """The gate's answer on the kernel without the mechanism."""
    roundtrip: str = ""
    """The gate's answer on the forward edit's kernel, compared with the one the walk came from."""
    ratio: float | None = None
    """Time of the kernel that the walk came from, divided by that of the forward edit's."""
    generated: dict[str, tuple[int, int]] = {}
    """Counts that differ in the compiler's code: (without, with) the mechanism."""
    leap: int = 1
    """Number of steps, from this one on, that pay only together: this one alone is a loss, which
    later ones make up for. 1 if it is not a loss, or if nothing makes up for it."""
    leap_speed: Speed | None = None
    """Speed of these steps together, from the kernel without the first to that with the last."""


class RungVisit(Struct, frozen=True, kw_only=True):
    """The result of a candidate at one rung of the ladder."""

    rung: str
    """`static`, `smoke`, `bench` or `profile`."""
    action: Literal["promote", "hold", "prune"]
    reason: str
    score: float = 0.0
    speed: Speed | None = None
    """Speed against the parent, as far as this rung shows it."""
    time: Time | None = None
    """Time of the candidate, as far as this rung shows it; modeled at `static`."""
    gpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    """Seconds of this rung alone; those before the candidate's turn are not part of its cost."""
    gpu: str = ""
    """Which GPU, as in `GateReport.gpu`; empty if none was used."""
    asked: bool = True
    """False if the rung was skipped because it would save less than it costs."""


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
    """How a lineage's step was found; None in a run."""
    rungs: tuple[RungVisit, ...] = ()
    """Its visits to the rungs of the ladder, lowest first."""
