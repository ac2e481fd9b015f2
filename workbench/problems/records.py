"""What a problem is, once its file and sidecar are read and before any of it has run."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

Constant = int | float | bool | str
"""A value that a sidecar shape may give to a module-level constant of the problem file."""


class Precision(StrEnum):
    """What the reference promises about float32 matrix arithmetic."""

    IEEE = "ieee"
    TF32 = "tf32"
    """TF32 rounding of fp32 operands is within the promise (cuDNN convolutions' default)."""


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


class Problem(Struct, frozen=True, kw_only=True):
    """A PyTorch reference with its inputs, shapes, tolerance and roofline. Nothing of it has run."""

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
    """`gemm`, `attention`, `reduction`, `normalization`, `convolution`, `elementwise`, `sort`;
    empty when nobody said."""
    seed: Path | None = None
    """A plain Triton candidate shipped with the problem."""

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
