"""Full-size tensors that cost nothing until touched, and a mode that leaves them untouched."""

import math
import mmap
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from msgspec import Struct
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map_only

from workbench.kernels.blame import line_in
from workbench.kernels.operators import OperatorMode
from workbench.kernels.paint import fill, paint
from workbench.kernels.records import HostOperation
from workbench.kernels.storages import storage_address
from workbench.kernels.untyped import Untyped

_SMALL = 1 << 16
"""Bytes up to which host operations are really done, so that small constants keep their values."""
_ALIGNED = 2 << 20
"""Alignment of large tensors in bytes, as on a GPU, where torch's allocator takes whole blocks."""
_REAL = 256 << 20
"""Bytes up to which a faithful host really does them: a tenth of a second (ours)."""
_NORESERVE = 0x4000
"""Linux's MAP_NORESERVE, which Python's mmap names only from 3.13 on."""


def lazy_zeros(
    shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int] | None = None
) -> torch.Tensor:
    """A CPU tensor of zeros whose untouched pages use no memory, of any size.

    `strides` are in elements; the tensor is contiguous without them.
    """
    strides = contiguous_strides(shape) if strides is None else strides
    size = dtype.itemsize
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else 0
    if span == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    pages = _pages(span * size + _ALIGNED)
    raw = torch.frombuffer(pages, dtype=torch.uint8)
    start = -raw.data_ptr() % _ALIGNED if span * size >= _ALIGNED else 0
    flat = torch.frombuffer(pages, dtype=dtype, offset=start, count=span)
    return flat.as_strided(tuple(shape), tuple(strides))


def lazy_numbers(
    shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int] | None = None
) -> torch.Tensor:
    """As `lazy_zeros`, but with random numbers if the dtype is a floating-point one."""
    made = lazy_zeros(shape, dtype, strides)
    paint(made)
    return made


def lazy_filled(
    shape: Sequence[int],
    dtype: torch.dtype,
    chunk: torch.Tensor,
    strides: Sequence[int] | None = None,
) -> torch.Tensor:
    """As `lazy_zeros`, but filled with repetitions of a chunk of numbers; see `paint.fill`."""
    made = lazy_zeros(shape, dtype, strides)
    if made.numel():
        fill(made, chunk)
    return made


def _pages(size: int) -> mmap.mmap:
    """Anonymous memory, private if possible, so that reading it costs nothing either.

    RLIMIT_DATA counts private pages even if untouched, so a limit may allow only shared ones.
    """
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except OSError:
        return mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NORESERVE)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return tuple(max(s, 1) for s in strides)


class Piece(Struct, frozen=True):
    """A source tensor of a copy, and where in the copy its elements are, cast to its dtype."""

    source: torch.Tensor
    dim: int = 0
    offset: int = 0
    """Added to the index along `dim`."""
    stacked: bool = False
    """Whether the copy has `dim` as an additional dimension, with the source at `offset`."""


