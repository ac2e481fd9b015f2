"""What a proposer looks at, and what it answers."""

from msgspec import Struct

from workbench.kernels.records import Launch, LaunchTrace
from workbench.kernels.target import Target
from workbench.measure.ncu.records import NcuRecord
from workbench.measure.records import Time
from workbench.search.ladder import SearchSpec, shipped_ladder
from workbench.skills.library import Library
from workbench.skills.records import Parameter, Plan


class Tried(Struct, frozen=True, kw_only=True):
    """One earlier transition of the session, as far as the choice of the next one needs it."""

    number: int
    parent: int | None
    """None for the seed."""
    sha256: str
    """`normalized_sha256` of its source."""
    accepted: bool
    """By whoever decided; a veto is a no."""
    card: str = ""
    first: tuple[str, ...] = ()
    """Cards that were carried out before it in the same step."""
    kernel: str = ""
    parameters: dict[str, Parameter] = {}
    was: dict[str, Parameter] = {}
    speed: float | None = None
    """Against its parent; None where nothing was timed."""


class ProposerState(Struct, frozen=True, kw_only=True):
    """Everything that the next step depends on: the same state gives the same proposal."""

    source: str
    """The incumbent's text."""
    number: int
    """The incumbent's number."""
    library: Library
    target: Target
    launches: tuple[Launch, ...] = ()
    """Of the incumbent, at the shape whose speed counts."""
    traces: tuple[LaunchTrace, ...] = ()
    ncu: NcuRecord | None = None
    """What the GPU's counters said of the incumbent."""
    time: Time | None = None
    family: str = ""
    precision: str = ""
    """What the reference promises of fp32 products: `ieee` or `tf32`; empty when nobody said."""
    flops: float | None = None
    bytes: float | None = None
    """Least work and compulsory traffic at the shape whose speed counts."""
    history: tuple[Tried, ...] = ()
    """Every transition of the session, by rising number; the seed and the incumbent are in it."""
    search: SearchSpec | None = None
    """When a phase has come to rest; as shipped when None."""


def search_of(state: ProposerState) -> SearchSpec:
    """The rules of the search that a state belongs to."""
    return shipped_ladder().search if state.search is None else state.search


class Proposal(Struct, frozen=True, kw_only=True):
    """The next step: what is planned, and the text that came of it."""

    plan: Plan
    source: str


class NoProposal(Struct, frozen=True, kw_only=True):
    """Nothing is left to propose."""

    reason: str
    """One sentence without a full stop."""
    trail: tuple[str, ...] = ()
    """What became of every card, a line each."""
