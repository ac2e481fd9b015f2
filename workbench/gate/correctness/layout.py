"""Where a tensor's bytes lie: windows, exact copies, guard bytes. Runs in workers only."""

from collections.abc import Sequence

import torch

from workbench.gate.correctness.protocol import TensorEntry
from workbench.problems.records import Layout

GUARD_BYTES = 4096
"""Before and after a guarded buffer; keeps the 256-byte alignment of the allocator."""

PAD = 3
"""Elements between rows of a padded tensor: few vector widths divide it (ours)."""

_MOST_COMPARED = 1 << 22
"""Elements of two outputs whose addresses are compared (ours)."""

_GUARD = 0xA5
"""Byte that fills the guards; as fp32 it reads -2.9e-16, as an index it is far out of bounds."""


def window(x: torch.Tensor) -> torch.Tensor:
    """The elements from the first to the last that `x` reaches, gaps included, as a 1-D view."""
    if x.numel() == 0:
        return x.detach().as_strided((0,), (1,), x.storage_offset())
    reach = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.detach().as_strided((reach,), (1,), x.storage_offset())


def copied(x: torch.Tensor) -> torch.Tensor:
    """A copy in storage of its own with the same strides, even where elements overlap."""
    return window(x).clone().as_strided(x.shape, x.stride(), 0)


def laid_out(x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """A copy in another layout; tensors of one dimension or none stay as they were.

    The values are the same, except for an expanded tensor.
    """
    if x.dim() < 2 or not x.numel():
        return copied(x)
    if layout is Layout.EXPANDED:
        return x[:1].clone().expand(x.shape)
    if layout is Layout.CHANNELS_LAST:
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return x.clone(memory_format=formats[x.dim()]) if x.dim() in formats else copied(x)
    if layout is Layout.TRANSPOSED:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    wider = x.new_zeros((*x.shape[:-1], x.shape[-1] + PAD))
    wider[..., : x.shape[-1]] = x
    return wider[..., : x.shape[-1]]


def write_over(old: torch.Tensor, new: torch.Tensor) -> None:
    """Copy `new` into `old`, which has the same layout, without changing its version counter."""
    window(old.data).copy_(window(new))


def alike(old: list[torch.Tensor], new: list[torch.Tensor]) -> bool:
    """Whether two lists of tensors agree in dtypes, shapes and strides."""
    return len(old) == len(new) and all(
        a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
        for a, b in zip(old, new, strict=True)
    )


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors' windows share a byte."""
    if a.numel() == 0 or b.numel() == 0 or a.device != b.device:
        return False
    end_a = a.data_ptr() + window(a).numel() * a.element_size()
    end_b = b.data_ptr() + window(b).numel() * b.element_size()
    return a.data_ptr() < end_b and b.data_ptr() < end_a


def shared_before(tensors: Sequence[torch.Tensor]) -> list[tuple[int, ...]]:
    """For each tensor, the earlier ones that share an element; interleaved ones do not."""
    if any(t.is_meta for t in tensors):  # nobody's memory
        return [() for _ in tensors]
    return [
        tuple(i for i in range(place) if overlap(tensors[i], t) and _meet(tensors[i], t))
        for place, t in enumerate(tensors)
    ]


def _meet(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors share the address of an element; False where there are too many."""
    if max(a.numel(), b.numel()) > _MOST_COMPARED:
        return a.data_ptr() == b.data_ptr()
    places = (_addresses(a), _addresses(b))
    return bool(torch.isin(*places).any())


def _addresses(x: torch.Tensor) -> torch.Tensor:
    """Addresses of its elements in bytes, relative to the storage."""
    found = torch.tensor([x.data_ptr()])
    for size, stride in zip(x.shape, x.stride(), strict=True):
        steps = torch.arange(size) * (stride * x.element_size())
        found = (found[:, None] + steps).reshape(-1)
    return found


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype are bitwise equal, NaNs included."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = a.contiguous().reshape(-1), b.contiguous().reshape(-1)
    return bool(torch.equal(x.view(torch.uint8), y.view(torch.uint8)))


def entry(name: str, tensor: torch.Tensor) -> TensorEntry:
    """The description of a tensor, without its contents."""
    return TensorEntry(
        name=name,
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        bytes=window(tensor).numel() * tensor.element_size(),
    )


def guarded_bytes(place: TensorEntry) -> int:
    """Bytes of a buffer that holds the tensor between two guards."""
    return place.bytes + 2 * GUARD_BYTES


def inside(guarded: torch.Tensor, place: TensorEntry) -> torch.Tensor:
    """The tensor of that description between the guards of a flat uint8 buffer."""
    flat = guarded[GUARD_BYTES : GUARD_BYTES + place.bytes].view(getattr(torch, place.dtype))
    return flat.as_strided(place.shape, place.strides)


def raise_guards(guarded: torch.Tensor) -> None:
    """Fill both guards."""
    guarded[:GUARD_BYTES] = _GUARD
    guarded[-GUARD_BYTES:] = _GUARD


def guards_hold(guarded: torch.Tensor) -> bool:
    """Whether neither guard was overwritten."""
    ends = torch.cat((guarded[:GUARD_BYTES], guarded[-GUARD_BYTES:]))
    return bool((ends == _GUARD).all())
