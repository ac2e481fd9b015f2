"""The least time that given work can take on a GPU: a faster claim cannot be true. Pure."""

from collections.abc import Collection

from msgspec import Struct

from workbench.kernels.target import Target
from workbench.measure.ceilings import Ceilings
from workbench.measure.records import Limit
from workbench.problems.records import Precision, WorkFloor

SHARE = 0.9
"""A time below nine tenths of the floor is refused (gate protocol, section 9.6)."""

_SPLIT = 3
"""Tensor-core products that one fp32 product takes when its operands are split into two fp16 or
TF32 parts (as in `tl.dot`'s tf32x3)."""

HARDLY = 0.05
"""Work that writes less than this share of its bytes is bound by reading (ours)."""


class Demand(Struct, frozen=True, kw_only=True):
    """What one call of a correct kernel has to do."""

    work: WorkFloor
    dtypes: Collection[str]
    """Dtypes of inputs, weights and outputs, without `torch.`."""
    precision: Precision
    written: float = 0.0
    """Bytes of all outputs."""
    counted: bool = False
    """Whether the work was counted on the reference: algebra or sparsity may then avoid part of its
    arithmetic."""


class Floor(Struct, frozen=True, kw_only=True):
    """The least time of one call, and what sets it."""

    us: float
    """Microseconds; 0 where nothing is known."""
    says: str
    """`8.59e+09 bytes at 4800 GB/s`, or why nothing is known."""


def floor(
    demand: Demand | None, target: Target, *, sms: int | None = None, l2_bytes: int | None = None
) -> Floor:
    """`max(bytes / peak DRAM bandwidth, flops / peak arithmetic)` in microseconds.

    The DRAM part applies only to a working set larger than L2. Of counted work only the bytes (all
    inputs and outputs once) set a floor. `sms` and `l2_bytes` describe the actual device, where
    known: it may be larger than the one that the target's numbers describe.
    """
    if demand is None:
        return Floor(us=0.0, says="the problem's work is not known")
    work, memory, arithmetic = demand.work, 0.0, 0.0
    if work.bytes > max(l2_bytes or 0, target.l2_bytes):
        memory = work.bytes / target.dram_peak_gbps / 1e3
    if not demand.counted and demand.dtypes:
        rate = peak_tflops(demand.dtypes, demand.precision, target)
        arithmetic = work.flops / (max(1.0, (sms or 0) / target.sms) * rate) / 1e6
    if memory >= arithmetic:
        return Floor(us=memory, says=f"{work.bytes:.4g} bytes at {target.dram_peak_gbps:g} GB/s")
    return Floor(us=arithmetic, says=f"{work.flops:.4g} operations at the peak of {target.name}")


def limit(demand: Demand | None, target: Target, ceilings: Ceilings | None = None) -> Limit | None:
    """The roofline of the work, of which `% of limit` is a share (Williams et al. 2009).

    Uses the rates of `ceilings` where given, else the datasheet's. Bytes start and end in DRAM,
    because L2 is overwritten before every timed call. Work that hardly writes is limited by
    reading, not by copying. Counted arithmetic is taken as it is, so an algorithm that needs less
    can pass 100 %. This refuses nothing: that is what `floor` is for. None where the work is not
    known.
    """
    if demand is None:
        return None
    at = target if ceilings is None else ceilings.applied(target)
    memory = _memory_limit(demand, at, ceilings)
    arithmetic = _arithmetic_limit(demand, at, ceilings)
    longer = memory if memory.us >= arithmetic.us else arithmetic
    return longer if longer.us > 0 else None


def hardly_writes(demand: Demand) -> bool:
    """Whether the work is bound by reading rather than by copying."""
    return demand.written <= HARDLY * demand.work.bytes


def _memory_limit(demand: Demand, at: Target, ceilings: Ceilings | None) -> Limit:
    size, gbps, used = demand.work.bytes, at.dram_peak_gbps, "copy_gbps"
    if ceilings is not None and hardly_writes(demand) and ceilings.read_gbps > gbps:
        gbps, used = ceilings.read_gbps, "read_gbps"
    return Limit(
        us=size / gbps / 1e3,
        says=f"{size:.4g} bytes at {gbps:.4g} GB/s",
        bound="memory",
        source="datasheet" if ceilings is None else ceilings.source_of(used),
        above="bytes that L2 holds need not pass through DRAM",
    )


def _arithmetic_limit(demand: Demand, at: Target, ceilings: Ceilings | None) -> Limit:
    flops, tflops = demand.work.flops, at.fp32_tflops
    if demand.dtypes:
        tflops = peak_tflops(demand.dtypes, demand.precision, at)
    used = [name for name, rate in at.tensor_tflops.items() if tflops in (rate, rate / _SPLIT)]
    return Limit(
        us=flops / tflops / 1e6,
        says=f"{flops:.4g} operations at {tflops:.4g} TFLOP/s",
        bound="arithmetic",
        source="datasheet" if ceilings is None else ceilings.source_of(*used),
        above="the operations were counted on the reference: algebra can save some"
        if demand.counted
        else "it computes in another way than this rate assumes",
    )


def peak_tflops(dtypes: Collection[str], precision: Precision, target: Target) -> float:
    """The fastest rate, in TFLOP/s, at which these dtypes can be multiplied in this precision."""
    return max(_rate(dtype, precision, target) for dtype in dtypes)


def _rate(dtype: str, precision: Precision, target: Target) -> float:
    tensor = target.tensor_tflops
    half = max(tensor.get("float16", 0.0), tensor.get("bfloat16", 0.0))
    if dtype.startswith("float8"):
        return max(tensor.get("float8", 0.0), half, target.fp32_tflops)
    if dtype in {"float16", "bfloat16"}:
        return max(half, target.fp32_tflops)
    if dtype == "float32":
        # fp16 has as many explicit mantissa bits as TF32, so one fp16 product may replace one.
        parts = 1 if precision is Precision.TF32 else _SPLIT
        return max(half / parts, target.fp32_tflops)
    if dtype in {"float64", "complex64", "complex128"}:
        return max(tensor.get("float64", 0.0), target.fp32_tflops)
    return max(tensor.get("int8", 0.0), half, target.fp32_tflops)
