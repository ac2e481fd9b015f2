"""The judge's eye on a worker while it waits for it: memory, tasks and disk, ten times a second."""

import time
from pathlib import Path

from msgspec import Struct

from workbench.isolation.gpumemory import CONTEXT_BYTES, DeviceUse, GpuMemory
from workbench.isolation.processes import descendants, unlinked_bytes, use
from workbench.isolation.records import Limits
from workbench.isolation.scratch import used_bytes
from workbench.isolation.sharedfiles import counters

_DISK_EVERY = 8
"""Looks at processes per look at the scratch folder, which may hold many files."""
_DEVICE_SECONDS = 0.2
"""Between two looks at the GPU (gate protocol, section 10): a short call is never disturbed."""


class Excess(Struct, frozen=True, kw_only=True):
    """A limit that is exceeded at this moment."""

    how: str
    """`memory limit`, `gpu memory limit`, `task limit` or `scratch limit`."""
    held: int | None
    """Bytes or tasks; None where there are too many to count."""
    limit: int


class Watch:
    """Calling it says which limit is exceeded at this moment, if one is.

    `device_bytes` may be moved meanwhile. `pids` are the worker's processes as last seen.
    """

    def __init__(
        self,
        keeper: int,
        limits: Limits,
        scratch: Path,
        gpu: GpuMemory | None = None,
        *,
        shares_since: float | None = None,
    ) -> None:
        self._keeper = keeper
        self._limits = limits
        self._scratch = scratch
        self._gpu = gpu
        self._shares_since = shares_since
        """Its birth, epoch seconds, where it may make files in /dev/shm."""
        self._looks = 0
        self._look_at_device = 0.0
        self.device_bytes = limits.device_bytes
        self.pids: list[int] = []

    def __call__(self) -> Excess | None:
        """The first limit that is exceeded; None when none is."""
        self.pids = pids = descendants(self._keeper)
        held, limits = use(pids), self._limits
        if held.memory_bytes > limits.memory_bytes:
            return Excess(how="memory limit", held=held.memory_bytes, limit=limits.memory_bytes)
        if held.tasks > limits.tasks:
            return Excess(how="task limit", held=held.tasks, limit=limits.tasks)
        self._looks += 1
        if self._looks % _DISK_EVERY == 0 and (full := self._disk(pids)) is not None:
            return full
        return self._device(pids)

    def device_use(self) -> DeviceUse | None:
        """What the worker holds on its GPU now; None without a GPU or a limit."""
        if self._gpu is None or self.device_bytes is None:
            return None
        pids = descendants(self._keeper)
        return DeviceUse(held=self._gpu.held(pids), free=self._gpu.free(), limit=self.device_bytes)

    def _disk(self, pids: list[int]) -> Excess | None:
        limit, named = self._limits.file_bytes, used_bytes(self._scratch)
        held = None if named is None else named + unlinked_bytes(pids)
        if held is not None and self._shares_since is not None:
            held += sum(size for _, size in counters(pids, self._shares_since))
        if held is not None and held <= limit:
            return None
        return Excess(how="scratch limit", held=held, limit=limit)

    def _device(self, pids: list[int]) -> Excess | None:
        """Memory that a raw `cudaMalloc` took counts too: this is the driver's own number."""
        now = time.monotonic()
        if self._gpu is None or self.device_bytes is None or now < self._look_at_device:
            return None
        self._look_at_device = now + _DEVICE_SECONDS
        held = self._gpu.held(pids)
        if held is None or held <= self.device_bytes + CONTEXT_BYTES:
            return None
        return Excess(how="gpu memory limit", held=held, limit=self.device_bytes)
