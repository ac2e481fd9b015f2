"""Lets candidates onto a GPU only while its memory holds what each of them may take there."""

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from workbench.gate.problem.records import ShapeReport
from workbench.isolation.flavors import visible_device
from workbench.isolation.gpumemory import CONTEXT_BYTES, GpuMemory

TIMES_TENSORS = 15
"""Of a shape's inputs, weights and outputs: what the workers of one comparison or timing take
together. The reference's fp64 answers are most of it: 45 GiB of softmax's 3 GiB and 51 GiB of
RMSNorm's 3.5 GiB were seen on an H200."""
_CONTEXTS = 4
"""Workers of one comparison or timing, each with a context of CUDA's."""
_SHARE = 0.9
"""Share of what is free at the beginning; the rest is for what others begin (ours)."""


def needed(full: ShapeReport) -> int:
    """GPU memory that judging or timing a candidate at a shape may take, bytes."""
    entries = (*full.input_entries, *full.state, *full.output_entries)
    tensors = sum(entry.bytes for entry in entries)
    return TIMES_TENSORS * tensors + _CONTEXTS * CONTEXT_BYTES


def room_on(device_index: int | None) -> "Room":
    """What is free on a GPU now, of those that this process may see; unbounded where nobody says.

    Raises WorkbenchError for an index beyond `CUDA_VISIBLE_DEVICES`.
    """
    if device_index is None:
        return Room(None)
    memory = GpuMemory(visible_device(device_index, os.environ))
    try:
        free = memory.free()
    finally:
        memory.close()
    return Room(None if free is None else int(_SHARE * free))


class Room:
    """So many bytes, given to threads in the order in which they asked; None is without bound."""

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._taken = 0
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Have `size` bytes for the body, waited for; what is more than all there is goes alone."""
        self._enter(size)
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()

    def _enter(self, size: int) -> None:
        me = object()
        with self._changed:
            self._queue.append(me)
            try:
                self._changed.wait_for(lambda: self._queue[0] is me and self._fits(size))
                self._taken += size
            finally:
                self._queue.remove(me)
                self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        return self._size is None or not self._taken or self._taken + size <= self._size
