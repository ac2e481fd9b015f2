"""What the judge and its workers tell each other about the sample of programs at the full shape."""

from msgspec import Struct

from workbench.gate.correctness.nest import Nest
from workbench.gate.correctness.protocol import Measured, OutputFacts, TensorEntry
from workbench.kernels.requests import Traced, TraceRequest
from workbench.problems.records import Constant, Precision, Selection, Tolerance

# -- judge and reference worker ------------------------------------------------------------------


class Prepare(Struct, frozen=True, kw_only=True):
    """Learn at the smallest shape which parts of the full one can be worked out alone.

    Answered by `Prepared` and a blob of contents for each of its tensors.
    """

    source: str
    small: dict[str, Constant]
    full: dict[str, Constant]
    seed: int
    precision: Precision
    tolerance: dict[str, Tolerance]
    selections: tuple[Selection, ...]
    inputs: Nest
    input_entries: tuple[TensorEntry, ...]
    """At the full shape, as all that follow."""
    state: tuple[TensorEntry, ...]
    output_entries: tuple[TensorEntry, ...]
    flops: float
    """Flops of all matrix products of the reference."""
    crowded: bool = False
    """Integer inputs are to hold mostly one of their numbers, where they repeat any."""


class Prepared(Struct, frozen=True, kw_only=True):
    """The contents of the inputs, then of the state, at the full shape: chunks that repeat."""

    why_not: str = ""
    """Why nothing can be compared there; no blobs then."""
    state: tuple[str, ...] = ()
    """Names of the state's tensors that have contents."""
    aliased: tuple[bool, ...] = ()
    """Per output: the reference returns an input, parameter or buffer, or a view of one."""
    axes: tuple[str, ...] = ()
    """What can be worked out alone: `output 0 dim 1`."""


class Group(Struct, frozen=True, kw_only=True):
    """What one program stored of one output, as far as it is final."""

    output: int
    program: tuple[int, int, int]
    count: int
    tentative: bool = False
    """Final if flags say so that programs outside of the sample may set."""
    filled: bool = False
    """Drawn places of an output that host code had filled, whoever writes there later."""
    unwritten: bool = False
    """Whether these are filled places that no program writes."""
    at_ends: bool = False
    """Whether these are filled places at the ends of dimensions only."""


class CompareStored(Struct, frozen=True, kw_only=True):
    """Hold stored values against the reference's. Answered by `ComparedStored`.

    Blobs, for each group: flat places in the output (row-major, int64), values.
    """

    groups: tuple[Group, ...]


class ComparedStored(Struct, frozen=True, kw_only=True):
    """What the groups measured, those that the reference could be worked out for."""

    measured: tuple[Measured, ...] = ()
    """Indices of worst elements are those in the whole output."""
    tentative: tuple[Measured, ...] = ()
    """Measurements of groups that depend on flags; not counted below."""
    programs: int = 0
    elements: tuple[int, ...] = ()
    """Per output: how many of its elements were compared."""
    right_as_filled: dict[int, float] = {}
    """By output, the share of drawn places that are right as host code filled them."""
    right_unwritten: dict[int, float] = {}
    """The same for places that no program writes."""
    right_at_ends: dict[int, float] = {}
    """The same for places at the ends of dimensions."""
    too_dear: int = 0
    """Groups whose part of the reference costs too much."""


# -- judge and candidate worker ------------------------------------------------------------------


class TraceFull(Struct, frozen=True, kw_only=True):
    """Trace a sample of programs on the judge's numbers; blobs as `Prepared` has them.

    Answered by `TracedFull` and the blobs of `CompareStored`.
    """

    request: TraceRequest
    inputs: int
    """How many of the blobs are inputs'."""
    state: tuple[str, ...]


class TracedFull(Struct, frozen=True, kw_only=True):
    """What was traced, what came back and which of it is final."""

    traced: Traced
    outputs: Nest | None = None
    facts: tuple[OutputFacts, ...] = ()
    groups: tuple[Group, ...] = ()
    written: tuple[float | None, ...] = ()
    """Per output: the share that kernels of the call write, going by the sample; None where host
    code makes it."""
    all_ways: bool = False
    """Every program takes the path of one that ran: the shares written are not estimates."""
    uniform: bool = False
    """One program of each launch stands for all that were drawn of it, so that what they write is
    counted and not estimated, even where not all were followed."""
    stood_for: float = 1.0
    """Of the programs of the launches that write outputs, those that go the way of one that ran."""
    blind: bool = False
    """Something that programs make of their ids alone was not followed."""
    followed: int = 0
    """How many of them that share was worked out for; 0: all."""
    changing: str = ""
    """Host state that the second call changed; empty when there is none."""
