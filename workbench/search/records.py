"""Records of a proposer's input and its answers."""

from msgspec import Struct

from workbench.kernels.records import Launch, LaunchTrace
from workbench.kernels.target import Target
from workbench.measure.ncu.records import NcuRecord
from workbench.measure.records import Time
from workbench.search.ladder import SearchSpec, shipped_ladder
from workbench.skills.library import Library
from workbench.skills.records import Parameter, Plan


class Tried(Struct, frozen=True, kw_only=True):
    """An earlier transition of the session, as far as the next choice depends on it."""

    number: int
    parent: int | None
    """None for the seed."""
    sha256: str
    """`normalized_sha256` of its source."""
    accepted: bool
    """Whether it was accepted in the end; a vetoed one was not."""
    card: str = ""
    first: tuple[str, ...] = ()
    """Cards that were carried out before `card` in the same step."""
    kernel: str = ""
    parameters: dict[str, Parameter] = {}
    was: dict[str, Parameter] = {}
    speed: float | None = None
    """Speed ratio against its parent; None if it was not timed."""


class ProposerState(Struct, frozen=True, kw_only=True):
    """Everything that the next step depends on: the same state gives the same proposal."""

    source: str
    """The incumbent's text."""
    number: int
    """The incumbent's number."""
    library: Library
    target: Target
    launches: tuple[Launch, ...] = ()
    """Launches of the incumbent at the full shape."""
    traces: tuple[LaunchTrace, ...] = ()
    ncu: NcuRecord | None = None
    """The GPU's counters for the incumbent; None if they were not read."""
    time: Time | None = None
    """Time of the incumbent at the full shape."""
    family: str = ""
    precision: str = ""
    """The reference's promise about fp32 products: `ieee` or `tf32`; empty if unknown."""
    flops: float | None = None
    bytes: float | None = None
    """Least work and compulsory traffic at the full shape; None if unknown."""
    history: tuple[Tried, ...] = ()
    """All transitions of the session in order of number, including seed and incumbent."""
    search: SearchSpec | None = None
    """The rules of the search; None for the shipped ones."""


def search_of(state: ProposerState) -> SearchSpec:
    """The rules of the search for a state."""
    return shipped_ladder().search if state.search is None else state.search


class Proposal(Struct, frozen=True, kw_only=True):
    """The next step: its plan and the resulting source."""

    plan: Plan
    source: str


class NoProposal(Struct, frozen=True, kw_only=True):
    """Nothing is left to propose."""

    reason: str
    """One sentence without a full stop."""
    trail: tuple[str, ...] = ()
    """A line for each card that says why it was not proposed."""
