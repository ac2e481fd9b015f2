"""The memory that a launch may access and does access: bounds, sectors, lanes per argument."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from triton.language import pointer_type

from workbench.kernels.records import Traffic
from workbench.kernels.untyped import Untyped

SECTOR = 32
"""Least bytes that L2 and DRAM transfer (CUDA Best Practices Guide, "Coalesced Access")."""
LANES = 32
_WIDEST = 16
"""Most bytes that one lane loads or stores in one instruction up to sm_90."""
_KEEP = 1 << 22
"""Sectors that a program may collect unsorted before they are packed."""

Array = NDArray[Any]


class Region:
    """The storage of one tensor argument, and the traffic of one launch on it."""

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self.name = name
        self.low = storage.data_ptr()
        self.high = self.low + storage.nbytes()
        self.loaded = 0
        self.stored = 0
        self.requested = 0
        self.begins: list[int | None] = []
        self._first_sector = self.low // SECTOR
        self._touched: list[Array] = []
        self._written: list[Array] = []
        self._pending = 0
        self._seen: Array | None = None
        self._seen_written: Array | None = None
        self._program_sectors = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the storage."""
        return self.high - self.low

    def touch(self, sectors: Array, *, write: bool) -> None:
        """Add the sectors (absolute address over 32) of one access; duplicates are fine."""
        (self._written if write else self._touched).append(sectors)
        self._pending += sectors.size
        if self._pending > _KEEP:
            self._touched = [_packed(self._touched)] if self._touched else []
            self._written = [_packed(self._written)] if self._written else []
            self._pending = sum(a.size for a in (*self._touched, *self._written))

    def close_program(self) -> None:
        """Add what one program touched to the launch's total."""
        if not self._touched and not self._written:
            return
        own = _packed([*self._touched, *self._written])
        self._program_sectors += own.size
        if self._seen is None or self._seen_written is None:
            length = self.high // SECTOR - self._first_sector + 1
            self._seen = np.zeros(length, dtype=np.bool_)
            self._seen_written = np.zeros(length, dtype=np.bool_)
        self._seen[own - self._first_sector] = True
        if self._written:
            self._seen_written[_packed(self._written) - self._first_sector] = True
        self._touched, self._written, self._pending = [], [], 0

    def traffic(self, scale: float, each: float) -> Traffic:
        """The total; byte counts times `scale`, those of one program times `each`."""
        return Traffic(
            loaded=round(self.loaded * scale),
            stored=round(self.stored * scale),
            requested=round(self.requested * scale),
            unique_sectors=_count(self._seen),
            stored_sectors=_count(self._seen_written),
            granules=_pairs(self._seen, self._first_sector),
            sectors_per_program=self._program_sectors * each,
            sharing=_sharing(self.begins),
            footprint=self.nbytes,
        )


class ArgumentPointer(pointer_type):  # type: ignore[misc]  # triton is untyped
    """A pointer type that remembers whose argument it points into.

    The interpreter carries a handle's type through arithmetic, so the region comes along.
    """

    def __init__(self, plain: Untyped, region: Region) -> None:
        super().__init__(plain.element_ty, plain.address_space, plain.const)
        self.region = region


def region_of(dtype: Untyped) -> Region | None:
    """The region that a pointer of this type belongs to; None if unknown."""
    return dtype.region if isinstance(dtype, ArgumentPointer) else None


def outside(addresses: Array, width: int, regions: list[Region]) -> Array:
    """Which addresses are not, with all their `width` bytes, inside one of the regions."""
    if addresses.size and len(regions) == 1:
        low, high = regions[0].low, regions[0].high
        if int(addresses.min()) >= low and int(addresses.max()) + width <= high:
            return np.zeros(addresses.shape, dtype=np.bool_)
    inside = np.zeros(addresses.shape, dtype=np.bool_)
    for region in regions:
        if region.nbytes >= width:
            inside |= (addresses >= region.low) & (addresses <= region.high - width)
    return ~inside


def nearest(address: int, regions: list[Region]) -> Region:
    """The region closest to an address."""
    return min(regions, key=lambda r: max(r.low - address, address - r.high + 1, 0))


def in_lane_order(addresses: Array, mask: Array) -> tuple[Array, Array]:
    """Both flattened in the order of lanes: the dimension with the smallest stride first.

    This is how triton's coalescing pass orders lanes.
    """
    if addresses.ndim < 2:
        return addresses.reshape(-1), mask.reshape(-1)
    origin = int(addresses[(0,) * addresses.ndim])
    strides = []
    for axis, length in enumerate(addresses.shape):
        at = [0] * addresses.ndim
        at[axis] = min(1, length - 1)
        stride = abs(int(addresses[tuple(at)]) - origin)
        strides.append(stride or 1 << 60)
    order = sorted(range(addresses.ndim), key=lambda axis: -strides[axis])
    return addresses.transpose(order).reshape(-1), mask.transpose(order).reshape(-1)


