"""The modeled time of a reference in eager PyTorch, from its operators."""

from collections.abc import Sequence

from msgspec import Struct

from workbench.kernels.target import Target
from workbench.measure.records import Kind, Time

_L2_SHARE = 0.5
"""An operator whose bytes fit in this share of L2 finds its operands there (ours)."""


class OperatorWork(Struct, frozen=True, kw_only=True):
    """One operator that launches a kernel, counted on shapes alone."""

    name: str
    """`aten.mm`."""
    bytes: float
    """Bytes of all tensors it reads and writes, each counted once."""
    matrix_flops: float
    """Operations of matrix products and convolutions, two for each multiply-add (PyTorch's flop
    counter); 0 for other operators."""
    elements: float
    """Output elements of an operator that is not a matrix product: one fp32 operation each."""
    dtype: str
    """Dtype of its first output, without `torch.`."""


def modeled_eager(work: Sequence[OperatorWork], target: Target, *, tf32: bool) -> Time:
    """Every operator in turn, each at the roofline of its bytes and operations, plus its launch.

    Roofline: Williams et al. 2009. One kernel is assumed for each operator, although some launch
    several, so this flatters eager. `tf32` says whether fp32 matrix products may use the tensor
    cores. Raises ValueError when `work` is empty.
    """
    if not work:
        raise ValueError("a reference without operators has no time")
    memory = arithmetic = total = 0.0
    for one in work:
        gbps = target.l2_gbps if one.bytes <= _L2_SHARE * target.l2_bytes else target.dram_gbps
        moving = one.bytes / gbps / 1e3
        rate = _matrix_tflops(one.dtype, target, tf32=tf32)
        computing = (one.matrix_flops / rate + one.elements / target.fp32_tflops) / 1e6
        memory += moving
        arithmetic += computing
        total += max(moving, computing) + target.launch_us
    return Time(
        kind=Kind.MODELED,
        microseconds=total,
        device=target.name,
        detail={
            "memory": memory,
            "arithmetic": arithmetic,
            "launch": len(work) * target.launch_us,
        },
    )


def _matrix_tflops(dtype: str, target: Target, *, tf32: bool) -> float:
    """The rate that a vendor library sustains for matrix products of a dtype, in TFLOP/s."""
    name = "tf32" if dtype == "float32" and tf32 else dtype
    peak = target.tensor_tflops.get(name)
    # On the H200, cuBLAS reached 50.5 of 66.9 TFLOP/s in IEEE fp32: the same share as in bf16.
    return (target.fp32_tflops if peak is None else peak) * target.tensor_sustained
