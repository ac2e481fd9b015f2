"""Collects all facts about a kernel that are known without timing it; others are unknown."""

import math
from collections.abc import Iterator, Mapping, Sequence

from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.kernels.facts_code import Row, code_facts
from workbench.kernels.facts_launch import chosen_launch, grid_facts, launch_facts
from workbench.kernels.records import Fact, Launch, LaunchTrace
from workbench.kernels.source import read_source
from workbench.kernels.target import Target

Known = Mapping[str, bool | int | float | str | tuple[str, ...] | None]
"""Values of facts that were read elsewhere, by full name: `problem.flops`, ..."""


def read_facts(
    source: str,
    kernel: str,
    launches: Sequence[Launch] = (),
    traces: Sequence[LaunchTrace] = (),
    problem: Known | None = None,
    target: Target | None = None,
) -> dict[str, Fact]:
    """Every fact of the catalogue for one kernel of a candidate; `value` None is unknown.

    `launches` and `traces` are those of a whole forward pass; if the kernel was launched several
    times, the launch with the most programs counts. `problem` may hold any fact that was read
    elsewhere, by full name. Text that is not Python, a missing kernel and malformed values give
    unknown facts, never an error.
    """
    rows: dict[str, tuple[object, str]] = {}
    for name, value, evidence in _rows(source, kernel, launches, traces, target):
        rows[name] = (value, evidence)
    for name, value in (problem or {}).items():
        rows[name] = (value, "")
    _derive(rows)
    return {name: _fact(name, *rows.get(name, (None, ""))) for name in CATALOGUE}


def _rows(
    text: str,
    name: str,
    launches: Sequence[Launch],
    traces: Sequence[LaunchTrace],
    target: Target | None,
) -> Iterator[Row]:
    source = read_source(text)
    kernel = source.kernel(name)
    launch = chosen_launch(name, launches)
    if kernel is not None:
        yield from code_facts(source, kernel)
        if launch is not None:
            yield from launch_facts(kernel, launch)
    if launch is not None:
        yield from grid_facts(launch, len(launches), target)
        yield from _static(launch)
    ours = [trace for trace in traces if trace.kernel == name]
    if ours:
        yield from _trace(max(ours, key=lambda trace: trace.programs))
    if target is not None:
        yield from _device(target)


def _static(launch: Launch) -> Iterator[Row]:
    static = launch.static
    yield "static.registers", static.registers, ""
    yield "static.spills", static.spill_store_bytes + static.spill_load_bytes, ""
    yield "static.shared_bytes", static.shared_bytes, ""
    yield "static.occupancy", static.occupancy, f"limited by {static.limiter}"
    yield "static.limiter", static.limiter, ""
    yield "static.programs_per_sm", static.programs_per_sm, ""
    mix = static.mix
    widths = [w for group in mix if (w := _load_width(group))]
    if widths:
        yield "static.load_width", max(widths), ""
        narrow = sorted(g for g in mix if 0 < _load_width(g) < 128)
        yield "static.narrow_loads", bool(narrow), ", ".join(narrow)
    if mix:
        matrix = sorted(g for g in mix if "MMA" in g)
        yield "static.uses_tensor_cores", bool(matrix), ", ".join(matrix)
        copies = sorted(g for g in mix if g.startswith(("LDGSTS", "UTMALDG", "UBLKCP")))
        yield "static.uses_async_copies", bool(copies), ", ".join(copies)
        yield "static.instructions", mix.get("total"), ""


def _load_width(group: str) -> int:
    """Bits that a thread loads from global memory with an instruction of the group; 0 if none."""
    name, _, width = group.partition(".")
    digits = width.rstrip("-")
    return int(digits) if name in {"LDG", "LDGSTS"} and digits.isdigit() else 0


def _trace(trace: LaunchTrace) -> Iterator[Row]:
    loaded = sum(t.loaded for t in trace.traffic.values())
    stored = sum(t.stored for t in trace.traffic.values())
    inputs = sum(t.footprint for t in trace.traffic.values() if t.loaded)
    sampled = f"{trace.sampled} of {trace.programs} programs traced"
    yield "trace.masked_fraction", trace.masked_fraction, sampled
    yield "trace.sector_efficiency", trace.sector_efficiency, sampled
    yield "trace.loaded_bytes", loaded, sampled
    yield "trace.stored_bytes", stored, sampled
    if inputs:
        yield "trace.load_redundancy", loaded / inputs, f"{loaded} / {inputs} B"
    flops = sum(trace.dot_flops.values()) + trace.vector_flops
    yield "trace.flops", flops, sampled
    yield "trace.special_ops", trace.special_ops, sampled
    if loaded + stored:
        yield "trace.intensity", flops / (loaded + stored), ""
    yield "trace.atomics", trace.atomics, sampled


def _device(target: Target) -> Iterator[Row]:
    yield "device.cc", target.arch, target.device
    yield "device.sms", target.sms, target.device
    yield "device.l2_bytes", target.l2_bytes, ""
    yield "device.shared_per_program", target.shared_per_program, ""
    yield "device.registers_per_sm", target.regs, ""
    yield "device.dram_gbps", target.dram_gbps, ""
    if target.dram_gbps:
        yield "device.balance", target.fp32_tflops * 1000 / target.dram_gbps, ""


def _derive(rows: dict[str, tuple[object, str]]) -> None:
    """Add facts that follow from others."""
    flops, size = rows.get("problem.flops", (None, ""))[0], rows.get("problem.bytes", (None, ""))[0]
    if isinstance(flops, int | float) and isinstance(size, int | float) and size:
        rows.setdefault("problem.intensity", (flops / size, f"{flops} / {size} B"))


def _fact(name: str, value: object, evidence: str) -> Fact:
    spec = CATALOGUE[name]
    return Fact(
        name=name,
        value=_typed(value, spec.type),
        unit=spec.unit,
        source=spec.source,
        says=spec.says,
        evidence=evidence,
    )


def _typed(value: object, kind: str) -> bool | int | float | str | tuple[str, ...] | None:
    """The value if it has the type that the catalogue promises; else None."""
    match kind, value:
        case "flag", bool():
            return value
        case "number", bool():
            return None
        case "number", int() | float():
            return value if math.isfinite(value) else None
        case "text", str() if value:
            return value
        case "names", tuple():
            return tuple(str(v) for v in value)
        case _:
            return None
