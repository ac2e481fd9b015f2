"""How long a call takes on the GPU, read the same way for every call, checked or timed.

Runs in workers only. The reading is a claim of the process it was made in: the judge compares it
with its own clock and with the roofline.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from msgspec import Struct

_FLUSH = 2
"""The flush writes so many times the L2's size (SOL-ExecBench, KernelBench: 2x or 256 MB)."""
_LEAST_FLUSH = 64 << 20
_AHEAD = 1.5
"""The GPU is kept busy for the last call's launch time times this, so that launches queue up."""
_MOST_AHEAD_US = 3000.0
_FIRST_AHEAD_US = 300.0


class Reading(Struct, frozen=True, kw_only=True):
    """One call, microseconds."""

    device_us: float | None
    """Between two events around it, cold L2, launches queued; None on the CPU."""
    host_us: float
    """Until the call returned, before the device was waited for."""
    wall_us: float
    """Until the device was done. Without the queue only when `bare`."""


class Clock:
    """Reads calls on one device. Made before candidate code is loaded: its own references to
    events and timers are those of an untouched torch.
    """

    def __init__(self, device: str) -> None:
        self._now = time.perf_counter
        self._ahead_us = _FIRST_AHEAD_US
        self._cuda = device != "cpu"
        if not self._cuda:
            return
        properties = torch.cuda.get_device_properties(device)
        size = max(_LEAST_FLUSH, _FLUSH * properties.L2_cache_size)
        self._flush = torch.empty(size, dtype=torch.uint8, device=device).zero_
        self._cycles_per_us = torch.cuda.clock_rate(device)
        self._sleep = torch.cuda._sleep  # noqa: SLF001 -- torch has no public busy wait
        self._wait = torch.cuda.synchronize
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._start, self._stop, self._elapsed = start.record, stop.record, start.elapsed_time
        self._end = stop

    def read(self, call: Callable[[], Any], *, bare: bool = False) -> tuple[Any, Reading]:
        """Run `call` once, finished on the device when this returns.

        `bare` lets the device run dry first, so that the wall clock sees this call alone.
        """
        if not self._cuda:
            began = self._now()
            out = call()
            took = (self._now() - began) * 1e6
            return out, Reading(device_us=None, host_us=took, wall_us=took)
        self._flush()
        if bare:
            self._wait()
        else:
            self._sleep(int(self._ahead_us * self._cycles_per_us))
        began = self._now()
        self._start()
        out = call()
        self._stop()
        returned = self._now()
        self._wait()
        done = self._now()
        host_us = (returned - began) * 1e6
        self._ahead_us = min(_MOST_AHEAD_US, _AHEAD * host_us + 20.0)
        device_us = self._elapsed(self._end) * 1e3
        return out, Reading(device_us=device_us, host_us=host_us, wall_us=(done - began) * 1e6)
