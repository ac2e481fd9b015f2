"""How long a call takes on the GPU, read the same way for every call, checked or timed.

Runs in workers only. A reading is a claim by the process that made it: the judge compares its parts
with each other, with its own clock and with the roofline.
"""

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch

from workbench.gate.correctness.protocol import Reading

Out = TypeVar("Out")

_FLUSH = 2
"""The flush writes this multiple of the L2's size (SOL-ExecBench, KernelBench: 2x or 256 MB)."""
_LEAST_FLUSH = 64 << 20
_AHEAD = 1.5
"""The GPU is held for this multiple of the last call's launch time, so that launches queue up
(ours)."""
_AHEAD_MORE_US = 20.0
_FIRST_AHEAD_US = 300.0
_MOST_AHEAD_US = 3000.0


class ClockFault(Exception):
    """The clock does not start on this GPU: the machine's fault, never a candidate's."""


class Clock:
    """Times calls on one device.

    Created before candidate code is loaded, so that its references to events, streams and timers
    are those of an unpatched torch. Before a call the L2 is overwritten with a buffer of twice its
    size: inputs are cold and the lines dirty, so that a kernel also pays for write-backs.
    Persisting lines are reset first. Then a spin kernel holds the whole GPU until the call's
    launches are queued (`hold`): the events time the kernels, not the launch path, and no other
    stream starts earlier. Raises ClockFault.
    """

    def __init__(self, device: str) -> None:
        self._now = time.perf_counter
        self._ahead_us = _FIRST_AHEAD_US
        self._cuda = device != "cpu"
        if self._cuda:
            try:
                self._prepare(device)
            except Exception as fault:
                raise ClockFault(f"{type(fault).__name__}: {fault}"[:500]) from fault

    def _prepare(self, device: str) -> None:
        from workbench.gate.timing.hold import holder

        size = torch.cuda.get_device_properties(device).L2_cache_size
        buffer = torch.empty(max(_LEAST_FLUSH, _FLUSH * size), dtype=torch.uint8, device=device)
        self._flush = buffer.zero_
        self._hold = holder(device)
        self._reset_persisting = _persisting_reset()
        # The C function: its Python wrapper looks names up again at every call.
        self._wait = torch._C._cuda_synchronize  # noqa: SLF001 -- torch has no public name for it
        stream = torch.cuda.current_stream(device)
        ahead, start, stop = (_event() for _ in range(3))
        self._marks = tuple(partial(event.record, stream) for event in (ahead, start, stop))
        self._ahead_ms = partial(ahead.elapsed_time, start)
        self._device_ms = partial(start.elapsed_time, stop)
        self.read(lambda: None)

    def read(self, call: Callable[[], Out], *, bare: bool = False) -> tuple[Out, Reading]:
        """Run `call` once; it has finished on the device when this returns.

        With `bare` the device idles before the call instead of being held. Raises what the call
        raises, and the errors of kernels that it launched.
        """
        if not self._cuda:
            began = self._now()
            out = call()
            took = (self._now() - began) * 1e6
            return out, Reading(host_us=took, wall_us=took)
        mark_ahead, mark_start, mark_stop = self._marks
        self._reset_persisting()
        mark_ahead()
        self._flush()
        if bare:
            self._wait()
        else:
            self._hold(self._ahead_us)
        began = self._now()
        mark_start()
        out = call()
        mark_stop()
        returned = self._now()
        self._wait()
        done = self._now()
        host_us = (returned - began) * 1e6
        self._ahead_us = min(_MOST_AHEAD_US, _AHEAD * host_us + _AHEAD_MORE_US)
        return out, Reading(
            device_us=self._device_ms() * 1e3,
            host_us=host_us,
            wall_us=(done - began) * 1e6,
            ahead_us=0.0 if bare else self._ahead_ms() * 1e3,
        )


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # untyped there


def _persisting_reset() -> Callable[[], object]:
    """`cudaCtxResetPersistingL2Cache` by the driver's name; does nothing where it is missing."""
    try:
        reset: Callable[[], object] = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
    except (OSError, AttributeError):
        return lambda: None
    return reset
