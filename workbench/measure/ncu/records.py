"""What Nsight Compute said of a candidate's kernels, or why it said nothing."""

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
    """It ran, and none of the candidate's kernels was seen."""
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    """The profiled process or ncu itself ended badly."""
    UNREADABLE = "unreadable"
    """It ran, and what it printed could not be read."""


class Reading(Struct, frozen=True, kw_only=True):
    """One metric of one launch, in the unit of the catalogue."""

    value: float
    unit: str
    """`%`, `B`, `us`, `B/s` or empty, whatever prefix ncu printed."""
    metric: str
    """As ncu calls it, to be looked up in its guide."""


_OF_SECTORS = frozenset({"load_sector_use", "store_sector_use"})
"""Of any sector that was moved a part was used: these are never zero."""


class NcuLaunch(Struct, frozen=True, kw_only=True):
    """One profiled launch. A reading that ncu did not give is not there: unknown, not zero."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    readings: dict[str, Reading] = {}
    """By the catalogue's name."""

    @property
    def values(self) -> dict[str, float]:
        """What is known, by the catalogue's name."""
        known = {name: self.value(name) for name in self.readings}
        return {name: one for name, one in known.items() if one is not None}

    def value(self, name: str) -> float | None:
        """A reading by the catalogue's name; None when unknown.

        A share of sectors of which there were none is: ncu prints zero for it, also where
        descriptors moved all data past these instructions.
        """
        found = self.readings.get(name)
        if found is None or (not found.value and name in _OF_SECTORS):
            return None
        return found.value


class NcuRecord(Struct, frozen=True, kw_only=True):
    """One run of Nsight Compute over one call of a candidate.

    Its durations are those under the profiler, with caches flushed before every replay and with
    whatever clock the GPU had: they explain a time, they never are the time.
    """

    state: NcuState
    says: str
    """One sentence: what was profiled, or why nothing was."""
    todo: str = ""
    """The remedy, where there is one."""
    launches: tuple[NcuLaunch, ...] = ()
    """In the order of the call."""
    version: str = ""
    """Of ncu: `2025.3.1.0`."""
    device: str = ""
    cache_control: str = "all"
    """ncu's: `all` flushes every cache before each replay, so that the kernel starts cold."""
    clock_control: str = "none"
    """ncu's: `none` leaves the clocks as the timing has them."""
    isolation: str = ""
    """In force while candidate code ran under ncu."""
    confinement: str = ""
    """Why that was less than a worker's, in words; empty where it was not less."""
    report: str = ""
    """Where the `.ncu-rep` lies; empty when none was kept. For the GUI only: all that is used of
    it is in this record."""
    report_bytes: int = 0
    seconds: float = 0.0
    messages: tuple[str, ...] = ()
    """ncu's errors and warnings, the first of them."""
    without: tuple[str, ...] = ()
    """Metrics that were asked for and that this ncu does not know on this GPU."""

    def of(self, kernel: str) -> NcuLaunch | None:
        """The launch of a kernel that speaks for it: of several the longest."""
        ours = [launch for launch in self.launches if launch.kernel == kernel]
        return max(ours, key=lambda one: one.value("duration_us") or 0.0, default=None)
