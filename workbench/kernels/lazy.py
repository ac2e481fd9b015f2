"""Full-size tensors that cost nothing until touched, and host code that does not touch them."""

import contextlib
import math
import mmap
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from workbench.kernels.blame import line_in
from workbench.kernels.paint import paint
from workbench.kernels.records import HostOperation
from workbench.kernels.untyped import Untyped

_SMALL = 1 << 16
"""Bytes up to which host operations are really done: small constants keep their values."""
_NORESERVE = 0x4000
"""Linux's MAP_NORESERVE, which Python's mmap names only from 3.13 on."""


def lazy_zeros(
    shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int] | None = None
) -> torch.Tensor:
    """A CPU tensor of zeros whose untouched pages use no memory, of any size.

    `strides` in elements, contiguous when not given.
    """
    strides = contiguous_strides(shape) if strides is None else strides
    size = dtype.itemsize
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else 0
    if span == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    pages = _pages(span * size)
    flat = torch.frombuffer(pages, dtype=torch.uint8).view(dtype)
    return flat.as_strided(tuple(shape), tuple(strides))


def lazy_numbers(
    shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int] | None = None
) -> torch.Tensor:
    """As `lazy_zeros`, but random numbers where the dtype is a floating-point one."""
    made = lazy_zeros(shape, dtype, strides)
    paint(made)
    return made


def _pages(size: int) -> mmap.mmap:
    """Anonymous memory: private, so that reading costs nothing either; else shared.

    RLIMIT_DATA counts private pages by address, touched or not; shared ones only when touched.
    """
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except OSError:
        return mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NORESERVE)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return tuple(max(s, 1) for s in strides)


class LazyHost(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Host code whose large torch operations give zeros instead of being done.

    Views are real, so that aliases stay aliases; operations on small tensors are real; any other
    makes a lazy result of the right shape, or leaves the tensor that it would change alone. All
    that would move data on a GPU is noted in `operations`. `source` is the candidate's file.
    """

    def __init__(self, source: str = "") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[HostOperation] = []
        self._source = source

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True would wrap the method for torch.compile and import torch._dynamo: two seconds.
        return False

    def __torch_dispatch__(
        self,
        func: Untyped,
        types: Untyped,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Untyped:
        """Decide by the operator's schema what has to happen."""
        kwargs = kwargs or {}
        if _is_view(func) or func in _READS:
            return func(*args, **kwargs)
        given = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        changed = _changed(func, args, kwargs)
        if changed:
            self._note(func, given, [])
            if max(_nbytes(t) for t in given) <= _SMALL:
                return func(*args, **kwargs)
            if func.overloadpacket not in _CLEARING:
                for tensor in changed:
                    paint(tensor)
            return changed[0] if len(changed) == 1 else tuple(changed)
        try:
            shapes = func(*_to_meta(args), **{**_to_meta(kwargs), **_on_meta(func)})
        except NotImplementedError:  # its shape depends on what the data holds
            return func(*args, **kwargs)
        made = [t for t in tree_flatten(shapes)[0] if isinstance(t, torch.Tensor)]
        self._note(func, given, made)
        if sum(map(_nbytes, (*given, *made))) <= _SMALL:
            return func(*args, **kwargs)
        make = lazy_zeros if func.overloadpacket in _EMPTY else lazy_numbers
        return tree_map_only(torch.Tensor, lambda t: make(t.shape, t.dtype, t.stride()), shapes)

    def _note(self, func: Untyped, given: list[Any], made: list[Any]) -> None:
        if func.overloadpacket in _ALLOCATIONS:
            return
        name = str(func.name()).split(".")[0]
        moved = sum(_nbytes(t) for t in (*given, *made))
        frame = sys._getframe(2)  # noqa: SLF001 - no public walk up the stack
        line = line_in(self._source, frame)
        self.operations.append(HostOperation(name=name, bytes=moved, line=line))


_aten = torch.ops.aten
_READS = {_aten._local_scalar_dense.default, _aten.is_nonzero.default}  # noqa: SLF001
_CLEARING = {_aten.zero_, _aten.fill_}
_EMPTY = {
    *(_aten.empty, _aten.empty_strided, _aten.empty_like, _aten.new_empty, _aten.new_empty_strided),
    *(_aten.zeros, _aten.zeros_like, _aten.new_zeros, _aten.full, _aten.full_like, _aten.new_full),
}
"""Their results are written by kernels: painted pages are shared, and must stay numbers."""
_ALLOCATIONS = {_aten.empty, _aten.empty_strided, _aten.empty_like, _aten.new_empty}


def _is_view(func: Untyped) -> bool:
    """Whether every result aliases an argument that is not written."""
    returns = func._schema.returns  # noqa: SLF001 - the dispatcher's own description
    aliases = [r.alias_info for r in returns]
    return bool(aliases) and all(a is not None and not a.is_write for a in aliases)


def _changed(func: Untyped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The arguments that the operator writes to."""
    written = []
    for position, argument in enumerate(func._schema.arguments):  # noqa: SLF001
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        if isinstance(value, torch.Tensor):
            written.append(value)
    return written


def _to_meta(tree: Untyped) -> Untyped:
    return tree_map_only(
        torch.Tensor,
        lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta"),
        tree,
    )


def _on_meta(func: Untyped) -> dict[str, torch.device]:
    """Makers of tensors are asked for a meta tensor, whatever device they were asked for."""
    names = {a.name for a in func._schema.arguments}  # noqa: SLF001
    return {"device": torch.device("meta")} if "device" in names else {}


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


@contextlib.contextmanager
def lazy_host(source: str = "") -> Iterator[LazyHost]:
    """Run host code lazily, without autograd, until the block ends."""
    with torch.no_grad(), LazyHost(source) as mode:
        yield mode
