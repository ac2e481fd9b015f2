"""What a worker's processes hold on its GPU, as the driver counts it: also past torch's allocator.

Through NVML in the judge's process, which never touches CUDA.
"""

import contextlib
from collections.abc import Collection
from typing import Any

from msgspec import Struct

CONTEXT_BYTES = 1 << 30
"""Of a CUDA context with its modules, which the driver counts beside what a program asked for
(ours; half of it on an H200)."""


class DeviceUse(Struct, frozen=True, kw_only=True):
    """GPU memory at one moment, bytes; None where the driver does not say."""

    held: int | None
    """Bytes held by the worker, including its context; None if unknown."""
    free: int | None
    """Free bytes of the GPU; None if unknown."""
    limit: int
    """What the worker may ask for, its context not counted."""

    @property
    def starved(self) -> bool:
        """Whether others hold so much that the worker could not get what it may ask for."""
        if self.held is None or self.free is None:
            return False
        return self.held + self.free < self.limit


class GpuMemory:
    """Asks NVML about one GPU, named as in CUDA_VISIBLE_DEVICES (an index or a UUID's beginning).

    Never raises. `fault` says why nothing can be told; empty when something can.
    """

    def __init__(self, visible: str) -> None:
        self.fault = ""
        self._nvml: Any = None
        self._handle: object = None
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception as fault:  # noqa: BLE001 -- no package, library or driver: all the same here
            self.fault = f"NVML does not start: {fault}"
            return
        self._nvml = pynvml
        try:
            self._handle = _found(pynvml, visible)
        except pynvml.NVMLError as fault:
            self.fault = f"NVML does not know GPU {visible}: {fault}"

    def held(self, pids: Collection[int]) -> int | None:
        """Bytes that these processes hold together; None where the driver lists none of them."""
        listed = self.processes()
        found = [listed[pid] for pid in pids if pid in listed]
        known = [size for size in found if size is not None]
        return sum(known) if known else None

    def processes(self) -> dict[int, int | None]:
        """Who computes on the GPU, by process number, with the bytes each holds."""
        if self._handle is None:
            return {}
        try:
            listed = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except self._nvml.NVMLError:
            return {}
        return {int(process.pid): process.usedGpuMemory for process in listed}

    def free(self) -> int | None:
        """Bytes that nobody holds."""
        if self._handle is None:
            return None
        try:
            return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).free)
        except self._nvml.NVMLError:
            return None

    def close(self) -> None:
        """Let NVML go."""
        nvml, self._nvml, self._handle = self._nvml, None, None
        if nvml is not None:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()


def _found(nvml: Any, visible: str) -> object:  # noqa: ANN401 -- an untyped module
    if visible.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(visible))
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        if str(nvml.nvmlDeviceGetUUID(handle)).startswith(visible):
            return handle
    # A slice of a GPU (MIG) is only found by its whole name.
    return nvml.nvmlDeviceGetHandleByUUID(visible)
