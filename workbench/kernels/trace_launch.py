"""Observes one launch while it is interpreted: checks every access, and counts work if asked."""

import sys
from collections import Counter, defaultdict
from enum import Enum, auto
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np
import triton
from numpy.typing import NDArray

from workbench.kernels.faults import AccessOutOfBounds, CannotJudge
from workbench.kernels.records import LaunchTrace, OutOfBounds
from workbench.kernels.standin_tensors import addresses_told
from workbench.kernels.trace_ahead import Ahead
from workbench.kernels.trace_memory import (
    Region,
    atomic_requests,
    in_lane_order,
    nearest,
    outside,
    region_of,
    requested_sectors,
    touched_sectors,
)
from workbench.kernels.trace_trips import tilt
from workbench.kernels.untyped import Untyped

Access = Literal["load", "store", "atomic"]
Grid = tuple[int, int, int]
Span = tuple[int, int]
"""First address of a storage, and the one past its end."""
Array = NDArray[Any]

_LIBRARY = (str(Path(triton.__file__).parent), str(Path(__file__).parent.parent))
_MOST_REPORTS = 100
_ACCESS_WORK = 5000
"""Cost of interpreting an access with its index arithmetic, in lanes, however few it has."""


class Sight(Enum):
    """What an atomic shows of what other programs have stored so far."""

    EVERYTHING = auto()
    ADDRESS = auto()
    """The numbers that it updates: with no acquire, nothing else is ordered."""
    NOTHING = auto()
    """It is atomic for its own program alone."""


class ProbeDone(Exception):
    """A probed program has shown what it reads first."""


