"""Which elements of an output hold final values, followed through the host's copies.

Runs in candidate workers only.
"""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from msgspec import Struct
from numpy.typing import NDArray

from workbench.kernels.jobs import Called
from workbench.kernels.lazy import Piece
from workbench.kernels.storages import storage_address
from workbench.kernels.trace_launch import Grid

_MOST = 1 << 18
"""Elements of one output that are reported for one program (ours)."""
_DEEPEST = 4
"""Depth to which copies of copies are followed (ours)."""

Index = tuple[NDArray[np.int64], ...]


class Final(Struct, frozen=True):
    """The final values that one program left in one output."""

    program: Grid
    places: torch.Tensor
    """Flat indices, row-major."""
    values: torch.Tensor


def final_values(
    called: Called, tensor: torch.Tensor, seed: int, tentative: bool
) -> Iterator[Final]:
    """The final values that programs left in a tensor; with `tentative`, those that depend on flags
    too.
    """
    rng = random.Random(seed)  # noqa: S311 -- keyed by the judge's secret seed
    tensor = _in_one_dimension(tensor)
    for program, addresses, values in _left(called, tensor, rng, tentative, 0):
        lit, index = _indices(tensor, addresses, rng)
        if lit.any():
            places = np.ravel_multi_index(index, tuple(tensor.shape))
            flat = torch.from_numpy(np.asarray(places, dtype=np.int64))
            yield Final(program, flat, values[torch.from_numpy(lit)].to(tensor.dtype))


def source_of(called: Called, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor of which this one is a complete copy or cast; else the tensor itself."""
    for _ in range(_DEEPEST):
        found = called.host.pieces(tensor)
        if found is None or len(found[1]) > 1 or found[1][0].stacked:
            return tensor
        copy, (piece,) = found
        if copy.data_ptr() != tensor.data_ptr() or copy.shape != tensor.shape:
            return tensor
        tensor = piece.source
    return tensor


def count_in(tensor: torch.Tensor, offsets: NDArray[Any]) -> int:
    """How many of these byte offsets in a tensor's storage are elements of the tensor."""
    addresses = offsets.astype(np.int64) + storage_address(tensor)
    lit, _ = _indices(tensor, addresses, random.Random(0))  # noqa: S311 -- only counted
    return int(lit.sum())


def _left(
    called: Called, tensor: torch.Tensor, rng: random.Random, tentative: bool, depth: int
) -> Iterator[tuple[Grid, NDArray[Any], torch.Tensor]]:
    """For each program: addresses in a tensor's storage with the values there."""
    if called.book is None or not tensor.numel():
        return
    tensor = _in_one_dimension(tensor)
    found = called.host.pieces(tensor)
    if found is not None and not called.book.touched(tensor) and depth < _DEEPEST:
        copy, pieces = found
        for piece in pieces:
            yield from _through(called, copy, piece, rng, tentative, depth)
        return
    book = called.book
    for stored in book.tentative_in(tensor) if tentative else book.stored_in(tensor):
        addresses = stored.addresses
        if addresses.size > _MOST:
            first = rng.randrange(addresses.size - _MOST + 1)
            addresses = addresses[first : first + _MOST]
        lit, index = _indices(tensor, addresses, rng)
        if lit.any():
            at = tuple(torch.from_numpy(along) for along in index)
            yield stored.program, addresses[lit], tensor[at]


def _through(
    called: Called,
    copy: torch.Tensor,
    piece: Piece,
    rng: random.Random,
    tentative: bool,
    depth: int,
) -> Iterator[tuple[Grid, NDArray[Any], torch.Tensor]]:
    """The same for a copy, from what programs left in a piece of it."""
    copy, source = _in_one_dimension(copy), _in_one_dimension(piece.source)
    strides = [step * copy.element_size() for step in copy.stride()]
    for program, addresses, values in _left(called, source, rng, tentative, depth + 1):
        lit, index = _indices(source, addresses, rng)
        along = list(index) if piece.source.dim() or not piece.stacked else []
        if piece.stacked:
            along.insert(piece.dim, np.full(int(lit.sum()), piece.offset, dtype=np.int64))
        elif along:
            along[piece.dim] = along[piece.dim] + piece.offset
        there = copy.data_ptr() + sum(i * s for i, s in zip(along, strides, strict=True))
        if lit.any():
            moved = values[torch.from_numpy(lit)].to(copy.dtype)
            yield program, np.asarray(there, dtype=np.uint64), moved


def _in_one_dimension(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor; a scalar as a row of one element."""
    return tensor if tensor.dim() else tensor.reshape(1)


def _indices(
    tensor: torch.Tensor, addresses: NDArray[Any], rng: random.Random
) -> tuple[NDArray[np.bool_], Index]:
    """Which of the addresses are elements of the tensor, and their indices.

    Along a dimension of stride 0 the index is drawn.
    """
    offsets = addresses.astype(np.int64) - tensor.data_ptr()
    lit = (offsets >= 0) & (offsets % tensor.element_size() == 0)
    offsets = offsets // tensor.element_size()
    strides = tuple(tensor.stride())
    index: dict[int, NDArray[np.int64]] = {}
    for dim in sorted(range(tensor.dim()), key=lambda d: -strides[d]):
        size, stride = tensor.shape[dim], strides[dim]
        if size == 1:
            along = np.zeros_like(offsets)
        elif stride == 0:
            drawn = [rng.randrange(size) for _ in range(min(max(offsets.size, 1), 4096))]
            along = np.resize(np.array(drawn, dtype=np.int64), offsets.size)
        else:
            along = offsets // stride
            offsets = offsets % stride
            lit &= along < size
        index[dim] = along
    lit &= offsets == 0
    return lit, tuple(index[dim][lit] for dim in range(tensor.dim()))
