"""Which memory holds what a whole run would leave there, when only a sample of programs ran.

A value that a sampled program stored is final if everything it read was: given from outside, or
stored by a program that ran. Whatever another program may have written counts as unknown. So what
is found in `stored` may be held against the reference, and nothing else may.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from msgspec import Struct
from numpy.typing import NDArray

from workbench.kernels.trace_launch import Access, Grid, LaunchWatch
from workbench.kernels.trace_memory import region_of
from workbench.kernels.trace_stores import stored_parameters
from workbench.kernels.untyped import Untyped

Array = NDArray[Any]


class Stored(Struct, frozen=True):
    """What one program stored in one storage: addresses of elements, each once."""

    launch: int
    program: Grid
    addresses: Array


class Storage:
    """One storage that a kernel was handed."""

    def __init__(self, tensor: torch.Tensor, *, known: bool) -> None:
        self.tensor = tensor
        """Kept, so that its addresses are nobody else's while the books are open."""
        self.known = known
        """Its contents before any launch are the real ones."""
        self.written = False
        """Programs that did not run may have written to it."""
        self.stored: list[Stored] = []
        self._sorted: Array | None = None

    def add(self, stored: Stored) -> None:
        """Note final values."""
        self.stored.append(stored)
        self._sorted = None

    def forget(self, *, before: int) -> None:
        """Drop what launches before that one stored: it may have been overwritten."""
        self.stored = [one for one in self.stored if one.launch >= before]
        self._sorted = None

    def holds(self, addresses: Array) -> bool:
        """Whether programs that ran stored to every one of the addresses."""
        if self._sorted is None:
            parts = [one.addresses for one in self.stored]
            self._sorted = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.uint64)
        return _among(addresses, self._sorted)


class Book:
    """Every storage that launches of a call were handed, by its address."""

    def __init__(self, known: Callable[[torch.Tensor], bool]) -> None:
        self._known = known
        """Whether the host left a tensor's contents as they would be on a GPU."""
        self._storages: dict[int, Storage] = {}
        self._launches = 0
        self.partial = False
        """The launch at hand runs a part of its programs only."""
        self._writable: frozenset[int] = frozenset()

    def stored_in(self, tensor: torch.Tensor) -> list[Stored]:
        """Final values in a tensor's storage, by the program that stored them."""
        storage = self._storages.get(_address(tensor))
        return [] if storage is None else storage.stored

    def touched(self, tensor: torch.Tensor) -> bool:
        """Whether a launch may have written to a tensor's storage."""
        storage = self._storages.get(_address(tensor))
        return storage is not None and (storage.written or bool(storage.stored))

    def begin(self, function: Untyped, bound: Mapping[str, object], *, partial: bool) -> None:
        """A launch with these arguments begins; `partial` when not all programs will run."""
        self._launches += 1
        self.partial = partial
        writable = stored_parameters(function)
        places = set()
        for name, value in bound.items():
            for tensor in _tensors(value):
                place = _address(tensor)
                if place not in self._storages:
                    self._storages[place] = Storage(tensor, known=self._known(tensor))
                if name in writable:
                    places.add(place)
        self._writable = frozenset(places)

    def end(self, *, partial: bool) -> None:
        """The launch is over; what others of its programs may have written is unknown."""
        for place in self._writable if partial else ():
            storage = self._storages[place]
            if self.partial:
                storage.forget(before=self._launches)
            else:  # cut short: programs read what others were still to write
                storage.forget(before=self._launches + 1)
            storage.written = True

    def reads(self, place: int | None, addresses: Array, own: Array | None) -> bool:
        """Whether what lies at the addresses is final; `own` is what the program stored itself."""
        storage = None if place is None else self._storages.get(place)
        if storage is None:
            return False
        others_write = storage.written or (self.partial and place in self._writable)
        if storage.known and not others_write:
            return True
        if own is not None and own.size:
            addresses = addresses[~np.isin(addresses, own)]
        return storage.holds(addresses)

    def stores(self, place: int, program: Grid, addresses: Array) -> None:
        """Note the final values that one program stored."""
        self._storages[place].add(Stored(self._launches, program, addresses))

    def spoils(self, place: int) -> None:
        """A program stored there what depends on programs that did not run."""
        storage = self._storages[place]
        storage.forget(before=self._launches)
        storage.written = True

    def spoils_all(self) -> None:
        """A program stored through a pointer that nobody can place."""
        for storage in self._storages.values():
            storage.forget(before=self._launches + 1)
            storage.written = True


class BookWatch(LaunchWatch):
    """The books of one launch, with those of memory."""

    book: Book

    def begin_program(self, program: Grid) -> None:
        """A new program starts, with nothing read and nothing stored."""
        super().begin_program(program)
        self._final = True
        self._own: dict[int, list[Array]] = {}

    def access(self, kind: Access, pointers: Untyped, mask: Array) -> Array:
        """Check and count an access, and keep the books."""
        allowed = super().access(kind, pointers, mask)
        region = region_of(pointers.dtype)
        place = None if region is None else region.low
        addresses = pointers.data[np.broadcast_to(allowed, pointers.data.shape)].reshape(-1)
        if not addresses.size:
            return allowed
        if kind != "store":
            own = self._own.get(place) if place is not None else None
            mine = np.concatenate(own) if own else None
            self._final = self._final and self.book.reads(place, addresses, mine)
        if kind == "atomic" and self.book.partial:
            self._final = False  # what it adds to and gets back is other programs' too
        if kind != "load":
            if place is None:
                self._final = False
                self.book.spoils_all()
            else:
                self._own.setdefault(place, []).append(addresses.copy())
        return allowed

    def end_program(self) -> None:
        """What it stored is final if all it read was; else it may stand for nothing."""
        super().end_program()
        for place, parts in self._own.items():
            if self._final:
                self.book.stores(place, self.program, np.unique(np.concatenate(parts)))
            else:
                self.book.spoils(place)


def _among(wanted: Array, ordered: Array) -> bool:
    """Whether every one of `wanted` is in the ordered array."""
    if not ordered.size:
        return not wanted.size
    at = np.minimum(np.searchsorted(ordered, wanted), ordered.size - 1)
    return bool((ordered[at] == wanted).all())


def _address(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _tensors(value: object) -> Iterator[torch.Tensor]:
    """The tensors in an argument: itself, a descriptor's or wrapper's base, a tuple's items."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "base"):
        yield from _tensors(value.base)
