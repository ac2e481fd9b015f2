"""Records of what Nsight Compute measured of a candidate's kernels, or why it did not."""

from enum import StrEnum

from msgspec import Struct


class NcuState(StrEnum):
    """How a profiling run ended. Everything but `PROFILED` has a remedy in `states.REMEDY`."""

    PROFILED = "profiled"
    MISSING = "ncu-missing"
    """There is no `ncu` on this machine."""
    REFUSED = "counters-refused"
    """ERR_NVGPUCTRPERM: the driver keeps its counters for the administrator."""
    OCCUPIED = "other-profiler"
    """Another profiler or debugger holds the device's counters."""
    UNSUPPORTED = "unsupported-gpu"
    """This ncu does not know this GPU or driver."""
    NO_KERNEL = "no-kernel"
    """It ran, but saw none of the candidate's kernels."""
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    """The profiled process or ncu itself ended badly."""
    UNREADABLE = "unreadable"
    """It ran, but its output could not be read."""


class Reading(Struct, frozen=True, kw_only=True):
    """One metric of one launch, in the unit of the catalogue."""

    value: float
    unit: str
    """The catalogue's unit, whatever prefix ncu printed: `%`, `B`, `us`, `GB/s` or empty."""
    metric: str
    """The metric's name in ncu's guide."""


_OF_SECTORS = frozenset({"load_sector_use", "store_sector_use"})
"""Readings that are never really zero: some part of every sector that was moved was used."""


class NcuLaunch(Struct, frozen=True, kw_only=True):
    """One profiled launch. A reading that ncu did not give is absent: unknown, not zero."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    readings: dict[str, Reading] = {}
    """Readings by the catalogue's name."""

    @property
    def values(self) -> dict[str, float]:
        """Known values by the catalogue's name."""
        known = {name: self.value(name) for name in self.readings}
        return {name: one for name, one in known.items() if one is not None}

    def value(self, name: str) -> float | None:
        """The value of a reading by the catalogue's name; None when unknown.

        The used share of sectors is unknown when there were none: ncu then prints zero, for
        example where tensor descriptors moved all data without these instructions.
        """
        found = self.readings.get(name)
        if found is None or (not found.value and name in _OF_SECTORS):
            return None
        return found.value


class NcuRecord(Struct, frozen=True, kw_only=True):
    """One run of Nsight Compute over one call of a candidate.

    Durations are those under the profiler, with caches flushed before every replay and at whatever
    clock the GPU had: they may explain a time, but are never reported as the time.
    """

    state: NcuState
    says: str
    """One sentence: what was profiled, or why nothing was."""
    todo: str = ""
    """What to do so that it works; empty where there is nothing."""
    launches: tuple[NcuLaunch, ...] = ()
    """Launches in the order of the call."""
    version: str = ""
    """ncu's version: `2025.3.1.0`."""
    device: str = ""
    cache_control: str = "all"
    """ncu's option: `all` flushes every cache before each replay, so that kernels start cold."""
    clock_control: str = "none"
    """ncu's option: `none` leaves the clocks as they are when we time."""
    isolation: str = ""
    """The isolation in force while candidate code ran under ncu."""
    confinement: str = ""
    """Why that isolation was weaker than a worker's; empty where it was not."""
    report: str = ""
    """Path of the `.ncu-rep`; empty when none was kept. It is for the GUI only: everything that we
    use of it is in this record."""
    report_bytes: int = 0
    seconds: float = 0.0
    """How long the GPU was held for the run."""
    messages: tuple[str, ...] = ()
    """The first of ncu's errors and warnings."""
    without: tuple[str, ...] = ()
    """Metrics that this ncu does not know on this GPU."""

    def of(self, kernel: str) -> NcuLaunch | None:
        """The launch that represents a kernel: its longest; None if it has none."""
        ours = [launch for launch in self.launches if launch.kernel == kernel]
        return max(ours, key=lambda one: one.value("duration_us") or 0.0, default=None)
