"""What a worker does to find a GPU's ceilings: large copies, large sums, large matrix products.

Runs in workers only, and nothing but our own code with it.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import torch

from workbench.isolation.context import JobContext
from workbench.isolation.wire import Blob
from workbench.measure.ceilings import Rates, Wanted

_FREE_SHARE = 6
"""A buffer takes at most this part of the free memory: two of them, and matrices beside."""
_LEAST, _MOST = 5, 200
"""Calls behind a median."""
_WARM = 3


def measure(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001  # a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer `Wanted` with `Rates`."""
    wanted = msgspec.convert(request, Wanted)
    device = bench.device
    stopwatch = _Stopwatch(device, wanted.seconds)
    copy_gbps, read_gbps = _bandwidths(stopwatch, _buffer_bytes(wanted, device))
    rates: dict[str, float] = {}
    missing: dict[str, str] = {}
    for name, product in _PRODUCTS.items():
        try:
            rates[name] = _rate(stopwatch, product, wanted.side, device)
        except (RuntimeError, NotImplementedError, AttributeError, TypeError) as fault:
            missing[name] = f"{type(fault).__name__}: {fault}".splitlines()[0][:200]
    answer = Rates(copy_gbps=copy_gbps, read_gbps=read_gbps, matrix_tflops=rates, missing=missing)
    return msgspec.to_builtins(answer), []


class _Stopwatch:
    """Medians of a call's time on a device; of wall time on the CPU."""

    def __init__(self, device: str, seconds: float) -> None:
        self.device = device
        self._cuda = device != "cpu"
        self._seconds = seconds

    def us(self, call: Callable[[], object]) -> float:
        """Microseconds, the median of the calls that fit into the time."""
        for _ in range(_WARM):
            self._once(call)
        times: list[float] = []
        while len(times) < _LEAST or (sum(times) < self._seconds * 1e6 and len(times) < _MOST):
            times.append(self._once(call))
        return statistics.median(times)

    def _once(self, call: Callable[[], object]) -> float:
        if not self._cuda:
            began = time.perf_counter()
            call()
            return (time.perf_counter() - began) * 1e6
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]  # untyped there
        start.record()
        call()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) * 1e3


def _buffer_bytes(wanted: Wanted, device: str) -> int:
    if device == "cpu":
        return wanted.buffer_bytes
    return min(wanted.buffer_bytes, int(torch.cuda.mem_get_info(device)[0]) // _FREE_SHARE)


def _bandwidths(stopwatch: _Stopwatch, size: int) -> tuple[float, float]:
    """GB/s of a copy, both ways counted, and of a sum over everything."""
    source = torch.randn(size // 4, device=stopwatch.device)
    target = torch.empty_like(source)
    moved = source.numel() * source.element_size()
    copying = stopwatch.us(lambda: target.copy_(source))
    reading = stopwatch.us(source.sum)
    return 2 * moved / copying / 1e3, moved / reading / 1e3


def _rate(stopwatch: _Stopwatch, product: "Product", side: int, device: str) -> float:
    """TFLOP/s of a square product."""
    with product(side, device) as call:
        return 2.0 * side**3 / stopwatch.us(call) / 1e6


@contextmanager
def _plain(
    side: int, device: str, dtype: torch.dtype, *, tf32: bool = False
) -> Iterator[Callable[[], object]]:
    """A library's product of two random matrices of `dtype`."""
    a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        yield lambda: torch.mm(a, b, out=out)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@contextmanager
def _float8(side: int, device: str) -> Iterator[Callable[[], object]]:
    """The same in fp8 (e4m3), the second operand by columns, as the hardware wants it."""
    a, b = (torch.randn(side, side, device=device).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=device)
    yield lambda: torch._scaled_mm(  # noqa: SLF001  # torch has no public name for it
        a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
    )


@contextmanager
def _int8(side: int, device: str) -> Iterator[Callable[[], object]]:
    a, b = (
        torch.randint(-128, 128, (side, side), device=device, dtype=torch.int8) for _ in range(2)
    )
    yield lambda: torch._int_mm(a, b.t())  # noqa: SLF001  # torch has no public name for it


Product = Callable[[int, str], Any]
"""`product(side, device)` is a context that gives the call to be timed."""

_PRODUCTS: dict[str, Product] = {
    "float32": lambda side, device: _plain(side, device, torch.float32),
    "tf32": lambda side, device: _plain(side, device, torch.float32, tf32=True),
    "float16": lambda side, device: _plain(side, device, torch.float16),
    "bfloat16": lambda side, device: _plain(side, device, torch.bfloat16),
    "float8": _float8,
    "float64": lambda side, device: _plain(side, device, torch.float64),
    "int8": _int8,
}
