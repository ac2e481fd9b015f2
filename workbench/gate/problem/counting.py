"""Counts the bytes and flops of a reference, operator by operator. Runs in its workers only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from workbench.kernels.operators import OperatorMode
from workbench.measure.eager import OperatorWork

_FREE = frozenset(
    {
        "_reshape_alias",
        "_unsafe_view",
        "empty",
        "empty_like",
        "empty_strided",
        "lift_fresh",
        "new_empty",
        "new_empty_strided",
    }
)
"""Operators that launch nothing, in addition to views."""

_ATTENTION: Any = torch.nn.functional.scaled_dot_product_attention

_PARTIAL = frozenset(
    {"embedding", "gather", "index", "index_select", "take", "take_along_dim", "_unsafe_index"}
)
"""Operators that read only as much of their first tensor as they return."""


class Counting(OperatorMode):
    """Counts every operator of the body. Works on real and on meta tensors."""

    def __init__(self) -> None:
        super().__init__()
        from torch.utils.flop_counter import flop_registry

        self.operators: list[OperatorWork] = []
        self.paused = False
        self._formulas: dict[Any, Callable[..., int]] = flop_registry
        self._read: dict[int, float] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        named = kwargs or {}
        out = func(*args, **named)
        if not self.paused and not getattr(func, "is_view", False):
            self._count(func, args, named, out)
        return out

    def add(
        self, name: str, given: list[torch.Tensor], made: list[torch.Tensor], flops: float
    ) -> None:
        """Record one operator: it reads `given`, makes `made`, does `flops` in matrix products."""
        partial = name.removeprefix("aten.") in _PARTIAL
        returned = sum(_bytes(t) for t in made)
        for place, tensor in enumerate(given):
            read = min(_bytes(tensor), returned) if partial and place == 0 else _bytes(tensor)
            key = _storage(tensor)
            self._read[key] = max(self._read.get(key, 0.0), read)
        distinct = {(_storage(t), t.storage_offset()): t for t in [*given, *made]}
        moved = sum(_bytes(t) for t in distinct.values())
        if partial and given:
            moved -= max(_bytes(given[0]) - returned, 0.0)
        self.operators.append(
            OperatorWork(
                name=name,
                bytes=moved,
                matrix_flops=flops,
                elements=0.0 if flops else float(sum(t.numel() for t in made)),
                dtype=str(made[0].dtype).removeprefix("torch."),
            )
        )

    def read_of(self, tensors: list[torch.Tensor]) -> float:
        """Bytes of these tensors that are read: per storage, the most that one operator reads.

        Several operators may read the same part, so their reads are not added.
        """
        whole = {_storage(t): float(t.untyped_storage().nbytes()) for t in tensors}
        return sum(min(self._read.get(key, 0.0), size) for key, size in whole.items())

    def _count(self, func: Callable[..., object], args: object, named: object, out: object) -> None:
        packet = getattr(func, "overloadpacket", func)
        name = str(packet)
        made, given = list(_tensors(out)), list(_tensors((args, named)))
        if not made or name.removeprefix("aten.") in _FREE:
            return
        formula = self._formulas.get(packet)
        arguments = args if isinstance(args, tuple) else ()
        keywords = named if isinstance(named, dict) else {}
        flops = float(formula(*arguments, **keywords, out_val=out)) if formula else 0.0
        self.add(name, given, made, flops)


class _WholeAttention(TorchFunctionMode):
    """Counts scaled_dot_product_attention as the single kernel that it is on a GPU.

    On CPU and meta tensors PyTorch decomposes it into matrix products and a softmax, whose scores
    would be counted as memory traffic.
    """

    def __init__(self, counting: Counting) -> None:
        super().__init__()
        self._counting = counting

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        named = kwargs or {}
        if func != _ATTENTION:
            return func(*args, **named)
        before, self._counting.paused = self._counting.paused, True
        try:
            out = func(*args, **named)
        finally:
            self._counting.paused = before
        given = list(_tensors((args, named)))
        if isinstance(out, torch.Tensor) and len(given) > 2:
            query, key = given[0], given[1]
            # Two products of (S x D) by (D x T) for every head of the query.
            flops = 4.0 * query.numel() * key.shape[-2]
            self._counting.add("aten.scaled_dot_product_attention", given, [out], flops)
        return out


@contextmanager
def whole(counting: Counting) -> Iterator[None]:
    """Count the operators of the body, attention as the one operator that it is."""
    with _WholeAttention(counting), counting:
        yield


def _storage(tensor: torch.Tensor) -> int:
    """Identity of a storage; meta storages have no address to tell them apart."""
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 -- torch has no public name for it


def _bytes(tensor: torch.Tensor) -> float:
    """Bytes of the elements; those of an expanded tensor count once."""
    distinct = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        distinct *= size if stride else min(size, 1)
    return float(distinct * tensor.element_size())


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
