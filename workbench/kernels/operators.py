"""Base class of the modes that watch or change torch's operators as they are dispatched."""

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """A dispatch mode that does not involve torch.compile."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]  # untyped in torch

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True would wrap the method for torch.compile and import torch._dynamo: two seconds.
        return False
