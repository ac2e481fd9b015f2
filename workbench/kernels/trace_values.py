"""Which memory holds what a complete run would leave there, although only a sample ran.

A value that a sampled program stored is final if everything it read was: given by the host, or
stored by a program that ran. What another program may have written counts as unknown. Only values
found in `stored` may be compared with the reference. Missing inputs are recorded too, from which
`trace_closure` finds the programs that produce them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from msgspec import Struct
from numpy.typing import NDArray
from torch.utils._python_dispatch import _disable_current_modes

from workbench.kernels.path_coverage import PathCoverage
from workbench.kernels.storages import storage_address
from workbench.kernels.trace_launch import Access, Grid, LaunchWatch
from workbench.kernels.trace_memory import region_of
from workbench.kernels.trace_stores import stored_parameters, uses_updates
from workbench.kernels.untyped import Untyped

Array = NDArray[Any]

_FLAGS = 4096
"""Size in bytes up to which a storage holds flags only (ours)."""
_MOST_KEPT = 1 << 20
"""Bytes of a storage that is restored between calls (ours): semaphores, partial sums."""
_MOST_SEEN = 64
"""Programs of a launch whose inputs and footprints are kept."""


class Stored(Struct, frozen=True):
    """What one program stored in one storage: addresses of elements, each once."""

    launch: int
    program: Grid
    addresses: Array


class Slot(Struct, frozen=True):
    """An argument of one launch, the same in every call of a candidate."""

    launch: int
    """Number of the launch in its call."""
    name: str


class Want(Struct, frozen=True):
    """Bytes of a storage that a program needs from others, as offsets."""

    program: Grid
    slots: tuple[Slot, ...]
    """Through which it is written."""
    offsets: Array


class Storage:
    """One storage that a kernel was given."""

    def __init__(self, tensor: torch.Tensor, *, known: bool) -> None:
        self.tensor = tensor
        """Kept alive so that no other tensor gets its addresses."""
        self.known = known
        """Its contents before any launch are the real ones."""
        self.written = False
        """Programs that did not run may have written to it."""
        self.slots: list[Slot] = []
        """Arguments through which launches of this call may write to it."""
        self.stored: list[Stored] = []
        self._sorted: Array | None = None

    def add(self, stored: Stored) -> None:
        """Add final values."""
        self.stored.append(stored)
        self._sorted = None

    def forget(self, *, before: int) -> None:
        """Drop what earlier launches stored: it may have been overwritten."""
        self.stored = [one for one in self.stored if one.launch >= before]
        self._sorted = None

    def missing(self, addresses: Array) -> Array:
        """Those of the addresses for which no program that ran stored a final value."""
        if self._sorted is None:
            parts = [one.addresses for one in self.stored]
            self._sorted = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.uint64)
        return addresses[~_among(addresses, self._sorted)]


class Book:
    """Every storage that launches of a call were given, by its address."""

    def __init__(
        self,
        known: Callable[[torch.Tensor], bool],
        unwritten: Callable[[torch.Tensor], bool] = lambda _: False,
    ) -> None:
        self._known = known
        """Whether the host left a tensor's contents as they would be on a GPU."""
        self._unwritten = unwritten
        """Whether a tensor was only allocated."""
        self._storages: dict[int, Storage] = {}
        self._launches = 0
        self._first = 0
        """Number of launches before this call."""
        self._names: dict[int, str] = {}
        self._tentative: dict[int, list[Stored]] = {}
        self._wants: dict[int, dict[tuple[Grid, tuple[Slot, ...]], list[Array]]] = {}
        self.footprints: dict[Slot, list[tuple[Grid, Array]]] = {}
        """What programs wrote through an argument, final or not, as offsets."""
        self.using_updates: set[Slot] = set()
        """Arguments of kernels that use the results of atomic updates."""
        self.closed: dict[Slot, Array] = {}
        """Offsets whose atomic updates all come from programs that run."""
        self.coverage: dict[int, PathCoverage] = {}
        """By launch of this call that runs as a sample: which other programs take the same path."""
        self.changed: frozenset[int] = frozenset()
        """Storages that an earlier call changed and nobody restored."""
        self._before: dict[int, tuple[torch.Tensor, torch.UntypedStorage | None]] = {}
        """What storages held before any kernel ran; None where they are too large."""
        self.partial = False
        """The current launch runs only a part of its programs."""
        self._writable: frozenset[int] = frozenset()
        self._relied = False
        """A program of the current launch read what others of it may write."""

    def stored_in(self, tensor: torch.Tensor) -> list[Stored]:
        """Final values in a tensor's storage, by the program that stored them."""
        storage = self._storages.get(storage_address(tensor))
        return [] if storage is None else storage.stored

    def tentative_in(self, tensor: torch.Tensor) -> list[Stored]:
        """Values there that are final provided that flags, their only other input, say so."""
        storage = self._storages.get(storage_address(tensor))
        if storage is None or not storage.slots:
            return []
        last = self._first + storage.slots[-1].launch + 1
        return [
            one for one in self._tentative.get(storage_address(tensor), ()) if one.launch == last
        ]

    def is_flag(self, place: int | None) -> bool:
        """Whether a storage is too small for anything but flags, tickets and locks."""
        storage = None if place is None else self._storages.get(place)
        return storage is not None and storage.tensor.untyped_storage().nbytes() <= _FLAGS

    def given(self, place: int) -> bool:
        """Whether a storage holds what the host put there, for every program."""
        storage = self._storages.get(place)
        return storage is not None and storage.known and not storage.slots and not storage.written

    def slots_of(self, tensor: torch.Tensor) -> tuple[Slot, ...]:
        """Arguments through which launches of this call may have written to a tensor's storage."""
        storage = self._storages.get(storage_address(tensor))
        return () if storage is None else tuple(storage.slots)

    def touched(self, tensor: torch.Tensor) -> bool:
        """Whether a launch may have written to a tensor's storage."""
        storage = self._storages.get(storage_address(tensor))
        return storage is not None and (storage.written or bool(storage.stored))

    @property
    def wanting(self) -> bool:
        """Whether a program of this call needs anything from others."""
        return bool(self._wants)

    @property
    def wants(self) -> dict[int, list[Want]]:
        """What programs of each launch of this call need from others, in the order they ran."""
        return {
            launch: [
                Want(program, slots, np.unique(np.concatenate(parts)))
                for (program, slots), parts in several.items()
            ]
            for launch, several in self._wants.items()
        }

    @property
    def launch(self) -> int:
        """Number of the current launch in its call."""
        return self._launches - self._first - 1

    def new_call(self) -> None:
        """The launches from here on belong to another call."""
        self._first = self._launches
        self.coverage.clear()
        for storage in self._storages.values():
            storage.slots.clear()

    def begin(self, function: Untyped, bound: Mapping[str, object], *, partial: bool) -> None:
        """A launch with these arguments begins; `partial` when not all programs will run."""
        self._launches += 1
        self.partial = partial
        self._relied = False
        writable = stored_parameters(function)
        self._names = {}
        uses = uses_updates(function)
        places = set()
        for name, value in bound.items():
            for tensor in _tensors(value):
                place = storage_address(tensor)
                if place not in self._storages:
                    known = self._known(tensor) and place not in self.changed
                    self._storages[place] = Storage(tensor, known=known)
                if name in writable:
                    self._keep(place, tensor)
                    places.add(place)
                    self._names[place] = name
                    slot = Slot(self.launch, name)
                    self._storages[place].slots.append(slot)
                    self.using_updates |= {slot} if uses else set()
        self._writable = frozenset(places)

    def _keep(self, place: int, tensor: torch.Tensor) -> None:
        if place not in self._before:
            held: Untyped = tensor.untyped_storage()
            with _disable_current_modes():  # the host did not do it
                kept = held.clone() if held.nbytes() <= _MOST_KEPT else None
            self._before[place] = tensor, kept

    def put_back(self) -> frozenset[int]:
        """Restore what every storage held before any kernel ran, for another call.

        Storages that are too large stay as they are.
        """
        for tensor, held in self._before.values():
            if held is not None:
                with _disable_current_modes():
                    tensor.untyped_storage().copy_(held)
        return frozenset(place for place, (_, held) in self._before.items() if held is None)

    def end(self, *, partial: bool) -> None:
        """The launch is over; what others of its programs may have written is unknown."""
        for place in self._writable if partial else ():
            storage = self._storages[place]
            # Cut short: programs may have read what later ones would have written.
            storage.forget(before=self._launches + self._relied)
            storage.written = True

    def reads(self, program: Grid, place: int | None, addresses: Array, own: Array | None) -> bool:
        """Whether the values at the addresses are final; `own` is what the program stored itself.

        What is missing is recorded as wanted.
        """
        storage = None if place is None else self._storages.get(place)
        if storage is None:
            return False
        beside = place in self._writable
        self._relied |= beside and not self.partial
        others_write = storage.written or (self.partial and beside)
        if not others_write and (storage.known or self._unwritten(storage.tensor)):
            return True  # what nobody writes is nobody's answer: it may hold anything
        if own is not None and own.size:
            addresses = addresses[~np.isin(addresses, own)]
        missing = storage.missing(addresses)
        if missing.size:
            slots = [slot for slot in storage.slots if slot.launch < self.launch]
            self._want(program, tuple(slots), missing - np.uint64(place or 0))
        return not missing.size

    def adds(self, program: Grid, place: int | None, addresses: Array) -> bool:
        """Whether the atomic updates of an address all come from programs that run.

        Then their results are right too: any order of programs is legal.
        """
        name = None if place is None else self._names.get(place)
        if place is None or name is None:
            return False
        slot, offsets = Slot(self.launch, name), addresses - np.uint64(place)
        closed = self.closed.get(slot)
        if closed is not None and bool(_among(offsets, closed).all()):
            return True
        self._want(program, (slot,), offsets)
        return False

    def _want(self, program: Grid, slots: tuple[Slot, ...], offsets: Array) -> None:
        wants = self._wants.setdefault(self.launch, {})
        if slots and (len(wants) < _MOST_SEEN or (program, slots) in wants):
            wants.setdefault((program, slots), []).append(offsets)

    def wrote(self, program: Grid, place: int, addresses: Array) -> None:
        """Record where a program wrote, whether or not the values are final."""
        name = self._names.get(place)
        if name is not None:
            seen = self.footprints.setdefault(Slot(self.launch, name), [])
            if len(seen) < _MOST_SEEN:
                seen.append((program, addresses - np.uint64(place)))

    def stores(self, place: int, program: Grid, addresses: Array) -> None:
        """Record the final values that one program stored."""
        self._storages[place].add(Stored(self._launches, program, addresses))

    def spoils(self, place: int, program: Grid, addresses: Array, *, but_for_flags: bool) -> None:
        """A program stored values there that depend on programs that did not run."""
        if but_for_flags:
            found = self._tentative.setdefault(place, [])
            found.append(Stored(self._launches, program, addresses))
        storage = self._storages[place]
        storage.forget(before=self._launches)
        storage.written = True

    def spoils_all(self) -> None:
        """A program stored through a pointer whose tensor is unknown."""
        for storage in self._storages.values():
            storage.forget(before=self._launches + 1)
            storage.written = True


