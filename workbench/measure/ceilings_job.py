"""Worker job that finds a GPU's ceilings with large copies, sums and matrix products.

Runs in workers only, without any candidate code. A ceiling is the best that the device shows,
whatever else the machine is doing: every rate is tried at several sizes, in short bursts. Between
two bursts of one call the device rests and the other calls take their turns. The median of the
fastest burst counts.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import torch
from msgspec import structs

from workbench.isolation.context import JobContext
from workbench.isolation.wire import Blob
from workbench.measure.ceilings import Rates, Wanted

_FREE_SHARE = 6
"""A buffer takes at most one part in this many of the free memory: there are two, and matrices."""
_MATRICES = 16
"""Memory of all matrices of all products, counted in square ones of the largest side and fp64."""
_LEAST, _MOST = 3, 30
"""Fewest and most calls in a burst."""
_WARM = 2
"""Untimed calls before the first burst."""
_REST = 2.0
"""Pause after a burst, as a multiple of its duration (ours). Without it, dense products hit the
power cap of an H200, and a lone product in a program then beats the ceiling."""

Call = Callable[[], object]
Shape = tuple[int, int, int]
"""Rows, columns and inner length of a product."""


def measure(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer a `Wanted` request with `Rates`."""
    device = bench.device
    wanted = _fitting(msgspec.convert(request, Wanted), device)
    contest = _Contest(device, wanted)
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        _enter_bandwidths(contest, wanted.buffer_bytes, device)
        for name, product in _PRODUCTS.items():
            with ExitStack() as its:
                try:
                    for shape in _shapes(wanted.side):
                        call = its.enter_context(product(shape, device))
                        contest.enter(name, 2.0 * shape[0] * shape[1] * shape[2], call)
                except _CANNOT as fault:
                    contest.leave(name)
                    missing[name] = f"{type(fault).__name__}: {fault}".splitlines()[0][:200]
                else:
                    stack.enter_context(its.pop_all())
        best = contest.best()
    answer = Rates(
        copy_gbps=best.pop("copy") / 1e3,
        read_gbps=best.pop("read") / 1e3,
        matrix_tflops={name: rate / 1e6 for name, rate in best.items()},
        missing=missing,
    )
    return msgspec.to_builtins(answer), []


_CANNOT = (RuntimeError, NotImplementedError, AttributeError, TypeError)
"""Raised by torch for a product that this build, device or memory does not allow."""


def _shapes(side: int) -> tuple[Shape, ...]:
    """Small square, large square, and half as deep: which one is fastest differs by device."""
    half = side // 2
    return (half, half, half), (side, side, side), (side, side, half)


class _Contest:
    """Times calls whose work is known, and keeps the best rate of each name."""

    def __init__(self, device: str, wanted: Wanted) -> None:
        self._cuda = device != "cpu"
        self._bursts = wanted.bursts
        self._seconds = wanted.burst_seconds
        self._entries: list[tuple[str, float, Call, int]] = []
        """Name, work of one call, the call, and calls in a burst."""

    def enter(self, name: str, work: float, call: Call) -> None:
        """Warm up a call and add it; `work` is in operations or bytes. Raises what it raises."""
        for _ in range(_WARM):
            call()
        count = _LEAST
        if self._cuda:
            us = self._queued(call, 1)[0]
            count = max(_LEAST, min(_MOST, round(self._seconds * 1e6 / us)))
        self._entries.append((name, work, call, count))

    def leave(self, name: str) -> None:
        """Remove every call of that name."""
        self._entries = [entry for entry in self._entries if entry[0] != name]

    def best(self) -> dict[str, float]:
        """Work per microsecond by name: that of the fastest burst at any size."""
        found: dict[str, float] = {}
        for _ in range(self._bursts):
            for name, work, call, count in self._entries:
                burst = self._queued(call, count) if self._cuda else _walls(call, count)
                if self._cuda:
                    time.sleep(_REST * sum(burst) / 1e6)
                found[name] = max(found.get(name, 0.0), work / statistics.median(burst))
        return found

    def _queued(self, call: Call, count: int) -> list[float]:
        """Microseconds of each of `count` calls, queued ahead so that the device never idles."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]  # type: ignore[no-untyped-call]  # untyped there
        # One call ahead of the clock: the host is queueing while it runs.
        call()
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        marks[-1].synchronize()
        return [float(start.elapsed_time(stop)) * 1e3 for start, stop in pairwise(marks)]


def _walls(call: Call, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e6)
    return times


def _fitting(wanted: Wanted, device: str) -> Wanted:
    """The request, reduced to what fits in free memory."""
    if device == "cpu":
        return wanted
    free = int(torch.cuda.mem_get_info(device)[0])
    side = wanted.side
    while _MATRICES * 8 * side**2 > free // 2:
        side //= 2
    size = min(wanted.buffer_bytes, free // _FREE_SHARE)
    return structs.replace(wanted, buffer_bytes=size, side=side)


def _enter_bandwidths(contest: _Contest, size: int, device: str) -> None:
    """Enter a copy (read and write counted) and a sum, over the whole buffer and over half."""
    source = torch.randn(size // 4, device=device)
    target = torch.empty_like(source)
    for share in (1, 2):
        part, into = source[: len(source) // share], target[: len(source) // share]
        moved = part.numel() * part.element_size()
        contest.enter("copy", 2.0 * moved, partial(into.copy_, part))
        contest.enter("read", moved, part.sum)


@contextmanager
def _plain(shape: Shape, device: str, dtype: torch.dtype, *, tf32: bool = False) -> Iterator[Call]:
    """A call that multiplies two random matrices of `dtype` with torch's library."""
    m, n, k = shape
    a, b = (torch.randn(size, device=device).to(dtype) for size in ((m, k), (k, n)))
    out = torch.empty((m, n), device=device, dtype=dtype)

    def call() -> None:
        # Set at every call, because products of other precisions run in between.
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.mm(a, b, out=out)

    before = torch.backends.cuda.matmul.allow_tf32
    try:
        yield call
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@contextmanager
def _float8(shape: Shape, device: str) -> Iterator[Call]:
    """The same in fp8 (e4m3), with the second operand column-major, as the hardware wants it."""
    m, n, k = shape
    a, b = (torch.randn(size, device=device).to(torch.float8_e4m3fn) for size in ((m, k), (n, k)))
    one = torch.ones((), device=device)
    yield lambda: torch._scaled_mm(  # noqa: SLF001 -- torch has no public name for it
        a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
    )


@contextmanager
def _int8(shape: Shape, device: str) -> Iterator[Call]:
    m, n, k = shape
    a, b = (
        torch.randint(-128, 128, size, device=device, dtype=torch.int8) for size in ((m, k), (n, k))
    )
    yield lambda: torch._int_mm(a, b.t())  # noqa: SLF001 -- torch has no public name for it


Product = Callable[[Shape, str], Any]
"""`product(shape, device)` is a context manager that yields the call to be timed."""

_PRODUCTS: dict[str, Product] = {
    "float32": partial(_plain, dtype=torch.float32),
    "tf32": partial(_plain, dtype=torch.float32, tf32=True),
    "float16": partial(_plain, dtype=torch.float16),
    "bfloat16": partial(_plain, dtype=torch.bfloat16),
    "float8": _float8,
    "float64": partial(_plain, dtype=torch.float64),
    "int8": _int8,
}
