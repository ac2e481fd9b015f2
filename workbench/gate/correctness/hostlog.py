"""Which torch operators a candidate's host code really dispatched. Runs in candidate workers only.

Backs the static policy up: whatever name a call went by, the dispatcher sees the operator. What
this log says is the worker's own word, so it can only convict, never clear.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable

import torch

from workbench.gate.correctness.protocol import Operator
from workbench.kernels.operators import OperatorMode

ALLOWED_OPERATORS = frozenset(
    {
        # allocation and constants
        "arange", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "fill", "fill_",
        "full", "full_like", "lift", "lift_fresh", "lift_fresh_copy", "new_empty",
        "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "resize_",
        "scalar_tensor", "zero_", "zeros", "zeros_like",
        # views
        "_conj", "_reshape_alias", "_unsafe_view", "alias", "as_strided", "chunk", "detach",
        "diagonal", "expand", "flatten", "imag", "movedim", "narrow", "permute", "real", "reshape",
        "select", "set_", "slice", "split", "split_with_sizes", "squeeze", "t", "transpose",
        "unbind", "unfold", "unsqueeze", "view", "view_as", "view_as_complex", "view_as_real",
        # copies and casts: they move data, they compute nothing
        "_copy_from", "_to_copy", "cat", "clone", "constant_pad_nd", "contiguous", "copy", "copy_",
        "pin_memory", "repeat", "stack", "to",
        # metadata, and single values read by the host
        "_local_scalar_dense", "dim", "is_nonzero", "is_pinned", "is_same_size", "item", "numel",
        "record_stream", "size", "storage_offset", "stride", "sym_numel", "sym_size", "sym_stride",
    }
)  # fmt: skip
"""By the operator's name without namespace and overload. Everything else is compute."""

BOOKKEEPING = frozenset({"add_", "addcmul_", "div_", "lerp_", "mul_", "sub_"})
"""Allowed in place on buffers of the reference's state: running statistics and counters."""

MOST_UPDATES = 16
"""Of one buffer in one call (ours): a running statistic takes three, a sum over rows one a row."""

MOST_READ = 64
"""Single values that the host may read in one call (ours): settings, not a tensor's contents."""

_READS = frozenset({"_local_scalar_dense", "is_nonzero", "item"})


class HostLog(OperatorMode):
    """Counts the operators of one call and where in the candidate's file they came from."""

    def __init__(
        self,
        filename: str,
        buffers: Iterable[torch.Tensor] = (),
        inputs: Iterable[torch.Tensor] = (),
    ) -> None:
        super().__init__()
        self._filename = filename
        self._buffers = frozenset(map(_storage, buffers))
        self._inputs = frozenset(map(_storage, inputs))
        self._updates: Counter[int] = Counter()
        self._carrying: set[int] = set()
        """Buffers that the host gave a tensor in this call: their values are data now."""
        self._read = 0
        self._counts: Counter[tuple[str, bool]] = Counter()
        self._lines: dict[tuple[str, bool], int | None] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        name = str(getattr(func, "overloadpacket", func))
        used = name, self._allows(name.rsplit(".", maxsplit=1)[-1], args)
        if used not in self._counts:
            self._lines[used] = self._line()
        self._counts[used] += 1
        return func(*args, **(kwargs or {}))

    def _allows(self, operator: str, args: tuple[object, ...]) -> bool:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        target = _storage(tensors[0]) if tensors else 0
        if operator in _READS:
            self._read += 1
            return target not in self._carrying and self._read <= MOST_READ
        if target in self._buffers and len(tensors) > 1:
            self._carrying.add(target)
        if operator not in BOOKKEEPING:
            return operator in ALLOWED_OPERATORS
        self._updates[target] += 1
        return (
            target in self._buffers
            and self._updates[target] <= MOST_UPDATES
            and not any(_storage(tensor) in self._inputs for tensor in tensors[1:])
        )

    def operators(self) -> list[Operator]:
        """What was dispatched, in the order of first use."""
        return [
            Operator(name, times, self._lines[name, allowed], allowed)
            for (name, allowed), times in self._counts.items()
        ]

    def _line(self) -> int | None:
        frame = sys._getframe(2)  # noqa: SLF001  # the way to a caller's line without a traceback
        while frame is not None and frame.f_code.co_filename != self._filename:
            frame = frame.f_back  # type: ignore[assignment]  # None ends the walk
        return None if frame is None else frame.f_lineno


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
