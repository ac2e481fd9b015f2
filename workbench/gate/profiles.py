"""Two candidates' profiles side by side: every number with its kind, unknown ones included."""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from workbench.gate.bottlenecks import bottlenecks
from workbench.gate.records import GateReport
from workbench.kernels.facts_launch import chosen_launch
from workbench.kernels.records import LaunchTrace, StaticProfile
from workbench.measure.bottleneck import BottleneckClass
from workbench.measure.ncu.catalogue import CATALOGUE, STALL_PREFIX
from workbench.measure.ncu.facts import DERIVED, numbers
from workbench.measure.parts import in_words
from workbench.measure.records import Kind, Time

Value = float | str
WHOLE = ""
"""Stands for the kernel's name where a number describes the whole call."""
_MIX, _OTHER, _ALL = "machine code", "instructions other", "instructions, all"


class Compared(Struct, frozen=True, kw_only=True):
    """One number of two candidates."""

    kernel: str
    """Empty for the whole call."""
    group: str
    name: str
    unit: str
    kind: Kind | None
    """Kind of both values; None for a bottleneck, whose text names its kind."""
    a: Value | None
    """None: unknown."""
    b: Value | None
    delta: float | None = None
    """b - a; None unless both are numbers."""
    better: int = 0
    """1 when more is better, -1 when less is, 0 when neither."""


class _Number(Struct, frozen=True):
    value: Value
    group: str
    unit: str
    kind: Kind | None
    better: int


_Key = tuple[str, str, Kind | None]
_Sheet = Mapping[_Key, _Number]
"""Values by kernel, name and kind, so that a modeled and a measured one are never compared."""


def compare(a: GateReport, b: GateReport) -> tuple[Compared, ...]:
    """Every number that either candidate has: first the whole call, then kernel by kernel."""
    one, other = dict(_sheet(a)), dict(_sheet(b))
    rows = []
    for key in _in_order({**one, **other}):
        kernel, name, kind = key
        found = one.get(key) or other[key]
        left, right = _value(one, key, found), _value(other, key, found)
        delta = None
        if isinstance(left, float) and isinstance(right, float):
            delta = right - left
        rows.append(
            Compared(
                kernel=kernel, group=found.group, name=name, unit=found.unit, kind=kind,
                a=left, b=right, delta=delta, better=found.better,
            )
        )  # fmt: skip
    return tuple(rows)


def _value(sheet: _Sheet, key: _Key, like: _Number) -> Value | None:
    """The number; an opcode that is absent from a known mix counts zero."""
    if key in sheet:
        return sheet[key].value
    kernel, _, kind = key
    counted = like.group == _MIX and (kernel, _ALL, kind) in sheet
    return 0.0 if counted else None


def _in_order(sheet: _Sheet) -> list[_Key]:
    """Kernels together, and in each the groups, in order of first appearance.

    Instructions by name, what has none and their sum last: one that only the second candidate has
    stands among its like.
    """
    kernels = list(dict.fromkeys(kernel for kernel, _, _ in sheet))
    groups = list(dict.fromkeys(number.group for number in sheet.values()))

    def place(key: _Key) -> tuple[int, int, int, str]:
        kernel, name, _ = key
        group = sheet[key].group
        last = (_OTHER, _ALL).index(name) + 1 if name in {_OTHER, _ALL} else 0
        return kernels.index(kernel), groups.index(group), last, name if group == _MIX else ""

    return sorted(sheet, key=place)


def _sheet(gate: GateReport) -> Iterator[tuple[_Key, _Number]]:
    for label, time in (("time", gate.time), ("reference", gate.reference)):
        if time is not None:
            yield from _time(label, time)
    found = bottlenecks(gate)
    for kernel in dict.fromkeys(launch.kernel for launch in gate.launches):
        limit = found.get(kernel)
        if limit is not None and limit.limit is not BottleneckClass.UNKNOWN:
            says = f"{limit.limit} ({limit.kind})"
            yield (kernel, "bottleneck", None), _Number(says, "bottleneck", "", None, 0)
        yield from _static(gate, kernel)
        yield from _trace(gate, kernel)
        yield from _counters(gate, kernel)


