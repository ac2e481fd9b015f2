"""What a lift gives back: a candidate's source, or the reason why there is none."""

from msgspec import Struct

from workbench.errors import WorkbenchError


class LiftedSeed(Struct, frozen=True, kw_only=True):
    """A seed made from the kernels that TorchInductor writes for a reference."""

    source: str
    """A candidate: `ModelNew`, plain `@triton.jit` kernels, nothing of Inductor."""
    notes: tuple[str, ...]
    """What a person should know of it, a sentence each."""


class LiftRefused(WorkbenchError):
    """No seed can be lifted; `what` says why, `todo` what the person can do instead."""

    def __init__(self, what: str, *, where: str = "", todo: str = "") -> None:
        super().__init__(what, where=where, todo=todo or OWN_KERNEL)


OWN_KERNEL = "write a Triton candidate and pass it with --kernel FILE"
