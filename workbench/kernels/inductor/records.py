"""What a lift is asked for, and what it gives back: a candidate's source, or why there is none."""

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.problems.records import Constant, Precision


class LiftRequest(Struct, frozen=True, kw_only=True):
    """A reference at one shape, for one kind of GPU."""

    source: str
    """Text of the problem file."""
    values: dict[str, Constant]
    """The shape's constants."""
    target: str
    """`sm90`."""
    precision: Precision
    name: str
    """Name of the problem."""


class LiftedSeed(Struct, frozen=True, kw_only=True, tag="lifted"):
    """A seed made from the kernels that TorchInductor writes for a reference."""

    source: str
    """A candidate: `ModelNew`, plain `@triton.jit` kernels, nothing of Inductor."""


class Refusal(Struct, frozen=True, kw_only=True, tag="refused"):
    """A LiftRefused on its way from the process that lifts."""

    what: str
    todo: str


OWN_KERNEL = "write a Triton candidate and pass it with --kernel FILE"


class LiftRefused(WorkbenchError):
    """No seed can be lifted; `what` says why, `todo` what the person can do instead."""

    def __init__(self, what: str, *, todo: str = "") -> None:
        super().__init__(what, todo=f"{todo}; or {OWN_KERNEL}" if todo else OWN_KERNEL)