class LaunchWatch:
    """Checks and counts of one launch."""

    def __init__(
        self, kernel: str, regions: list[Region], *, line: int, counting: bool, raising: bool
    ) -> None:
        self.kernel = kernel
        self.regions = regions
        self.line = line
        self.counting = counting
        self.probing = False
        self.program: Grid = (0, 0, 0)
        self.sight = Sight.EVERYTHING
        """What the atomic that comes next shows its program of the others' stores."""
        self.wrote: set[Span] = set()
        """Storages that the launch has stored to."""
        self.unfinished: frozenset[Span] = frozenset()
        """Storages that earlier launches store to, which this one may overtake."""
        self.ahead: list[Ahead] = []
        """The pipelined loops that the program is in."""
        self._joined = False
        self.unrolled: tuple[int, ...] = ()
        """Iteration numbers of the static loops that are being unrolled."""
        self.work = 0
        """Cost of interpreting so far, in lanes; a million take about 0.2 s."""
        self._raising = raising
        self._reports: list[OutOfBounds] = []
        self._lanes = self._masked = self._useful = self._requested = 0
        self._vector = self._integer = self._special = self._reduced = self._atomics = 0
        self._steps = self._loads = self._reductions = self._atomic_requests = 0
        self._places: set[object] = set()
        self._waiting: set[object] = set()
        self.mean_trips: float | None = None
        """Mean trip count of the first loop over all programs; None if unknown."""
        self.trips: list[int | None] = []
        """Trip count of the first loop, for each program that started; None for one without a loop
        so far."""
        self._dots: Counter[str] = Counter()
        self._tiles: defaultdict[str, Counter[tuple[int, int, int]]] = defaultdict(Counter)

    def given(self, place: int) -> bool:  # noqa: ARG002 -- books know
        """Whether a storage still holds what it was given, in the elements of all programs."""
        return False

    def begin_program(self, program: Grid) -> None:
        """A new program starts, with no load in flight."""
        self.program = program
        self.trips.append(None)
        self._waiting.clear()
        self._joined = False
        self.ahead.clear()

    def joins(self) -> None:
        """The program waits until all launches before its own are over."""
        self._joined = True

    def loops(self, trips: int) -> None:
        """A loop over a run-time range begins."""
        if self.trips and self.trips[-1] is None:
            self.trips[-1] = trips

    def waited(self) -> None:
        """A barrier of the program's threads."""

    def end_program(self) -> None:
        """The program is over: its footprint joins the launch's."""
        for region in self.regions:
            region.close_program()

    def access(self, kind: Access, pointers: Untyped, mask: Array) -> Array:
        """Check one access before it happens and count it; returns the mask of lanes that may go
        on.

        Raises AccessOutOfBounds, or masks the offending lanes off and reports them.
        """
        addresses: Array = pointers.data
        mask = np.broadcast_to(mask, addresses.shape)
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        region = region_of(pointers.dtype)
        full = bool(mask.all())
        active = addresses.reshape(-1) if full else addresses[mask]
        bad = outside(active, width, self.regions if region is None else [region])
        if bad.any():
            mask = self._out_of_bounds(kind, addresses, mask, bad, region)
            full, active = False, addresses[mask]
        if region is not None and active.size:
            self._meets_launches(kind, region)
        for loop in self.ahead if kind != "atomic" else ():
            self._issued_ahead(loop, kind, active)
        if self.counting:
            self._count(kind, addresses, mask, active, width, region)
        return mask

    def _issued_ahead(self, loop: Ahead, kind: Access, active: Array) -> None:
        """Raises CannotJudge where a load of a pipelined loop may come before a store it needs."""
        if kind == "store":
            loop.stored(active)
        elif loop.passed(active):
            what = "loads of a pipelined loop (num_stages) that need what an earlier turn stored"
            line = candidate_line()
            raise CannotJudge(what, kernel=self.kernel, line=line, doubt="loads-ahead")

    def _meets_launches(self, kind: Access, region: Region) -> None:
        """Note what is stored to. Raises CannotJudge where an earlier launch may still store."""
        span = region.low, region.high
        others = () if self._joined else self.unfinished
        if any(span[0] < high and low < span[1] for low, high in others):
            what = "a kernel that meets an earlier one in memory: launch_pdl without gdc_wait()"
            line = candidate_line()
            raise CannotJudge(what, kernel=self.kernel, line=line, doubt="launches-race")
        if kind != "load":
            self.wrote.add(span)

    def begins(self, pointers: Untyped, mask: Array) -> None:
        """In a probe: record what the program first reads of each tensor; ProbeDone once it
        repeats.
        """
        region = region_of(pointers.dtype)
        self._wait(region)
        if self._steps > 1:
            raise ProbeDone
        if region is None or region.begins[-1] is not None:
            return
        active = pointers.data[np.broadcast_to(mask, pointers.data.shape)]
        if active.size:
            region.begins[-1] = int(active.min())

    def begin_probe(self, program: Grid) -> None:
        """A new program starts, only to show what it reads first."""
        self.begin_program(program)
        self.probing = True
        self._steps = 0
        for region in self.regions:
            region.begins.append(None)

    def vector(self, elements: int) -> None:
        """Elementwise float arithmetic."""
        self._vector += elements
        self.work += elements

    def integer(self, elements: int) -> None:
        """Elementwise integer, logical or comparison work, without the program's scalars."""
        if elements > 1:
            self._integer += elements
            self.work += elements

    def special(self, elements: int) -> None:
        """Elementwise functions of the MUFU pipe."""
        self._special += elements

    def reduction(self, elements: int) -> None:
        """One reduction or scan over that many elements."""
        self.waited()
        self._reductions += 1
        self._reduced += elements
        self.work += elements

    def dot(self, pipe: str, batch: int, tile: tuple[int, int, int]) -> None:
        """One `tl.dot` of batch times M, N, K."""
        self.waited()
        m, n, k = tile
        flops = 2 * batch * m * n * k
        self._dots[pipe] += flops
        self._tiles[pipe][tile] += flops
        self.work += flops // 100

    def trace(self, grid: Grid, programs: int) -> LaunchTrace:
        """The record, scaled from the `programs` that ran to the whole grid."""
        total = grid[0] * grid[1] * grid[2]
        each = tilt(self.mean_trips, self.trips) / programs if programs else 0.0
        scale = total * each
        return LaunchTrace(
            kernel=self.kernel,
            grid=grid,
            programs=total,
            sampled=programs,
            traffic={r.name: r.traffic(scale, each) for r in self.regions},
            masked_fraction=self._masked / self._lanes if self._lanes else 0.0,
            sector_efficiency=min(1.0, self._useful / self._requested) if self._requested else 1.0,
            dot_flops={pipe: flops * scale for pipe, flops in self._dots.items()},
            vector_flops=self._vector * scale,
            integer_ops=self._integer * scale,
            special_ops=self._special * scale,
            reduced_elements=self._reduced * scale,
            atomics=self._atomics * scale,
            out_of_bounds=tuple(self._reports),
            line=self.line,
            load_steps=self._steps * each,
            loads=self._loads * each,
            load_places=len(self._places),
            atomic_requests=self._atomic_requests * scale,
            reductions=self._reductions * each,
            dot_tiles={pipe: tiles.most_common(1)[0][0] for pipe, tiles in self._tiles.items()},
        )

    def _out_of_bounds(
        self, kind: Access, addresses: Array, mask: Array, bad: Array, region: Region | None
    ) -> Array:
        lanes = np.flatnonzero(mask.reshape(-1))[bad]
        first = int(addresses.reshape(-1)[lanes[0]])
        near = region or (nearest(first, self.regions) if self.regions else None)
        report = OutOfBounds(
            kernel=self.kernel,
            line=candidate_line(),
            program=self.program,
            access=kind,
            lanes=int(lanes.size),
            argument=near.name if near else "",
            offset_bytes=first - near.low if near else first,
        )
        if region is None and addresses_told():
            what = "pointers made of addresses that a tensor holds"
            raise CannotJudge(what, kernel=self.kernel, line=candidate_line())
        if self._raising:
            raise AccessOutOfBounds(report, storage_bytes=near.nbytes if near else 0)
        if len(self._reports) < _MOST_REPORTS:
            self._reports.append(report)
        allowed = mask.copy()
        allowed.reshape(-1)[lanes] = False
        return allowed

    def _count(
        self,
        kind: Access,
        addresses: Array,
        mask: Array,
        active: Array,
        width: int,
        region: Region | None,
    ) -> None:
        lanes = addresses.size
        self.work += lanes + _ACCESS_WORK
        self._lanes += lanes
        self._masked += lanes - active.size
        if kind == "atomic":
            self._atomics += active.size
            if active.size:
                self._atomic_requests += atomic_requests(active)
        else:
            ordered, lit = in_lane_order(addresses, mask)
            inner = addresses.shape[-1] if addresses.ndim else 1
            requested = requested_sectors(ordered, lit, width, inner) * 32
            self._requested += requested
            self._useful += active.size * width
            if region is not None:
                region.requested += requested
            active = ordered if lit.all() else ordered[lit]
        if kind == "load":
            self._wait(region)
        if region is None:
            return
        if kind != "store":
            region.loaded += active.size * width
        if kind != "load":
            region.stored += active.size * width
        region.touch(touched_sectors(active), write=kind != "load")

    def _wait(self, tensor: object) -> None:
        """A load waits together with those beside it, and again when the same code repeats."""
        frame = _candidate_frame()
        code = (frame.f_code, frame.f_lasti) if frame is not None else None
        place = (tensor, code, self.unrolled)
        self._places.add(place)
        self._loads += 1
        if place in self._waiting or not self._waiting:
            self._steps += 1
            self._waiting.clear()
        self._waiting.add(place)


def _candidate_frame() -> FrameType | None:
    """The innermost frame that is neither triton's nor ours."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 -- no public walk up the stack
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def is_library(filename: str) -> bool:
    """Whether code of that file is triton's, ours or generated: not the candidate's."""
    return filename.startswith((*_LIBRARY, "<"))


def candidate_line() -> int:
    """The line of the candidate that is running; 0 when there is none."""
    frame = _candidate_frame()
    return frame.f_lineno if frame is not None else 0
