"""What a problem is, once its file and sidecar are read and before any of it has run."""

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
"""What `family` may say; scopes of skill cards use the same words."""


class Precision(StrEnum):
    """What the reference promises about float32 matrix arithmetic."""

    IEEE = "ieee"
    TF32 = "tf32"
    """TF32 rounding of fp32 operands is within the promise (cuDNN convolutions' default)."""


class Layout(StrEnum):
    """How inputs may lie in memory beside the way that `get_inputs()` makes them."""

    TRANSPOSED = "transposed"
    """The last two dimensions of a tensor change places in memory, its shape stays."""
    PADDED = "padded"
    """Rows are a few elements apart, as in a slice of something wider."""
    EXPANDED = "expanded"
    """The first dimension repeats its first element: the stride is 0. Values change with it."""
    CHANNELS_LAST = "channels-last"
    """Of four and five dimensions the second is innermost, as torch calls it."""


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
    """How far an output may be from the fp64 answer: `factor * eps * (|gold| + rms(gold))`."""

    factor: float
    eps: float


class WorkFloor(Struct, frozen=True, kw_only=True):
    """The roofline of one shape as numbers."""

    flops: float
    bytes: float


class Selection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An integer output that names places in an input: top-k's indices, for example.

    Ties have no order of their own, so such an output is not compared with the reference's. It is
    right when its entries are distinct along `dim` and pick out of the input, bit for bit, what the
    output `values` holds.
    """

    output: int
    """Which output holds the places, counted from 0."""
    values: int
    """Which output holds what they pick."""
    input: int = 0
    """Which input they pick from, counted from 0."""
    dim: int = -1


class Problem(Struct, frozen=True, kw_only=True):
    """A PyTorch reference with its inputs, shapes, tolerance, roofline. Nothing of it has run."""

    name: str
    path: Path
    source: str
    """Text of the KernelBench-form file."""
    sidecar: str = ""
    """Text of the TOML file beside it; empty when there is none."""
    shapes: tuple[Shape, ...]
    """Small to full; without a sidecar one shape named `file` with no replaced constants."""
    tolerance: dict[str, Tolerance] = {}
    """By dtype name (`float32`); a dtype that is not here uses the gate's own bound."""
    precision: Precision = Precision.IEEE
    roofline: Roofline | None = None
    family: str = ""
    """One of `FAMILIES`; empty when nobody said."""
    selections: tuple[Selection, ...] = ()
    layouts: tuple[Layout, ...] = ()
    """Promised to callers: candidates are checked with floating-point inputs that lie so, too."""
    seed: Path | None = None
    """A plain Triton candidate shipped with the problem."""
    expert: Path | None = None
    """A fast one, to learn from."""

    def shape(self, name: str) -> Shape:
        """The shape of that name; KeyError when there is none."""
        for shape in self.shapes:
            if shape.name == name:
                return shape
        raise KeyError(name)

    @property
    def tiny(self) -> Shape:
        """The smallest shape: what the interpreter can afford."""
        return self.shapes[0]

    @property
    def full(self) -> Shape:
        """The shape whose speed counts."""
        return self.shapes[-1]
