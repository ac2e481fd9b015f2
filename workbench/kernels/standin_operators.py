"""Stands in for torch's registry of operators: on tensors that only claim to be on a GPU, an
operator's function is called directly, since the dispatcher would look for one of the CPU.
"""

import contextlib
import sys
import types
from collections.abc import Callable, Iterator

import torch

from workbench.kernels.untyped import Untyped


class _Operator:
    """What `torch.library.custom_op` makes of a function, without the registry."""

    def __init__(self, function: Callable[..., Untyped]) -> None:
        self._function = function

    @property
    def default(self) -> "_Operator":
        """The only overload, as `torch.ops.mine.scale.default` names it."""
        return self

    def __call__(self, *args: Untyped, **kwargs: Untyped) -> Untyped:
        """Call the function as the dispatcher would."""
        return self._function(*args, **kwargs)

    def register_fake(self, function: Untyped) -> Untyped:
        """Ignored: it serves tracing only."""
        return function

    def register_autograd(self, backward: Untyped, *, setup_context: Untyped = None) -> None:
        """Ignored: the gate runs no backward."""


_made: dict[str, _Operator] = {}
"""Operators of candidates' files in this process, by `namespace::name`."""


def _operator(
    name: str,
    fn: Callable[..., Untyped] | None = None,
    /,
    **settings: Untyped,  # noqa: ARG001 -- torch's signature
) -> Untyped:
    def make(function: Callable[..., Untyped]) -> _Operator:
        operator = _made[name] = _Operator(function)
        _show(name, operator)
        return operator

    return make if fn is None else make(fn)


def _show(name: str, operator: _Operator) -> None:
    """Let `torch.ops.<namespace>.<name>` be the operator, but in no namespace of torch's own."""
    space, _, short = name.partition("::")
    held = vars(torch.ops).setdefault(space, types.SimpleNamespace())
    if isinstance(held, types.SimpleNamespace):
        setattr(held, short, operator)


def _registered(
    name: str,  # noqa: ARG001 -- torch's signature
    function: Untyped = None,
    /,
    **settings: Untyped,  # noqa: ARG001 -- torch's signature
) -> Untyped:
    """Ignored: it serves tracing, or a backward that the gate does not run."""
    return function if function is not None else lambda given: given


def _kernel(triton_kernel: Untyped, /) -> Untyped:
    return triton_kernel


_ANSWERS = {
    "custom_op": _operator,
    "triton_op": _operator,
    "wrap_triton": _kernel,
    "register_fake": _registered,
    "register_autograd": _registered,
}


@contextlib.contextmanager
def operators_called_directly(source: str) -> Iterator[None]:
    """Replace what `source`, the candidate's file, finds in `torch.library` until the block ends.

    Torch's own modules, which may be imported meanwhile, still register their operators.
    """
    before = {name: getattr(torch.library, name) for name in _ANSWERS}
    for name, answer in _ANSWERS.items():
        setattr(torch.library, name, _for(source, answer, before[name]))
    known = dict(vars(torch.ops))
    for name, operator in _made.items():
        _show(name, operator)
    try:
        yield
    finally:
        for space in [one for one in vars(torch.ops) if one not in known]:
            if isinstance(vars(torch.ops)[space], types.SimpleNamespace):
                delattr(torch.ops, space)
        for name, function in before.items():
            setattr(torch.library, name, function)


def _for(source: str, answer: Untyped, other: Untyped) -> Callable[..., Untyped]:
    def choose(*args: Untyped, **kwargs: Untyped) -> Untyped:
        caller = sys._getframe(1).f_code.co_filename  # noqa: SLF001 -- no public way to ask
        return (answer if caller == source else other)(*args, **kwargs)

    return choose
