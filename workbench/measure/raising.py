"""When a timing beats a ceiling: that was too low, or the work is less than is assumed. Pure.

Ceilings are measured in a few seconds, perhaps beside neighbours. What a timing shows for certain
raises them; what it does not show is explained where its share is told.
"""

from collections.abc import Collection

from msgspec import Struct, structs

from workbench.kernels.target import Target
from workbench.measure.ceilings import Ceilings
from workbench.measure.floor import HARDLY
from workbench.measure.records import Limit
from workbench.problems.records import WorkFloor

BEATS = 1.01
"""A limit that is beaten by more is one too low (ours: noise is below that over a median)."""


class Shown(Struct, frozen=True, kw_only=True):
    """One timing, and the work behind it."""

    us: float
    who: str
    """What was timed, for the note: `gemm`."""
    day: str
    """`2026-11-29`."""
    work: WorkFloor
    dtypes: Collection[str]
    written: float
    """Bytes of the outputs."""
    counted: bool
    """The work was read off the reference."""
    l2_bytes: int
    """What the GPU's L2 can hold."""


def raised(ceilings: Ceilings, limit: Limit, target: Target, shown: Shown) -> Ceilings | None:
    """The ceilings with what this timing shows; None where it shows nothing beyond them.

    `limit` is the work's under these ceilings. Of the bytes those that an L2 can hold may never
    have met DRAM, so they show no bandwidth. Counted operations may have been saved by algebra, and
    mixed or emulated dtypes have no rate of their own, so they show no rate. Never above the
    datasheet's peak.
    """
    if shown.us * BEATS >= limit.us:
        return None
    if limit.bound == "memory":
        seen = (shown.work.bytes - shown.l2_bytes) / shown.us / 1e3
        reads = shown.written <= HARDLY * shown.work.bytes
        name, before = "copy_gbps", ceilings.copy_gbps
        if reads:
            name, before = "read_gbps", max(ceilings.read_gbps, before)
        return _better(ceilings, name, before, min(seen, target.dram_peak_gbps), shown)
    name = _native(shown.dtypes)
    if shown.counted or name not in ceilings.matrix_tflops or name not in target.tensor_tflops:
        return None
    seen = shown.work.flops / shown.us / 1e6
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
    """The one dtype whose rate bounds such products; empty where there are several."""
    names = {"float8" if dtype.startswith("float8") else dtype for dtype in dtypes}
    one = names.pop() if len(names) == 1 else ""
    return one if one in {"float16", "bfloat16", "float8", "int8"} else ""