class LazyHost(OperatorMode):
    """A mode in which large torch operations of host code are not really done.

    Views are real, so that aliases stay aliases, and so are operations on small tensors. Any other
    operation makes a lazy result of the right shape, or leaves the tensor that it would change as
    it is. All operations that would move data on a GPU are listed in `operations`. `source` is the
    candidate's file.

    With `faithful`, operations on up to 256 MiB are real and the rest are tracked: `knows` says
    whether a tensor holds what it would hold on a GPU, and `pieces` where a copy's contents come
    from. The caller sets `touched`, which says whether kernels may have written to a tensor.
    """

    def __init__(self, source: str = "", *, faithful: bool = False) -> None:
        super().__init__()
        self.operations: list[HostOperation] = []
        self.touched: Callable[[torch.Tensor], bool] = lambda _: False
        self._source = source
        self._faithful = faithful
        self._unknown: dict[int, torch.Tensor] = {}
        """Tensors with unknown contents by storage address; kept, so that no other reuses it."""
        self._pieces: dict[int, tuple[torch.Tensor, tuple[Piece, ...]]] = {}
        self._made: set[int] = set()
        """Storages that an operation other than an allocation filled."""
        self._chunks: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """By storage address, a tensor and the chunk that it repeats."""

    def holds(self, tensor: torch.Tensor, chunk: torch.Tensor) -> None:
        """Note that a tensor was filled with repetitions of a chunk; so will its copies be."""
        self._chunks[storage_address(tensor)] = (tensor, chunk)
        self._unknown.pop(storage_address(tensor), None)

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether host operations left the contents that a tensor would have on a GPU."""
        return storage_address(tensor) not in self._unknown

    def unwritten(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's storage was only allocated, and not filled by any operation."""
        return not self.knows(tensor) and storage_address(tensor) not in self._made

    def filled(self, tensor: torch.Tensor) -> bool:
        """Whether a host operation filled a tensor's storage with anything but zeros."""
        return storage_address(tensor) in self._made or storage_address(tensor) in self._chunks

    def pieces(self, tensor: torch.Tensor) -> tuple[torch.Tensor, tuple[Piece, ...]] | None:
        """The copy that owns a tensor's storage, and the pieces it was assembled from."""
        return self._pieces.get(storage_address(tensor))

    def __torch_dispatch__(
        self,
        func: Untyped,
        types: Untyped,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Untyped:
        """Decide from the operator's schema whether to run it, and track its effects."""
        kwargs = kwargs or {}
        if _is_view(func) or func in _READS or func.namespace == "profiler":
            return func(*args, **kwargs)
        given = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        changed = _changed(func, args, kwargs)
        if changed:
            self._note(func, given, [])
            return self._change(func, args, kwargs, given, changed)
        try:
            shapes = func(*_to_meta(args), **{**_to_meta(kwargs), **_on_meta(func)})
        except NotImplementedError:  # its shape depends on what the data holds
            return func(*args, **kwargs)
        made = [t for t in tree_flatten(shapes)[0] if isinstance(t, torch.Tensor)]
        self._note(func, given, made)
        size = sum(map(_nbytes, (*given, *made)))
        settled = self._faithful and self._settled(given)
        plain = func.overloadpacket in _ZEROS or func.overloadpacket in _UNWRITTEN
        real = size <= (_REAL if settled and not plain else _SMALL)
        out = func(*args, **kwargs) if real else self._lazily(func, given, shapes)
        if self._faithful:
            self._keep_books(func, given, args, out, known=real and settled)
        return out

    def _change(
        self,
        func: Untyped,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given: list[torch.Tensor],
        changed: list[torch.Tensor],
    ) -> Untyped:
        """Handle an operation that writes to the tensors `changed`."""
        size = max(map(_nbytes, given))
        others = [t for t in given if all(t is not c for c in changed)]
        settled = self._faithful and self._settled(others)
        settled = settled and not any(map(self.touched, changed))
        out: Untyped = changed[0] if len(changed) == 1 else tuple(changed)
        if size <= (_REAL if settled and func.overloadpacket not in _CLEARING else _SMALL):
            out = func(*args, **kwargs)
        elif func.overloadpacket not in _CLEARING:
            settled = False
            for tensor in changed:
                paint(tensor)
        else:
            settled = settled and func.overloadpacket is _aten.zero_
        for tensor in changed if self._faithful else ():
            if func.overloadpacket is not _aten.zero_:
                self._made.add(storage_address(tensor))
            whole = _nbytes(tensor) >= tensor.untyped_storage().nbytes()
            if settled and whole and func.overloadpacket in _REPLACING:
                self._unknown.pop(storage_address(tensor), None)
            elif not settled:
                self._unknown[storage_address(tensor)] = tensor
                if func.overloadpacket is _aten.copy_ and others[0].shape == tensor.shape:
                    self._pieces[storage_address(tensor)] = (tensor, (Piece(others[0]),))
        return out

    def _lazily(self, func: Untyped, given: list[torch.Tensor], shapes: Untyped) -> Untyped:
        """A lazy result: zeros where kernels will write, otherwise numbers."""
        if func.overloadpacket in _EMPTY:
            return tree_map_only(
                torch.Tensor, lambda t: lazy_zeros(t.shape, t.dtype, t.stride()), shapes
            )
        chunk = self._chunk_behind(given[0]) if func.overloadpacket in _COPYING else None
        if chunk is not None and shapes.stride() == given[0].stride():
            with _disable_current_modes():
                cast = chunk.to(shapes.dtype)
            # Repeats of a chunk must stay whole pages in the other dtype too.
            if cast.nbytes % mmap.PAGESIZE == 0:
                made = lazy_filled(shapes.shape, shapes.dtype, cast, shapes.stride())
                self.holds(made, cast)
                return made
        return tree_map_only(
            torch.Tensor, lambda t: lazy_numbers(t.shape, t.dtype, t.stride()), shapes
        )

    def _chunk_behind(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The chunk that a tensor repeats from its first element on; None if kernels touched it."""
        found = self._chunks.get(storage_address(tensor))
        if found is None or self.touched(tensor) or found[0].data_ptr() != tensor.data_ptr():
            return None
        return found[1]

    def _settled(self, tensors: list[torch.Tensor]) -> bool:
        """Whether these tensors now hold what they would hold on a GPU."""
        return all(self.knows(t) and not self.touched(t) for t in tensors)

    def _keep_books(
        self,
        func: Untyped,
        given: list[torch.Tensor],
        args: tuple[Any, ...],
        out: Untyped,
        *,
        known: bool,
    ) -> None:
        """Note whether a new result holds what it would hold on a GPU."""
        for tensor in tree_flatten(out)[0]:
            if not isinstance(tensor, torch.Tensor):
                continue
            place = storage_address(tensor)
            if func.overloadpacket in _ZEROS or func.overloadpacket in _UNWRITTEN:
                # What lay at the address before is gone.
                self._made.discard(place)
            else:
                self._made.add(place)
            if func.overloadpacket in _ZEROS:
                continue
            if (known and func.overloadpacket not in _UNWRITTEN) or place in self._chunks:
                continue
            self._unknown[place] = tensor
            pieces = _pieces_of(func, given, args)
            if pieces:
                self._pieces[place] = (tensor, pieces)

    def _note(self, func: Untyped, given: list[Any], made: list[Any]) -> None:
        if func.overloadpacket in _ALLOCATIONS:
            return
        name = str(func.name()).split(".")[0]
        moved = sum(_nbytes(t) for t in (*given, *made))
        frame = sys._getframe(2)  # noqa: SLF001 -- no public walk up the stack
        line = line_in(self._source, frame)
        self.operations.append(HostOperation(name=name, bytes=moved, line=line))


_aten = torch.ops.aten
_READS = {_aten._local_scalar_dense.default, _aten.is_nonzero.default}  # noqa: SLF001 -- torch has no public name for it
_CLEARING = {_aten.zero_, _aten.fill_}
_ZEROS = {_aten.zeros, _aten.zeros_like, _aten.new_zeros}
_UNWRITTEN = {
    *(_aten.empty, _aten.empty_strided, _aten.empty_like, _aten.new_empty, _aten.new_empty_strided)
}
_EMPTY = {*_UNWRITTEN, *_ZEROS, _aten.full, _aten.full_like, _aten.new_full}
"""Operations whose results kernels will write: painted pages are shared and must stay numbers."""
_COPYING = {_aten.clone, _aten._to_copy}  # noqa: SLF001 -- what casts dispatch to
"""Operations that copy every element of the argument to the same index of the result."""
_REPLACING = {_aten.zero_, _aten.fill_, _aten.copy_}
_ALLOCATIONS = {_aten.empty, _aten.empty_strided, _aten.empty_like, _aten.new_empty}


def _pieces_of(
    func: Untyped, given: list[torch.Tensor], args: tuple[Any, ...]
) -> tuple[Piece, ...]:
    """The pieces of a copy, a concatenation or a stack; empty for other operations."""
    if func.overloadpacket in _COPYING:
        return (Piece(given[0]),)
    if func.overloadpacket not in (_aten.cat, _aten.stack) or not given:
        return ()
    stacked = func.overloadpacket is _aten.stack
    dim = int(args[1]) % (given[0].dim() + stacked) if len(args) > 1 else 0
    pieces, offset = [], 0
    for source in given:
        pieces.append(Piece(source, dim, offset, stacked))
        offset += 1 if stacked else source.shape[dim]
    return tuple(pieces)


def _is_view(func: Untyped) -> bool:
    """Whether every result aliases an argument that is not written."""
    returns = func._schema.returns  # noqa: SLF001 -- the dispatcher's own description
    aliases = [r.alias_info for r in returns]
    return bool(aliases) and all(a is not None and not a.is_write for a in aliases)


def _changed(func: Untyped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The arguments that the operator writes to."""
    written = []
    for position, argument in enumerate(func._schema.arguments):  # noqa: SLF001 -- torch has no public name for it
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
    """Arguments that make an operator with a `device` argument return meta tensors."""
    names = {a.name for a in func._schema.arguments}  # noqa: SLF001 -- torch has no public name for it
    return {"device": torch.device("meta")} if "device" in names else {}


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
