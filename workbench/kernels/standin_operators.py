"""Stands in for torch's registry of operators: on tensors that only claim to be on a GPU, an
operator's function is called directly, since the dispatcher would look for one of the CPU.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator

import torch

from workbench.kernels.untyped import Untyped


class _Operator:
    """What `torch.library.custom_op` makes of a function, without the registry."""

    def __init__(self, function: Callable[..., Untyped]) -> None:
        self._function = function

    def __call__(self, *args: Untyped, **kwargs: Untyped) -> Untyped:
        """Call the function as the dispatcher would."""
        return self._function(*args, **kwargs)

    def register_fake(self, function: Untyped) -> Untyped:
        """Ignored: it serves tracing only."""
        return function

    def register_autograd(self, backward: Untyped, *, setup_context: Untyped = None) -> None:
        """Ignored: the gate runs no backward."""


def _operator(
    name: str,  # noqa: ARG001 -- torch's signature
    fn: Callable[..., Untyped] | None = None,
    /,
    **settings: Untyped,  # noqa: ARG001 -- torch's signature
) -> Untyped:
    return _Operator if fn is None else _Operator(fn)


def _kernel(triton_kernel: Untyped, /) -> Untyped:
    return triton_kernel


_ANSWERS = {"custom_op": _operator, "triton_op": _operator, "wrap_triton": _kernel}


@contextlib.contextmanager
def operators_called_directly(source: str) -> Iterator[None]:
    """Replace what `source`, the candidate's file, finds in `torch.library` until the block ends.

    Torch's own modules, which may be imported meanwhile, still register their operators.
    """
    before = {name: getattr(torch.library, name) for name in _ANSWERS}
    for name, answer in _ANSWERS.items():
        setattr(torch.library, name, _for(source, answer, before[name]))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(torch.library, name, function)


def _for(source: str, answer: Untyped, other: Untyped) -> Callable[..., Untyped]:
    def choose(*args: Untyped, **kwargs: Untyped) -> Untyped:
        caller = sys._getframe(1).f_code.co_filename  # noqa: SLF001 -- no public way to ask
        return (answer if caller == source else other)(*args, **kwargs)

    return choose
