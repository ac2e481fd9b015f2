"""Interprets the programs of a launch as if none saw another's stores, which exposes data races.

Runs in candidate workers only. Programs of one launch run concurrently on a GPU, so a program may
read memory as it was at launch although another, earlier in the interpreter's order, has written
it; only atomics that acquire order two programs, relaxed ones show what they update. Running every
program on the memory of the launch plus its own stores is therefore a legal execution, and a kernel
that is wrong under it has a data race (load, add, store in place of an atomic add), which no
sequential order of programs can show.
"""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.faults import CannotJudge
from workbench.kernels.interpret_lanes import Meetings
from workbench.kernels.records import LaunchTrace
from workbench.kernels.trace_launch import Access, Grid, LaunchWatch, Sight, candidate_line
from workbench.kernels.trace_memory import region_of
from workbench.kernels.untyped import Untyped

_MOST_COPIED = 2 << 30
"""Bytes copied for programs that use atomics (ours: a second); beyond that they run in sequence."""

_MOST_ATOMICS = 20_000
"""Most atomic operations of one program (ours): seconds of interpreting, beyond any real use."""

Bytes = NDArray[np.uint8]


class _Memory:
    """One storage: its present contents, those at launch, and those that all programs together
    leave.
    """

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high
        raw = (ctypes.c_uint8 * (high - low)).from_address(low)
        self.live: Bytes = np.frombuffer(memoryview(raw), dtype=np.uint8)
        self.launch = self.live.copy()
        self.final = self.live.copy()
        self.own: list[NDArray[Any]] = []
        """Byte offsets that the running program has stored to."""

    def stored(self) -> NDArray[Any]:
        """Those offsets, each once."""
        return np.unique(np.concatenate(self.own)) if self.own else np.empty(0, dtype=np.int64)


class PatientWatch(LaunchWatch):
    """The watch of one launch, which detects dependencies on an order that a GPU does not keep.

    The interpreter runs one program after the other, so a lock that a later program must open, or a
    grid-wide barrier, would hang; and it runs all lanes of a program together, which on a GPU do
    not wait for each other. Raises CannotJudge.
    """

    def begin_program(self, program: Grid) -> None:
        """A new program starts; it has not waited on memory yet."""
        super().begin_program(program)
        self._tries = 0
        self._meetings = Meetings()

    def waited(self) -> None:
        """A barrier: stores of all lanes are visible to all."""
        self._meetings.wait()

    def access(self, kind: Access, pointers: Untyped, mask: NDArray[Any]) -> NDArray[Any]:
        """Check an access; count it when it is an atomic, which orders lanes too."""
        allowed = super().access(kind, pointers, mask)
        region = region_of(pointers.dtype)
        if kind == "atomic":
            self.waited()
            self._tries += 1
            if self._tries > _MOST_ATOMICS:
                self._cannot("programs that wait for each other", "")
        elif region is not None:
            meet = self._meetings.load if kind == "load" else self._meetings.store
            if meet(region.low, pointers.data, allowed):
                what = "lanes that meet in memory with no tl.debug_barrier() in between"
                self._cannot(what, "lanes-race")
        return allowed

    def _cannot(self, thing: str, doubt: str) -> None:
        raise CannotJudge(thing, kernel=self.kernel, line=candidate_line(), doubt=doubt)


class ApartWatch(PatientWatch):
    """The watch of one launch whose programs do not see each other's stores."""

    def begin_program(self, program: Grid) -> None:
        """A new program starts on the memory of the launch."""
        super().begin_program(program)
        if not hasattr(self, "_memories"):
            spans = {(region.low, region.high) for region in self.regions if region.nbytes}
            self._memories = [_Memory(low, high) for low, high in sorted(spans)]
            self._copied = 0
            self._together = False
        self._met = False

    def access(self, kind: Access, pointers: Untyped, mask: NDArray[Any]) -> NDArray[Any]:
        """Check an access; record what it stores to; from an atomic on, show other programs'
        stores.
        """
        allowed = super().access(kind, pointers, mask)
        if kind == "atomic" and self.sight is Sight.EVERYTHING:
            self._meet()
        elif kind != "load" and not self._together:
            width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
            shown = kind == "atomic" and self.sight is Sight.ADDRESS
            active = pointers.data[np.broadcast_to(allowed, pointers.data.shape)]
            self._note(active, width, shown=shown)
        return allowed

    def end_program(self) -> None:
        """Merge the program's stores; the next one starts from the memory of the launch again."""
        super().end_program()
        for memory in () if self._together else self._memories:
            if self._met:
                memory.final[:] = memory.live
                memory.live[:] = memory.launch
            else:
                places = memory.stored()
                memory.final[places] = memory.live[places]
                memory.live[places] = memory.launch[places]
            memory.own.clear()

    def trace(self, grid: Grid, programs: int) -> LaunchTrace:
        """The launch is over: leave memory as all programs together made it."""
        for memory in () if self._together else getattr(self, "_memories", ()):
            memory.live[:] = memory.final
        return super().trace(grid, programs)

    def _note(self, addresses: NDArray[Any], width: int, *, shown: bool) -> None:
        """Note what the program is about to store to; `shown`: as other programs have left it."""
        for memory in self._memories:
            inside = addresses[(addresses >= memory.low) & (addresses < memory.high)]
            if inside.size:
                first = (inside - np.uint64(memory.low)).astype(np.int64)
                places = (first[:, None] + np.arange(width)).reshape(-1)
                if shown and not self._met:
                    others = places[~np.isin(places, memory.stored())]
                    memory.live[others] = memory.final[others]
                memory.own.append(places)

    def _meet(self) -> None:
        """From here on the program sees what earlier programs stored; done once a program."""
        if self._met or self._together:
            return
        self._met = True
        for memory in self._memories:
            places = memory.stored()
            own = memory.live[places]
            memory.live[:] = memory.final
            memory.live[places] = own
            self._copied += 3 * memory.live.size
        # Copying whole storages for every program would take minutes: the rest runs in sequence.
        self._together = self._copied > _MOST_COPIED
