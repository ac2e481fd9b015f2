"""A version's numbers beside its parent's, each with its kind. Pure."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from workbench.gate.records import GateReport
from workbench.kernels.records import Launch, LaunchTrace, StaticProfile
from workbench.measure.ncu.records import NcuLaunch
from workbench.measure.records import FLOOR, Kind, Time
from workbench.tui.draw import figure

KIB, MIB = 1 << 10, 1 << 20
SHOWN_PARTS = 4
"""Parts of a modeled time that are shown, largest first."""
HAIR = 0.005
"""Relative change below which a number is neither better nor worse (ours)."""


class Metric(Struct, frozen=True, kw_only=True):
    """One row of the profile."""

    name: str
    value: float
    parent: float | None
    """None when the parent has no such number of the same kind."""
    kind: Kind
    better: int
    """1 when more is better, -1 when less is, 0 when neither."""
    relative: bool = False
    """Whether a change is told in percent of the parent's number."""
    note: str = ""
    """What limits it, or how it was obtained."""

    @property
    def change(self) -> float | None:
        """Difference to the parent's value; None without one."""
        return None if self.parent is None else self.value - self.parent

    @property
    def worse(self) -> bool:
        """Whether it is worse than the parent's by more than a hair."""
        return self.change is not None and self.change * self.better < 0 and not self.hair

    @property
    def hair(self) -> bool:
        """Whether the change is too small to matter; a change of an exact number never is."""
        if self.change is None or (self.kind is Kind.EXACT and not self.relative):
            return False
        return abs(self.change) < HAIR * abs(self.parent or 0.0)


def metrics(own: GateReport, parent: GateReport | None) -> tuple[Metric, ...]:
    """All rows: times, the compiler's numbers, traced traffic, and the GPU's counters."""
    return (
        *_times(own, parent),
        *_static(own, parent),
        *_traffic(own, parent),
        *_counters(own, parent),
    )


# -- time ---------------------------------------------------------------------------------------


def baseline(own: GateReport, parent: GateReport | None) -> Time | None:
    """The parent's time: from the same run if there is one, else of the same kind and device."""
    if own.time is None:
        return None
    for time in (own.against, parent.time if parent is not None else None):
        if time is not None and (time.kind, time.device) == (own.time.kind, own.time.device):
            return time
    return None


def _times(own: GateReport, parent: GateReport | None) -> list[Metric]:
    time, before = own.time, baseline(own, parent)
    if time is None:
        return []
    spread = ""
    if time.low is not None and time.high is not None:
        spread = f"{figure(time.low)}-{figure(time.high)}"
    whole = None if before is None else before.microseconds
    rows = [_time_row("Time us", time, time.microseconds, whole, spread)]
    parts = {name: value for name, value in time.detail.items() if value > 0 and name != FLOOR}
    for name, value in sorted(parts.items(), key=lambda part: -part[1])[:SHOWN_PARTS]:
        part = None if before is None else before.detail.get(name)
        rows.append(_time_row(f" {name} us", time, value, part, ""))
    if own.reference is not None and own.reference.kind is time.kind:
        versus = own.versus_reference
        says = f"{versus.ratio:.2f}x eager" if versus is not None else ""
        reference = own.reference.microseconds
        rows.append(_time_row("Reference us", own.reference, reference, None, says))
    rows += _compiled(own, time)
    return rows


def _compiled(own: GateReport, time: Time) -> list[Metric]:
    """The time of torch.compile on the same GPU, with its day; of another run, so no ratio."""
    baselines = own.baselines
    known = None if baselines is None else baselines.compiled
    if baselines is None or known is None or known.time is None:
        return []
    if known.time.kind is not time.kind:
        return []
    compiled, day = known.time, baselines.measured[:10]
    return [_time_row("Compiled us", compiled, compiled.microseconds, None, day)]


def roof_share(own: GateReport) -> float | None:
    """The share of the roofline that is reached (Williams, Waterman, Patterson 2009).

    For a measured time the roofline is the report's limit; for a modeled one, its bandwidth side
    alone. None where the problem's work is unknown.
    """
    time = own.time
    if time is not None and own.limit is not None:
        return own.limit.share(time)
    if time is None or not time.detail.get(FLOOR) or time.microseconds <= 0:
        return None
    return time.detail[FLOOR] / time.microseconds


def _time_row(name: str, time: Time, value: float, before: float | None, note: str) -> Metric:
    return Metric(
        name=name, value=value, parent=before, kind=time.kind, better=-1, relative=True, note=note
    )