class BookWatch(LaunchWatch):
    """The watch of one launch that also records which memory is final."""

    book: Book

    def given(self, place: int) -> bool:
        """Whether no kernel of the call writes a storage whose contents are known."""
        return self.book.given(place)

    def begin_program(self, program: Grid) -> None:
        """A new program starts, with nothing read and nothing stored."""
        super().begin_program(program)
        self._final = self._but_for_flags = True
        self._own: dict[int, list[Array]] = {}
        self._updated: set[int] = set()
        """Storages that it updated atomically: a sum of all programs is not a flag for itself."""

    def access(self, kind: Access, pointers: Untyped, mask: Array) -> Array:
        """Check and count an access, and record what it reads and stores."""
        allowed = super().access(kind, pointers, mask)
        region = region_of(pointers.dtype)
        place = None if region is None else region.low
        addresses = pointers.data[np.broadcast_to(allowed, pointers.data.shape)].reshape(-1)
        if not addresses.size:
            return allowed
        if kind != "store":
            own = self._own.get(place) if place is not None else None
            mine = np.concatenate(own) if own else None
            if not self._reads(kind, place, addresses, mine):
                self._final = False
                self._but_for_flags &= self.book.is_flag(place)
        if kind != "load":
            if place is None:
                self._final = self._but_for_flags = False
                self.book.spoils_all()
            else:
                self._own.setdefault(place, []).append(addresses.copy())
                self._updated |= {place} if kind == "atomic" else set()
        return allowed

    def end_program(self) -> None:
        """Its stores are final if all it read was; otherwise they are unknown."""
        super().end_program()
        for place, parts in self._own.items():
            addresses = np.unique(np.concatenate(parts))
            self.book.wrote(self.program, place, addresses)
            if self._final:
                self.book.stores(place, self.program, addresses)
            else:
                flags = self._but_for_flags and place not in self._updated
                self.book.spoils(place, self.program, addresses, but_for_flags=flags)

    def _reads(self, kind: Access, place: int | None, addresses: Array, own: Array | None) -> bool:
        """Whether a load, or an atomic update, depends on nothing that other programs should have
        left.

        An update adds to what all programs add; it is final where all of those have run.
        """
        if kind == "atomic" and self.book.partial:
            return self.book.adds(self.program, place, addresses)
        return self.book.reads(self.program, place, addresses, own)


def _among(wanted: Array, ordered: Array) -> Array:
    """Which of `wanted` are in the sorted array."""
    if not ordered.size:
        return np.zeros(wanted.shape, dtype=np.bool_)
    at = np.minimum(np.searchsorted(ordered, wanted), ordered.size - 1)
    found: Array = ordered[at] == wanted
    return found


def _tensors(value: object) -> Iterator[torch.Tensor]:
    """The tensors in an argument: itself, a descriptor's or wrapper's base, a tuple's items."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "base"):
        yield from _tensors(value.base)
