"""Admits candidates to a GPU only while its memory holds what each of them may take there."""

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from workbench.gate.problem.records import ShapeReport
from workbench.isolation.flavors import visible_device
from workbench.isolation.gpumemory import CONTEXT_BYTES, GpuMemory

TIMES_TENSORS = 15
"""Memory of one comparison or timing, as a multiple of a shape's inputs, weights and outputs. Most
of it is the reference's fp64 answers: 45 GiB for softmax's 3 GiB and 51 GiB for RMSNorm's 3.5 GiB
were seen on an H200."""
_CONTEXTS = 4
"""Workers of one comparison or timing, each with a CUDA context."""
_SHARE = 0.9
"""Share of the initially free memory that is used; the rest is for other processes (ours)."""


def needed(full: ShapeReport) -> int:
    """GPU memory that judging or timing a candidate at a shape may take, bytes."""
    entries = (*full.input_entries, *full.state, *full.output_entries)
    tensors = sum(entry.bytes for entry in entries)
    return TIMES_TENSORS * tensors + _CONTEXTS * CONTEXT_BYTES


def room_on(device_index: int | None) -> "Room":
    """The free memory of a visible GPU now; unbounded where it is unknown.

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
    """A number of bytes, granted to threads in the order of their requests; None is unbounded."""

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._taken = 0
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Hold `size` bytes during the body, waiting for them; a larger request than the total runs
        alone.
        """
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
