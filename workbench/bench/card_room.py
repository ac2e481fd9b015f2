"""Admits candidates to a GPU only while its memory holds what each of them may take there."""

import math
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from workbench.gate.problem.records import ShapeReport
from workbench.isolation.flavors import visible_device
from workbench.isolation.gpumemory import CONTEXT_BYTES, GpuMemory

BYTES_AN_ELEMENT = 64
"""Memory of one comparison or timing for each element of a shape's inputs, weights and outputs,
whatever its dtype: most of it is the reference's fp64 answers. Seen on an H200: 45 GiB for
softmax's 3 GiB of fp32, 51 for RMSNorm's 3.5, 61 for log_softmax's 2 of bf16."""
_CONTEXTS = 4
"""Workers of one comparison or timing, each with a CUDA context."""
_SHARE = 0.9
"""Share of the initially free memory that is used; the rest is for other processes (ours)."""


def needed(full: ShapeReport) -> int:
    """GPU memory that judging or timing a candidate at a shape may take, bytes."""
    entries = (*full.input_entries, *full.state, *full.output_entries)
    elements = sum(math.prod(entry.shape) for entry in entries)
    return BYTES_AN_ELEMENT * elements + _CONTEXTS * CONTEXT_BYTES


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
