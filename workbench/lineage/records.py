"""Records of a backward walk: the expert, every attempt to remove a mechanism, and the end."""

from enum import StrEnum

from msgspec import Struct

from workbench.gate.records import GateReport
from workbench.measure.records import Speed
from workbench.session.records import Cost
from workbench.skills.records import Parameter


class Expert(Struct, frozen=True, kw_only=True, tag="expert"):
    """The kernel from which a walk starts; it has passed its own gate."""

    source: str
    origin: str
    """The file it was read from, as a person named it."""
    report: GateReport
    cost: Cost = Cost()


class Removal(Struct, frozen=True, kw_only=True):
    """A removal that is proposed for one state and not judged yet."""

    state: int
    """Number of mechanisms that were removed before: 0 is the expert."""
    category: str
    locus: str
    kernel: str
    says: str
    edit: str
    """Id of the forward step's edit; empty if a model wrote both directions."""
    by: str = ""
    """The model that proposed it; empty for an inverse edit."""
    parameters: dict[str, Parameter] = {}
    source: str
    """The kernel without the mechanism: the predecessor."""


class Attempt(Removal, frozen=True, kw_only=True, tag="attempt"):
    """A removal with both of its gate reports."""

    predecessor: GateReport
    """Report on the predecessor, which must be right but may be slower. `speed` is against the
    state, from one run of pairs. Only policy and compile if those refuse the removal."""
    forward: str = ""
    """Source that the edit made of the predecessor; empty if it was not tried or was refused."""
    roundtrip: GateReport | None = None
    """Report on `forward`, compared with the state; None if the texts are equal or not asked."""
    same_text: bool = False
    """Whether `forward` is the state's text, except for layout and comments."""
    same_work: bool = False
    """Whether `forward` is a different text that does the same work as the state: equal machine
    code, launched alike. It was then compared but not timed."""
    ratio: float | None = None
    """Time of the state divided by that of `forward`; 1.0 if text or work is the same."""
    blocks: tuple[float, ...] = ()
    """The ratio in each run of pairs, which has its own workers; empty when modeled."""
    generated: dict[str, tuple[int, int]] = {}
    """Counts that differ in the compiler's code: (with, without) the mechanism."""
    leap: int = 1
    """Number of steps, from its forward one on, that pay only together; see `BackwardStep`."""
    leap_speed: Speed | None = None
    accepted: bool
    why: str = ""
    """Why it was rejected, in a sentence; empty when accepted."""
    code: str = ""
    """Code of the reason: `lineage.same-code`, ..., or the gate's; empty when accepted."""
    cost: Cost = Cost()


class Termination(StrEnum):
    """How a walk ended. Only a complete walk has reached a naive kernel."""

    COMPLETE = "complete"
    STEP_LIMIT = "step limit"
    REJECTION_LIMIT = "rejection limit"
    BUDGET = "budget"
    """The limit of GPU-seconds, seconds or dollars was reached."""
    INTERRUPTED = "interrupted"
    """Ended by a signal, by a fault, or by the death of its process."""


class Ended(Struct, frozen=True, kw_only=True, tag="ended"):
    """The last line of a walk's journal."""

    how: Termination
    says: str
    speed: Speed | None = None
    """Speed of the expert against the simplest kernel, from one run of pairs; None when modeled, or
    when the walk's limits left no room for it."""
    cost: Cost = Cost()
    """Of these pairs, and of finding that nothing more is to be removed."""


Line = Expert | Attempt | Ended
"""One line of the journal."""


class WalkLimits(Struct, frozen=True, kw_only=True):
    """When a walk stops although something is left to remove."""

    steps: int = 15
    """Most accepted removals (KLineage's default)."""
    rejections: int = 12
    """Most rejections in all. KLineage stops at 4, but it pays for each attempt; ours are edits."""
    ideas: int = 4
    """Failed proposals after which a model is not asked any more (KLineage's limit)."""
    gpu_seconds: float | None = None
    """Limit for the walk, including earlier processes. No attempt starts that would exceed it at
    the price of recent verdicts, with room for the pairs at the end."""
    wall_seconds: float | None = None
    """The same for the seconds of this process."""
    floor: float = 0.99
    """Least speed of the forward step's kernel relative to its state, over all pairs and in each
    run (KLineage requires it overall and in every trial)."""


NAIVE, START = "naive", "start"
"""How the origin of a chain's first kernel begins: a naive kernel, or where the walk stopped."""


def bottom(origin: str) -> str:
    """`naive` if an origin or title says that nothing was left to remove, else `start`."""
    return NAIVE if origin.startswith(f"{NAIVE}:") else START