def requested_sectors(addresses: Array, mask: Array, width: int, inner: int) -> int:
    """Sectors requested by warps of 32 lanes, each with the widest legal vector.

    `addresses` and `mask` are in lane order, `inner` is the length of the fastest dimension.
    """
    group = LANES * _vector(addresses, width, inner)
    count = addresses.size
    if count % group:
        pad = group - count % group
        addresses = np.concatenate([addresses, addresses[:1].repeat(pad)])
        mask = np.concatenate([mask, np.zeros(pad, dtype=np.bool_)])
    sectors = (addresses // SECTOR).reshape(-1, group)
    lit = mask.reshape(-1, group)
    if not lit.all():
        # A masked lane requests nothing: let it repeat the first of its group.
        sectors = np.where(lit, sectors, 0)
        sectors.sort(axis=1)
        changes = int((sectors[:, 1:] != sectors[:, :-1]).sum())
        return changes + int((sectors[:, 0] != 0).sum())
    changed = sectors[:, 1:] != sectors[:, :-1]
    if bool((sectors[:, 1:] < sectors[:, :-1]).any()):
        sectors = np.sort(sectors, axis=1)
        changed = sectors[:, 1:] != sectors[:, :-1]
    return int(changed.sum()) + sectors.shape[0]


def _vector(addresses: Array, width: int, inner: int) -> int:
    """Elements that one lane takes at once: contiguous, aligned, at most 16 bytes."""
    if addresses.size < 2 * LANES or int(addresses[1]) - int(addresses[0]) != width:
        return 1
    vector = 1
    while (
        2 * vector * width <= _WIDEST
        and inner % (2 * vector) == 0
        and addresses.size // (2 * vector) >= LANES
        and int(addresses[0]) % (2 * vector * width) == 0
    ):
        vector *= 2
    return vector


def touched_sectors(addresses: Array) -> Array:
    """Sectors of active addresses, runs of equal ones already folded."""
    sectors = (addresses // SECTOR).astype(np.int64)
    if sectors.size < 2:
        return sectors
    keep = np.empty(sectors.size, dtype=np.bool_)
    keep[0] = True
    np.not_equal(sectors[1:], sectors[:-1], out=keep[1:])
    return sectors[keep]


def _packed(parts: list[Array]) -> Array:
    return np.unique(np.concatenate(parts))


def _count(seen: Array | None) -> int:
    return 0 if seen is None else int(np.count_nonzero(seen))


def _pairs(seen: Array | None, first: int) -> int:
    if seen is None:
        return 0
    odd = first % 2
    even = (seen.size - odd) // 2 * 2 + odd
    whole = np.count_nonzero(seen[odd:even].reshape(-1, 2).any(axis=1))
    return int(whole + np.count_nonzero(seen[:odd]) + np.count_nonzero(seen[even:]))


def atomic_requests(addresses: Array) -> int:
    """Updates that L2 serializes for active lanes, in lane order.

    Lanes of one warp on different words of a sector are combined, lanes on one word are not
    (measured: 1.8 ns an update of one address, 2.5 ns a sector of a line).
    """
    whole = addresses.size // LANES * LANES
    rest = addresses[whole:]
    total = int(_updates(addresses[:whole].reshape(-1, LANES)).sum()) if whole else 0
    return total + (int(_updates(rest.reshape(1, -1)).sum()) if rest.size else 0)


def _updates(groups: Array) -> Array:
    """Per row: its distinct sectors, or how often a word comes up where that is more."""
    words = np.sort(groups, axis=1)
    distinct = (words[:, 1:] != words[:, :-1]).sum(axis=1) + 1
    sectors = words // SECTOR
    touched = (sectors[:, 1:] != sectors[:, :-1]).sum(axis=1) + 1
    updates: Array = np.maximum(touched, groups.shape[1] // distinct)
    return updates


def _sharing(begins: list[int | None]) -> tuple[int, ...]:
    """Distinct sectors among the first 1, 2, 4, ... probed programs."""
    counts = []
    length = 1
    while length <= len(begins):
        counts.append(len({b for b in begins[:length] if b is not None}))
        length *= 2
    return tuple(counts) if any(counts) else ()
