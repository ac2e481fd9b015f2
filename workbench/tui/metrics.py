"""The numbers of a version against its parent's: pure, each with its kind."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from workbench.gate.records import GateReport
from workbench.kernels.records import Launch, LaunchTrace, StaticProfile
from workbench.measure.ncu.records import NcuLaunch
from workbench.measure.records import Kind, Time
from workbench.tui.draw import figure

KIB, MIB = 1 << 10, 1 << 20
SHOWN_PARTS = 4
"""Of a modeled time, largest first."""
_HAIR = 0.005
"""Share of a time, a traffic or a counter below which a change is neither good nor bad; ours."""
_FLOOR = "floor"
"""The part of a time that is no work: the least that the problem's bytes must take."""


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
    """What limits it, how it was read."""

    @property
    def change(self) -> float | None:
        """Value less the parent's."""
        return None if self.parent is None else self.value - self.parent

    @property
    def worse(self) -> bool:
        """Whether it moved the wrong way, and not by a hair only."""
        return self.change is not None and self.change * self.better < 0 and not self.hair

    @property
    def hair(self) -> bool:
        """Whether a change is too small to be for better or worse; an exact one never is."""
        if self.change is None or (self.kind is Kind.EXACT and not self.relative):
            return False
        return abs(self.change) < _HAIR * abs(self.parent or 0.0)


def metrics(own: GateReport, parent: GateReport | None) -> tuple[Metric, ...]:
    """Time first, then what the compiler says, the traced traffic, and the GPU's counters."""
    return (
        *_times(own, parent),
        *_static(own, parent),
        *_traffic(own, parent),
        *_counters(own, parent),
    )


# -- time ---------------------------------------------------------------------------------------


def baseline(own: GateReport, parent: GateReport | None) -> Time | None:
    """The parent's time: read in the same run where there is one, else on the same ground."""
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
    parts = {name: value for name, value in time.detail.items() if value > 0 and name != _FLOOR}
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
    """What torch.compile took on the same GPU, and when: times of two runs make no ratio."""
    baselines = own.baselines
    known = None if baselines is None else baselines.compiled
    if baselines is None or known is None or known.time is None:
        return []
    if known.time.kind is not time.kind:
        return []
    compiled, day = known.time, baselines.measured[:10]
    return [_time_row("Compiled us", compiled, compiled.microseconds, None, day)]


def roof_share(own: GateReport) -> float | None:
    """How much of the roof is reached (roofline: Williams, Waterman, Patterson 2009).

    Of a measured time, its report's own limit; of a modeled one the bandwidth side alone. None
    where nobody counted the problem's work.
    """
    time = own.time
    if time is not None and own.limit is not None:
        return own.limit.share(time)
    if time is None or not time.detail.get(_FLOOR) or time.microseconds <= 0:
        return None
    return time.detail[_FLOOR] / time.microseconds


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
    """Over all kernels of a call: the most registers and shared memory, the least occupancy."""
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
    """Counted lane by lane; a count scaled up from sampled programs is modeled, not exact."""
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
"""Row, name among ncu's readings, what it is multiplied by, and which way is better."""


def _counters(own: GateReport, parent: GateReport | None) -> list[Metric]:
    """Of the kernel that takes longest; the parent's only where that is the same kernel."""
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