# -- what the compiler says ------------------------------------------------------------------------


_STATIC: tuple[tuple[str, Callable[[Sequence[StaticProfile]], float], int], ...] = (
    ("Regs/thread", lambda all_: max(s.registers for s in all_), -1),
    ("Spills B", lambda all_: sum(s.spill_store_bytes + s.spill_load_bytes for s in all_), -1),
    ("Shared KiB", lambda all_: max(s.shared_bytes for s in all_) / KIB, 0),
    ("Occupancy %", lambda all_: min(s.occupancy for s in all_) * 100, 1),
)


def _static(own: GateReport, parent: GateReport | None) -> list[Metric]:
    """Rows over all kernels of a call: most registers and shared memory, least occupancy."""
    profiles = _profiles(own.launches)
    if not profiles:
        return []
    before = _profiles(parent.launches) if parent is not None else []
    tightest = min(profiles, key=lambda s: s.occupancy)
    rows = [
        Metric(
            name=name,
            value=read(profiles),
            parent=read(before) if before else None,
            kind=Kind.EXACT,
            better=better,
            note=tightest.limiter if name.startswith("Occupancy") else "",
        )
        for name, read, better in _STATIC
    ]
    launches = len(parent.launches) if parent is not None and parent.launches else None
    rows.append(
        Metric(
            name="Launches", value=len(own.launches), parent=launches, kind=Kind.EXACT, better=-1
        )
    )
    return rows


def _profiles(launches: Sequence[Launch]) -> list[StaticProfile]:
    return [launch.static for launch in launches]


# -- what the tracer counted -----------------------------------------------------------------------


def _traffic(own: GateReport, parent: GateReport | None) -> list[Metric]:
    """Rows of traced traffic; counts that were scaled up from sampled programs are modeled."""
    if not own.traces:
        return []
    before = parent.traces if parent is not None and parent.traces else ()
    whole = all(trace.sampled == trace.programs for trace in (*own.traces, *before))
    kind = Kind.EXACT if whole else Kind.MODELED
    return [
        Metric(
            name=name, value=read(own.traces), parent=read(before) if before else None,
            kind=kind, better=better, relative=name.startswith("Moved"),
        )
        for name, read, better in _TRACED
    ]  # fmt: skip


def _moved(traces: Sequence[LaunchTrace]) -> float:
    return sum(t.loaded + t.stored for trace in traces for t in trace.traffic.values()) / MIB


def _efficiency(traces: Sequence[LaunchTrace]) -> float:
    return min(trace.sector_efficiency for trace in traces) * 100


def _masked(traces: Sequence[LaunchTrace]) -> float:
    return max(trace.masked_fraction for trace in traces) * 100


_TRACED: tuple[tuple[str, Callable[[Sequence[LaunchTrace]], float], int], ...] = (
    ("Moved MiB", _moved, -1),
    ("Sector use %", _efficiency, 1),
    ("Masked lanes %", _masked, -1),
)


# -- what the GPU counted --------------------------------------------------------------------------

_COUNTED: tuple[tuple[str, str, float, int], ...] = (
    ("DRAM %", "dram_pct", 1.0, 0),
    ("L2 %", "l2_pct", 1.0, 0),
    ("SM %", "sm_pct", 1.0, 0),
    ("Active warps %", "occupancy", 100.0, 1),
)
"""Name of the row, name of ncu's reading, factor, and which direction is better."""


def _counters(own: GateReport, parent: GateReport | None) -> list[Metric]:
    """Rows for the longest kernel; compared with the parent if its longest has the same name."""
    launch = _longest(own)
    if launch is None:
        return []
    other = _longest(parent) if parent is not None else None
    before = other if other is not None and other.kernel == launch.kernel else None
    rows = []
    for name, metric, factor, better in _COUNTED:
        value = launch.value(metric)
        if value is None:
            continue
        old = None if before is None else before.value(metric)
        rows.append(
            Metric(
                name=name, value=factor * value, parent=None if old is None else factor * old,
                kind=Kind.MEASURED, better=better, note=f"{launch.kernel}, ncu",
            )
        )  # fmt: skip
    return rows


def _longest(gate: GateReport) -> NcuLaunch | None:
    launches = () if gate.ncu is None else gate.ncu.launches
    return max(launches, key=lambda one: one.value("duration_us") or 0.0, default=None)
