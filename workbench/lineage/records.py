"""What a backward walk leaves: the expert, every attempt to take a mechanism out, and its end."""

from enum import StrEnum

from msgspec import Struct

from workbench.gate.records import GateReport
from workbench.measure.records import Speed
from workbench.session.records import Cost
from workbench.skills.records import Parameter


class Expert(Struct, frozen=True, kw_only=True, tag="expert"):
    """Where a walk starts: a kernel that has passed its own gate."""

    source: str
    origin: str
    """The file it was read from, as a person named it."""
    report: GateReport
    cost: Cost = Cost()


class Removal(Struct, frozen=True, kw_only=True):
    """What is to be taken out of one state, before anybody has judged it."""

    state: int
    """How many mechanisms were out before it: 0 is the expert."""
    category: str
    locus: str
    kernel: str
    says: str
    edit: str
    """Of the forward step; empty where a model wrote both ways."""
    by: str = ""
    """The model that proposed it; empty for an inverse."""
    parameters: dict[str, Parameter] = {}
    source: str
    """The kernel without the mechanism: the predecessor."""


class Attempt(Removal, frozen=True, kw_only=True, tag="attempt"):
    """One mechanism taken out of one state, and what both gates said."""

    predecessor: GateReport
    """Of the predecessor, which must be right and may be slower; `speed` is against the state, in
    one run of pairs. Of policy and compile alone where those speak against the removal."""
    forward: str = ""
    """What the edit made of the predecessor; empty where it was not asked or refused."""
    roundtrip: GateReport | None = None
    """Of `forward` beside the state; None where its text is the state's, or was not asked."""
    same_text: bool = False
    """Whether `forward` means the very text of the state."""
    same_work: bool = False
    """Whether `forward` is another text that does the very work of the state: the same machine
    code, launched alike. It was compared, and not timed."""
    ratio: float | None = None
    """Time of the state over time of `forward`; 1.0 where the text or the work is the same."""
    blocks: tuple[float, ...] = ()
    """The same in each run of pairs, which has workers of its own; empty when modeled."""
    generated: dict[str, tuple[int, int]] = {}
    """What is not the same in the compiler's code: (with, without) the mechanism."""
    leap: int = 1
    """Steps, from its forward one on, that pay only together; see `BackwardStep`."""
    leap_speed: Speed | None = None
    accepted: bool
    why: str = ""
    """Why it was rejected, in a sentence; empty when accepted."""
    code: str = ""
    """`lineage.same-code`, ..., or the gate's own; empty when accepted."""
    cost: Cost = Cost()


class Termination(StrEnum):
    """How a walk ended. Only the first counts as having reached a naive kernel."""

    COMPLETE = "complete"
    STEP_LIMIT = "step limit"
    REJECTION_LIMIT = "rejection limit"
    BUDGET = "budget"
    """Of GPU-seconds, seconds or dollars."""
    INTERRUPTED = "interrupted"
    """By a signal, by a fault, or by the death of its process."""


class Ended(Struct, frozen=True, kw_only=True, tag="ended"):
    """The last line of a walk's journal."""

    how: Termination
    says: str
    speed: Speed | None = None
    """Of the expert against the simplest kernel, in one run of pairs; None when modeled, and where
    the walk's limits had no room for it."""


Line = Expert | Attempt | Ended
"""One line of the journal."""


class WalkLimits(Struct, frozen=True, kw_only=True):
    """When a walk stops before there is nothing left to take out."""

    steps: int = 15
    """Accepted removals (KLineage's default)."""
    rejections: int = 12
    """In all. KLineage stops at 4, but each of its attempts is paid for; ours are edits."""
    ideas: int = 4
    """Proposals of a model that fail before it is asked no more (KLineage's limit)."""
    gpu_seconds: float | None = None
    """No attempt begins that would go beyond them, by the price of the newest verdicts, with room
    for the pairs at the end; those of earlier processes count."""
    wall_seconds: float | None = None
    """The same, of this process."""
    floor: float = 0.99
    """Least ratio of the forward step against the state it leads to, over all pairs and in every
    run of them (KLineage asks it overall and in every trial)."""


NAIVE, START = "naive", "start"
"""What the first kernel of a chain is, as its origin begins."""


def bottom(origin: str) -> str:
    """`naive` where an origin or title says that nothing was left to take out, else `start`."""
    return NAIVE if origin.startswith(f"{NAIVE}:") else START
