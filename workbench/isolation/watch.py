"""The judge's eye on a worker while it waits for it: memory, tasks and disk, ten times a second."""

from pathlib import Path

from workbench.isolation.processes import descendants, unlinked_bytes, use
from workbench.isolation.records import Limits
from workbench.isolation.scratch import used_bytes

_DISK_EVERY = 8
"""Looks at processes per look at the scratch folder, which may hold many files."""


class Watch:
    """Calling it says which limit is exceeded at this moment; empty when none is."""

    def __init__(self, keeper: int, limits: Limits, scratch: Path) -> None:
        self._keeper = keeper
        self._limits = limits
        self._scratch = scratch
        self._looks = 0

    def __call__(self) -> str:
        """`memory limit`, `task limit`, `scratch limit` or empty."""
        pids = descendants(self._keeper)
        held = use(pids)
        if held.memory_bytes > self._limits.memory_bytes:
            return "memory limit"
        if held.tasks > self._limits.tasks:
            return "task limit"
        self._looks += 1
        if self._looks % _DISK_EVERY == 0 and self._disk_is_full(pids):
            return "scratch limit"
        return ""

    def _disk_is_full(self, pids: list[int]) -> bool:
        named = used_bytes(self._scratch)
        return named is None or named + unlinked_bytes(pids) > self._limits.file_bytes
