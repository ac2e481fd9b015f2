"""Raises a ceiling that a timing has beaten, where the timing proves a higher rate. Pure.

Ceilings are measured in a few seconds, perhaps beside other work, and can be too low. A timing can
also beat one because it needs less work than is assumed; that proves nothing, and
`records.Limit.above` explains it instead.
"""

from collections.abc import Collection

from msgspec import Struct, structs

from workbench.kernels.target import Target
from workbench.measure.ceilings import Ceilings
from workbench.measure.floor import Demand, hardly_writes
from workbench.measure.records import Limit

BEATS = 1.01
"""A limit beaten by more than this is too low (ours: a median's noise is smaller)."""


class Shown(Struct, frozen=True, kw_only=True):
    """One timing, and the work that was timed."""

    us: float
    who: str
    """Name of what was timed, for the note: `gemm`."""
    day: str
    """Day of the timing: `2026-11-29`."""
    demand: Demand
    l2_bytes: int
    """Capacity of the GPU's L2."""


def raised(ceilings: Ceilings, limit: Limit, target: Target, shown: Shown) -> Ceilings | None:
    """The ceilings raised by this timing; None where it proves no higher rate.

    `limit` is the limit of the work under these ceilings. Bytes that L2 can hold may never have
    reached DRAM, so they prove no bandwidth. Counted operations may have been saved by algebra, and
    mixed or emulated dtypes have no rate of their own, so they prove no rate. A ceiling is never
    raised above the datasheet's peak.
    """
    if shown.us * BEATS >= limit.us:
        return None
    if limit.bound == "memory":
        seen = (shown.demand.work.bytes - shown.l2_bytes) / shown.us / 1e3
        name, before = "copy_gbps", ceilings.copy_gbps
        if hardly_writes(shown.demand):
            name, before = "read_gbps", max(ceilings.read_gbps, before)
        return _better(ceilings, name, before, min(seen, target.dram_peak_gbps), shown)
    name = _native(shown.demand.dtypes)
    if (
        shown.demand.counted
        or name not in ceilings.matrix_tflops
        or name not in target.tensor_tflops
    ):
        return None
    seen = shown.demand.work.flops / shown.us / 1e6
    now = min(seen, target.tensor_tflops[name])
    return _better(ceilings, name, ceilings.matrix_tflops[name], now, shown)


def _better(
    ceilings: Ceilings, name: str, before: float, now: float, shown: Shown
) -> Ceilings | None:
    if now <= before:
        return None
    unit = "GB/s" if name.endswith("_gbps") else "TFLOP/s"
    says = f"{shown.who} to {now:.4g} {unit} on {shown.day}, measured {before:.4g}"
    notes = {**ceilings.raised, name: says}
    if name in ceilings.matrix_tflops:
        rates = {**ceilings.matrix_tflops, name: now}
        return structs.replace(ceilings, matrix_tflops=rates, raised=notes)
    return structs.replace(ceilings, **{name: now}, raised=notes)


def _native(dtypes: Collection[str]) -> str:
    """The dtype whose matrix rate bounds such products; empty where there is not exactly one."""
    names = {"float8" if dtype.startswith("float8") else dtype for dtype in dtypes}
    one = names.pop() if len(names) == 1 else ""
    return one if one in {"float16", "bfloat16", "float8", "int8"} else ""
