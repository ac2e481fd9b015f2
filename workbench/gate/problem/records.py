"""What is known of a problem once its reference has run: shapes, work, and what is odd about it."""

from msgspec import Struct

from workbench.gate.correctness.nest import Nest
from workbench.gate.correctness.protocol import TensorEntry
from workbench.gate.records import Finding
from workbench.measure.eager import OperatorWork
from workbench.problems.records import Constant, Precision, Tolerance, WorkFloor


class Describe(Struct, frozen=True, kw_only=True):
    """Ask what the reference takes and makes at one shape. Answered by `Described`."""

    source: str
    values: dict[str, Constant]
    precision: Precision
    meta: bool
    """Whether it ran on meta tensors, with shapes alone."""


class Described(Struct, frozen=True, kw_only=True):
    """What the reference takes and makes at one shape."""

    init: Nest
    init_entries: tuple[TensorEntry, ...]
    inputs: Nest
    input_entries: tuple[TensorEntry, ...]
    state: tuple[TensorEntry, ...]
    outputs: Nest | None
    """None where the forward pass cannot run on meta tensors."""
    output_entries: tuple[TensorEntry, ...]
    operators: tuple[OperatorWork, ...]
    read_bytes: float
    """Bytes of inputs and state that operators read."""
    device: str = "cpu"
    """Where it runs for real."""
    unseen: str = ""
    """What the forward pass raised on meta tensors."""


class Examine(Struct, frozen=True, kw_only=True):
    """Ask how sound the reference is as a judge, at one shape. Answered by `Examined`."""

    source: str
    values: dict[str, Constant]
    precision: Precision
    tolerance: dict[str, Tolerance]
    seeds: tuple[int, ...]


class OutputHealth(Struct, frozen=True, kw_only=True):
    """How one output varies, in units of its own rms."""

    name: str
    finite: bool
    over_seeds: float
    """Standard deviation of an element over seeds, averaged over elements."""
    along_axes: tuple[float, ...]
    """Standard deviation along each axis, averaged over the rest; 1 for axes of one element."""


class Examined(Struct, frozen=True, kw_only=True):
    """How sound the reference is as a judge."""

    outputs: tuple[OutputHealth, ...]
    ignored_inputs: tuple[str, ...]
    """Inputs whose values change nothing."""
    ignored_state: tuple[str, ...]
    """Parameters and buffers whose values change nothing."""
    repeat_ratio: float
    """How far two runs on the same inputs differ, over the bound."""
    own_ratio: float
    """Error of the native run against fp64, over the rounding part of the bound."""
    why_not_fp64: str


class ShapeReport(Struct, frozen=True, kw_only=True):
    """One shape of a problem, as its reference shows it."""

    shape: str
    init: Nest | None = None
    """`get_init_inputs()`; tensors in it are in `init_entries`, without their contents."""
    init_entries: tuple[TensorEntry, ...] = ()
    inputs: Nest | None = None
    """`get_inputs()`; None when the shape could not be seen."""
    input_entries: tuple[TensorEntry, ...] = ()
    state: tuple[TensorEntry, ...] = ()
    outputs: Nest | None = None
    output_entries: tuple[TensorEntry, ...] = ()
    operators: tuple[OperatorWork, ...] = ()
    """What eager PyTorch would launch, one by one."""
    work: WorkFloor | None = None
    """The sidecar's roofline, else counted; None when neither is known."""
    counted: bool = False
    """`work` is counted from what the reference does; algebra and sparsity may need less."""
    unseen: str = ""
    """Why the shape could not be seen; empty when it was."""


class ProblemReport(Struct, frozen=True, kw_only=True):
    """A problem that can be used, and what is odd about it."""

    problem: str
    shapes: tuple[ShapeReport, ...]
    """Reports in the problem's order, from small to full."""
    findings: tuple[Finding, ...] = ()
    """All of them `Blame.PROBLEM`: a candidate may be right and the problem still say little."""
    gpu_seconds: float = 0.0
    """For how long a GPU was held for it, beside others."""

    def shape(self, name: str) -> ShapeReport:
        """The report of that shape; KeyError when there is none."""
        for shape in self.shapes:
            if shape.shape == name:
                return shape
        raise KeyError(name)

    @property
    def full(self) -> ShapeReport:
        """The report of the full shape, whose speed counts."""
        return self.shapes[-1]
