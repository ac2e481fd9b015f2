"""Records of a problem, made from its file and sidecar before any of it has run."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

Constant = int | float | bool | str
"""A value that a sidecar shape may give to a module-level constant of the problem file."""


FAMILIES = (
    "attention",
    "convolution",
    "elementwise",
    "gemm",
    "normalization",
    "recurrence",
    "reduction",
    "sort",
)
"""Values of `family`; scopes of skill cards use the same words."""


class Precision(StrEnum):
    """What the reference promises about float32 matrix arithmetic."""

    IEEE = "ieee"
    TF32 = "tf32"
    """fp32 operands may be rounded to TF32 (the default of cuDNN's convolutions)."""


class Layout(StrEnum):
    """Layouts in memory that inputs may have besides the one that `get_inputs()` makes."""

    TRANSPOSED = "transposed"
    """The last two dimensions are swapped in memory; the shape stays the same."""
    PADDED = "padded"
    """Rows are a few elements apart, as in a slice of a wider tensor."""
    EXPANDED = "expanded"
    """The first dimension has stride 0 and repeats its first element, which changes the values."""
    CHANNELS_LAST = "channels-last"
    """Torch's channels-last: of four or five dimensions, the second is innermost."""


class Shape(Struct, frozen=True, kw_only=True):
    """One size at which a problem is evaluated; shapes go from small to full."""

    name: str
    values: dict[str, Constant] = {}
    """Module-level constants of the problem file that are replaced before inputs are made."""


class Roofline(Struct, frozen=True, kw_only=True):
    """The least work a correct kernel must do, as expressions over the problem's constants."""

    flops: str
    """Floating-point operations, for example `2 * M * N * K`."""
    bytes: str
    """Compulsory bytes: every input read once, every output written once."""


class Tolerance(Struct, frozen=True, kw_only=True):
    """Allowed distance of an output from the fp64 answer: `factor * eps * (|gold| + rms(gold))`."""

    factor: float
    eps: float


class WorkFloor(Struct, frozen=True, kw_only=True):
    """The roofline of one shape as numbers."""

    flops: float
    bytes: float


class Selection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An output of indices into an input, for example top-k's.

    The order of ties is arbitrary, so such an output is not compared with the reference's. It is
    right when its entries are distinct along `dim` and select from the input, bit for bit, what
    the output `values` holds.
    """

    output: int
    """Number of the output that holds the indices, from 0."""
    values: int
    """Number of the output that holds the selected values, from 0."""
    input: int = 0
    """Number of the input that they index, from 0."""
    dim: int = -1
    """Dimension that they index."""


class Problem(Struct, frozen=True, kw_only=True):
    """A PyTorch reference with its inputs, shapes, tolerance, roofline. Nothing of it has run."""

    name: str
    path: Path
    source: str
    """Text of the KernelBench-form file."""
    sidecar: str = ""
    """Text of the TOML file beside it; empty when there is none."""
    shapes: tuple[Shape, ...]
    """From small to full; without a sidecar, one shape named `file` that replaces nothing."""
    tolerance: dict[str, Tolerance] = {}
    """Tolerances by dtype (`float32`); for other dtypes the gate uses its own bound."""
    precision: Precision = Precision.IEEE
    roofline: Roofline | None = None
    family: str = ""
    """One of `FAMILIES`; empty when it is not stated."""
    selections: tuple[Selection, ...] = ()
    """Outputs that hold indices."""
    layouts: tuple[Layout, ...] = ()
    """Layouts promised to callers: candidates are also checked with floating-point inputs in
    these."""
    seed: Path | None = None
    """A plain Triton candidate that is shipped with the problem; None without one."""
    expert: Path | None = None
    """A fast candidate that is shipped with the problem; None without one."""

    def shape(self, name: str) -> Shape:
        """The shape of that name; KeyError when there is none."""
        for shape in self.shapes:
            if shape.name == name:
                return shape
        raise KeyError(name)

    @property
    def tiny(self) -> Shape:
        """The smallest shape, which the interpreter can afford."""
        return self.shapes[0]

    @property
    def full(self) -> Shape:
        """The shape whose speed counts."""
        return self.shapes[-1]
