"""Messages between the judge of the correctness stage and its two workers, beside the tensors.

The reference worker is trusted as far as the problem file is. The candidate worker's replies are
claims: they can convict a candidate or leave it unproven, but never make it pass; shapes, dtypes
and values are read from the blobs that the judge received.
"""

from enum import StrEnum
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate.correctness.cases import Case, Poison
from workbench.gate.correctness.nest import Nest
from workbench.kernels.records import Build, OutOfBounds, Way
from workbench.problems.records import Constant, Layout, Precision, Selection, Tolerance


class TensorEntry(Struct, frozen=True, kw_only=True):
    """A tensor without its contents."""

    name: str
    """Path in its nesting (`0`, `1.scale`) or name in the state_dict."""
    dtype: str
    """Name of the dtype without `torch.`."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Strides in elements."""
    bytes: int
    """Bytes from the first to the last element, including gaps."""


What = Literal["inputs", "state"]

# -- judge and reference worker ------------------------------------------------------------------


class OpenReference(Struct, frozen=True, kw_only=True):
    """Load the problem at one shape. Answered by `Reference` and the init tensors' blobs."""

    source: str
    values: dict[str, Constant]
    build_seed: int
    """Seed for the constructor; the candidate is built from the same one."""
    precision: Precision
    tolerance: dict[str, Tolerance]
    selections: tuple[Selection, ...]
    lends: bool = False
    """The candidate lends buffers on the GPU; otherwise inputs and weights travel as bytes."""
    threads: int = 1
    """Number of torch threads, for answers on the CPU."""


class Reference(Struct, frozen=True, kw_only=True):
    """The reference is built."""

    init: Nest
    """`get_init_inputs()`."""
    state: tuple[TensorEntry, ...]
    float_inputs: bool
    """Whether any input is a floating-point tensor, so that value cases apply."""
    peak_bytes: int = 0
    """Peak GPU memory of one native call, inputs and weights included; 0 on the CPU."""
    output_bytes: int = 0
    """Bytes of all its outputs; 0 on the CPU."""


class Perturb(Struct, frozen=True, kw_only=True):
    """Perturb the reference's weights from their initial values; answered by the state's blobs.

    On a GPU there are none: `Fill` follows.
    """

    seed: int | None
    """None leaves them at their initial values."""


class Draw(Struct, frozen=True, kw_only=True):
    """Make the inputs and the answers of one call; answered by `Made` and the inputs' blobs.

    On a GPU there are none: `Fill` follows.
    """

    number: int
    case: Case
    seed: int
    layout: Layout | None = None


class Fill(Struct, frozen=True, kw_only=True):
    """Write the inputs of the call, or the weights, into the lent buffers that come along."""

    what: What


class Expected(Struct, frozen=True, kw_only=True):
    """One output of the reference."""

    entry: TensorEntry
    aliased: bool
    """The reference returns an input, parameter or buffer, or a view of one."""
    beside: tuple[int, ...] = ()
    """Earlier outputs with which this one shares memory in the reference."""


class Made(Struct, frozen=True, kw_only=True):
    """The inputs and answers of one call are ready."""

    inputs: Nest
    entries: tuple[TensorEntry, ...]
    outputs: Nest
    expected: tuple[Expected, ...]
    changes_state: bool
    """The reference's call changes its state, which is restored before the next one."""
    fp64: bool
    """The answer is the reference in float64; otherwise the native one."""
    why_not_fp64: str = ""


class Compare(Struct, frozen=True, kw_only=True):
    """Compare the results of a call with its answer; answered by `Compared`.

    Blobs: the outputs in the reference's order, the inputs after the call, the state after it.
    """

    number: int
    keep: bool = True
    """Remember the outputs' bits for `Recheck`."""


class Compared(Struct, frozen=True, kw_only=True):
    """One measurement per output, and per input or state tensor that somebody changed."""

    measured: tuple["Measured", ...]
    overrun: tuple[int, ...] = ()
    """Inputs outside of whose tensors bytes were written (on a GPU)."""


class Recheck(Struct, frozen=True, kw_only=True):
    """Compare outputs that the candidate still holds with their bits when they were returned.

    Blobs: the outputs of call `number`. Answered by `Rechecked`.
    """

    number: int


class Rechecked(Struct, frozen=True, kw_only=True):
    """Names of the outputs whose bits changed."""

    changed: tuple[str, ...]


class Measured(Struct, frozen=True, kw_only=True):
    """The measurement of one tensor of one call. Ratios are error over bound: right means at most
    1.
    """

    what: str
    """`output 0`, `input 1 after the call`, `running_mean after the call`."""
    dtype: str
    elements: int = 0
    """Elements compared within the bound, or exactly; the others are not finite in the reference
    either."""
    ratio: float = 0.0
    low_variance: float = 0.0
    """Worst error over 5 % of the output's own spread; 0 where that rule does not apply."""
    wrong_finite: int = 0
    """Elements that are not finite where the answer is, or the reverse."""
    wrong_exact: int = 0
    """Elements of an exact (integer or bool) tensor that differ."""
    fewer_bits: bool = False
    """The lowest bit is the same in all elements, and is not so in the answer."""
    selected: bool = False
    """An operator of the reference selected the answer, or its places, from the inputs' numbers."""
    index: tuple[int, ...] = ()
    """Index of the worst element."""
    value: float = 0.0
    gold: float = 0.0
    native: float = 0.0
    bound: float = 0.0
    untouched: bool = False
    """The candidate left this tensor bitwise unchanged."""
    kept: bool = False
    """The reference left this tensor bitwise unchanged."""

    @property
    def right(self) -> bool:
        """Whether every rule holds."""
        worst = max(self.ratio, self.low_variance)
        wrong = self.wrong_finite or self.wrong_exact or self.fewer_bits
        return worst <= 1 and not wrong