def _time(label: str, time: Time) -> Iterator[tuple[_Key, _Number]]:
    better = -1 if label == "time" else 0
    number = _Number(float(time.microseconds), "time", "us", time.kind, better)
    yield (WHOLE, label, time.kind), number
    if label == "time":
        for part, us in time.detail.items():
            number = _Number(float(us), "time", "us", time.kind, -1)
            yield (WHOLE, f"time in {in_words(part)}", time.kind), number


_STATIC: tuple[tuple[str, str, int, Callable[[StaticProfile], Value]], ...] = (
    ("registers", "", -1, lambda s: float(s.registers)),
    ("spilled", "B", -1, lambda s: float(s.spill_store_bytes + s.spill_load_bytes)),
    ("stack", "B", -1, lambda s: float(s.stack_bytes)),
    ("shared memory", "B", 0, lambda s: float(s.shared_bytes)),
    ("threads", "", 0, lambda s: float(s.threads)),
    ("programs per SM", "", 1, lambda s: float(s.programs_per_sm)),
    ("occupancy", "%", 1, lambda s: 100 * s.occupancy),
    ("occupancy limit", "", 0, lambda s: s.limiter),
    ("code", "B", -1, lambda s: float(s.code_bytes)),
)


def _static(gate: GateReport, kernel: str) -> Iterator[tuple[_Key, _Number]]:
    launch = chosen_launch(kernel, gate.launches)
    if launch is None:
        return
    for name, unit, better, read in _STATIC:
        number = _Number(read(launch.static), "compiled", unit, Kind.EXACT, better)
        yield (kernel, name, Kind.EXACT), number
    for group, count in sorted(launch.static.mix.items()):
        name = _ALL if group == "total" else f"instructions {group}"
        number = _Number(float(count), _MIX, "", Kind.EXACT, 0)
        yield (kernel, name, Kind.EXACT), number


_TRACED: tuple[tuple[str, str, int, Callable[[LaunchTrace], float]], ...] = (
    ("loaded", "B", -1, lambda t: float(sum(one.loaded for one in t.traffic.values()))),
    ("stored", "B", -1, lambda t: float(sum(one.stored for one in t.traffic.values()))),
    ("useful part of sectors", "%", 1, lambda t: 100 * t.sector_efficiency),
    ("lanes masked off", "%", -1, lambda t: 100 * t.masked_fraction),
    ("product flops", "", -1, lambda t: sum(t.dot_flops.values())),
    ("vector flops", "", -1, lambda t: t.vector_flops),
    ("special-function operations", "", -1, lambda t: t.special_ops),
)


def _trace(gate: GateReport, kernel: str) -> Iterator[tuple[_Key, _Number]]:
    ours = [trace for trace in gate.traces if trace.kernel == kernel]
    if not ours:
        return
    trace = max(ours, key=lambda one: one.programs)
    # Scaled up from a sample, a count is modeled.
    kind = Kind.EXACT if trace.sampled == trace.programs else Kind.MODELED
    for name, unit, better, read in _TRACED:
        yield (kernel, name, kind), _Number(float(read(trace)), "traced", unit, kind, better)


def _counters(gate: GateReport, kernel: str) -> Iterator[tuple[_Key, _Number]]:
    """What ncu measured, without single stall reasons, which the full report shows."""
    launch = None if gate.ncu is None else gate.ncu.of(kernel)
    if launch is None:
        return
    for name, value in numbers(launch).items():
        if name.startswith(STALL_PREFIX) and name not in DERIVED:
            continue
        spec = CATALOGUE.get(name)
        unit = spec.unit if spec else DERIVED[name]
        group = f"counters: {spec.group if spec else 'derived'}"
        better = spec.better if spec else 0
        label = spec.says if spec else name.replace("_", " ")
        yield (kernel, label, Kind.MEASURED), _Number(value, group, unit, Kind.MEASURED, better)