# -- judge and candidate worker ------------------------------------------------------------------


class OpenCandidate(Struct, frozen=True, kw_only=True):
    """Load the candidate and build `ModelNew`; blobs are the init tensors. Answered by `Opened`."""

    source: str
    init: Nest
    build_seed: int
    target: str
    """Name of the GPU that host code is shown, where there is none."""
    builds: tuple[Build, ...] = ()
    """What host code is told that compiles a kernel ahead of its launch."""


class PutWeights(Struct, frozen=True, kw_only=True):
    """Write weights into the model; blobs in the order of `names`, none where they were lent."""

    names: tuple[str, ...]


class Lend(Struct, frozen=True, kw_only=True):
    """Allocate buffers for inputs or state on the GPU; answered by handles on them, guards
    included.
    """

    what: What
    entries: tuple[TensorEntry, ...]
    same_storage: bool


class Mode(StrEnum):
    """How the candidate's launches are executed."""

    PLAIN = "plain"
    GHOST = "ghost"
    """Not at all: memory from `torch.empty` stays as it was."""
    APART = "apart"
    """In the interpreter: in another order, no program seeing another's stores."""


class RunCall(Struct, frozen=True, kw_only=True):
    """One call of the candidate; blobs are the inputs, where they were not lent."""

    inputs: Nest
    same_storage: bool
    poison: Poison
    watched: bool
    reset_state: bool
    mode: Mode = Mode.PLAIN
    order_seed: int = 0
    config: int = 0
    """Configuration of autotuned kernels in the interpreter, modulo their number."""
    hold: bool = True
    """Keep the outputs alive until the worker ends."""
    bare: bool = False
    """Let the GPU become idle before the call, instead of holding it until the call is queued."""
    remembers: bool = True
    """Also tell what host code remembers after the call: a walk through all that it can reach."""


class Operator(Struct, frozen=True):
    """One torch operator that the candidate's host code dispatched."""

    name: str
    """`aten.mm`, without the overload."""
    times: int
    line: int | None
    """Line of its first use in the candidate's file."""
    allowed: bool
    reads: bool = False
    """Whether it brings a tensor's values into Python."""


class Raised(Struct, frozen=True, kw_only=True):
    """What the candidate raised instead of returning."""

    kind: str
    message: str
    line: int | None
    """Line in the candidate's file."""
    kernel: str = ""
    """The jit function that was running; empty for host code."""
    out_of_bounds: OutOfBounds | None = None
    not_judged: str = ""
    """What the interpreter would get wrong, so that it did not run it."""
    doubt: str = ""
    """The end of the reason code, where a GPU would not show it either."""


class Opened(Struct, frozen=True, kw_only=True):
    """The candidate is built, or what it raised."""

    state: tuple[TensorEntry, ...] = ()
    raised: Raised | None = None


class OutputFacts(Struct, frozen=True, kw_only=True):
    """Properties of an output besides its bytes."""

    entry: TensorEntry
    device: str
    storage_bytes: int
    offset_bytes: int
    overlaps: tuple[str, ...]
    """Tensors with which it shares bytes: `input 0`, `output 1 of an earlier call`."""
    beside: tuple[int, ...] = ()
    """Earlier outputs of the same call whose bytes it shares."""


class Reading(Struct, frozen=True, kw_only=True):
    """What the clocks of a worker read around one call, microseconds."""

    device_us: float | None = None
    """Between two events on the GPU; None on the CPU."""
    host_us: float
    """Until the call returned, before the device was synchronized."""
    wall_us: float
    """Until the device was idle."""
    ahead_us: float = 0.0
    """How long the GPU was still held when the call began: part of `wall_us`."""

    @property
    def us(self) -> float:
        """The time of the call: on the device where there is one."""
        return self.wall_us if self.device_us is None else self.device_us


class Returned(Struct, frozen=True, kw_only=True):
    """What one call returned, or raised. Its tensors stay in the worker until `HandOver`."""

    outputs: Nest | None = None
    facts: tuple[OutputFacts, ...] = ()
    operators: tuple[Operator, ...] = ()
    raised: Raised | None = None
    launches: int = 0
    """Kernel launches that the call made."""
    counting: str = ""
    """Where host code keeps a value that was new after each of the last calls."""
    undecided: bool = False
    """Some value was new after this call and the previous one: it may turn out to be a counter."""
    configs: int = 1
    """The most configurations that an autotuned kernel of the call had, in the interpreter."""
    ways: tuple[Way, ...] = ()
    """Branches on loaded values that had the same outcome in all calls so far."""
    kept: str = ""
    """A digest of what host code keeps beside its state, without small integers; empty: nothing."""
    reading: Reading | None = None


class HandOver(Struct, frozen=True, kw_only=True):
    """Ask for the results of the last call. Blobs: its outputs, inputs after it, state after it.

    A separate message, so that nothing during the call reveals whether it will be checked.
    """


class Held(Struct, frozen=True, kw_only=True):
    """Ask for the outputs of one call again; blobs are those outputs."""

    call: int
    """Number of the call in the worker, from 0."""


T = TypeVar("T")


def encode(message: Struct) -> dict[str, Any]:
    """A message as the body of a request or a reply."""
    body: dict[str, Any] = msgspec.to_builtins(message)
    return body


def decode(body: dict[str, Any], kind: type[T]) -> T:
    """A body as a message. Raises WorkbenchError when a worker sent something else."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as fault:
        raise WorkbenchError(f"a worker's answer is not a {kind.__name__}: {fault}") from fault
