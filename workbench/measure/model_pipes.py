"""How long one program keeps the arithmetic pipes and shared memory of a full SM busy."""

import math

from workbench.kernels.records import Launch, LaunchTrace
from workbench.kernels.target import Target

_SPECIAL_LANES = 2.0
"""fp32 instructions around one MUFU operation: scaling, range, sign."""
_SPLIT_LANES = 12.0
"""Measured: fp32 lanes of converting, subtracting and moving one fp32 operand that is split for
several MMAs (3xTF32 tiles of 64, 128 rows: 12 to 19)."""
_SHARED_BYTES_PER_CLOCK = 128.0
"""CUDA Programming Guide, "Shared Memory": 32 banks of 4 bytes a clock."""
_MMA_SYNC = 0.62
"""Of the peak, what mma.sync reaches where a wider MMA exists: on Hopper only wgmma reaches all of
it (Luo et al. 2024, "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture")."""
_WIDE_MMA = (90, 100)
"""Architectures with one."""
_FMA_DOT = 25.0
"""Measured: an fp32 dot on the FMA units reaches t / 25 of their peak when each thread holds t by t
results (7, 14, 21 TFLOP/s at t = 2.8, 5.7, 8): shared memory feeds them."""
_PRODUCTS = {"tf32": 1, "tf32x3": 3, "bf16x3": 3, "bf16x6": 6}
"""MMAs that one dot of an fp32 input precision takes."""


def pipe_times(launch: Launch, trace: LaunchTrace, target: Target) -> dict[str, float]:
    """Microseconds of one program's work on each pipe at the full rate of one SM.

    Peaks are the target's; tensor cores at the fraction that libraries sustain.
    """
    programs = max(trace.programs, 1)
    clocks_per_us = float(target.clock_mhz)
    lanes_per_us = target.fp32_tflops * 1e6 / 2 / target.sms
    fused = _fused_share(launch)
    lanes = (trace.vector_flops / (1 + fused) + _SPECIAL_LANES * trace.special_ops) / programs
    integer = (trace.integer_ops + trace.reduced_elements) / programs
    tensor = shared = 0.0
    for pipe, flops in trace.dot_flops.items():
        tile = trace.dot_tiles[pipe]
        each = flops / programs
        if pipe == "float32/ieee":
            lanes += each / 2 / _fma_rate(launch, tile)
            continue
        tensor += each / _tensor_flops_per_us(launch, pipe, target)
        dots = each / (2.0 * math.prod(tile))
        tensor += dots * _splitting(launch, pipe, tile) / lanes_per_us
        shared += dots * _shared_bytes(launch, pipe, tile) / _SHARED_BYTES_PER_CLOCK
    special = trace.special_ops / programs / target.special_per_clock
    return {
        "fp32": lanes / lanes_per_us,
        "integer": integer / target.integer_per_clock / clocks_per_us,
        "special": special / clocks_per_us,
        "tensor": tensor,
        "shared": shared / clocks_per_us,
    }


def _fused_share(launch: Launch) -> float:
    """Of the fp32 instructions in the code, those that do two operations at once."""
    fused = launch.static.mix.get("FFMA", 0)
    plain = launch.static.mix.get("FADD/FMUL", 0)
    return fused / (fused + plain) if fused else 0.0


def _fma_rate(launch: Launch, tile: tuple[int, int, int]) -> float:
    results = tile[0] * tile[1] / launch.static.threads
    return min(1.0, math.sqrt(results) / _FMA_DOT)


def _tensor_flops_per_us(launch: Launch, pipe: str, target: Target) -> float:
    """Useful flops a microsecond of one SM's tensor cores."""
    kind, _, precision = pipe.partition("/")
    if precision:
        kind = "bfloat16" if precision.startswith("bf16") else "tf32"
    peak = target.tensor_tflops.get(kind, target.fp32_tflops) * target.tensor_sustained
    if target.arch in _WIDE_MMA and not _is_wide(launch):
        peak *= _MMA_SYNC / target.tensor_sustained
    return peak * 1e6 / target.sms / _PRODUCTS.get(precision, 1)


def _is_wide(launch: Launch) -> bool:
    """Whether its tensor work is wgmma or tcgen05, which read operands from shared memory."""
    mix = launch.static.mix
    return bool(mix.get("HGMMA") or mix.get("UTCMMA"))


def _splitting(launch: Launch, pipe: str, tile: tuple[int, int, int]) -> float:
    """fp32 lanes that turn the operands of one dot into parts; tensor cores wait for them.

    With a wide MMA each operand is split once, with mma.sync by every warp that reads it.
    """
    if _PRODUCTS.get(pipe.partition("/")[2], 1) == 1:
        return 0.0
    m, n, k = tile
    rows, columns = (1, 1) if _is_wide(launch) else _warp_grid(launch.num_warps, m, n)
    return _SPLIT_LANES * k * (m * columns + n * rows)


def _shared_bytes(launch: Launch, pipe: str, tile: tuple[int, int, int]) -> float:
    """Bytes of shared memory that one dot writes and reads.

    Operands are written once. A wide MMA reads A once and B for every 64 rows; mma.sync reads them
    for every warp of the grid of warps. Split operands are read once for each product, A from
    registers.
    """
    m, n, k = tile
    size = _element_bytes(pipe)
    products = _PRODUCTS.get(pipe.partition("/")[2], 1)
    written = (m + n) * k * size
    if _is_wide(launch):
        groups = max(1, m // 64)
        return written + (m * k if products == 1 else 0) * size + products * groups * n * k * size
    rows, columns = _warp_grid(launch.num_warps, m, n)
    return written + (m * columns + n * rows) * k * size


def _element_bytes(pipe: str) -> int:
    return {"float16": 2, "bfloat16": 2, "int8": 1, "float64": 8}.get(pipe, 4)


def _warp_grid(warps: int, m: int, n: int) -> tuple[int, int]:
    """Rows and columns of warps over a tile, as square as the tile allows."""
    rows, columns = 1, 1
    while rows * columns < warps:
        if m // rows >= n // columns:
            rows *= 2
        else:
            columns *= 2
    return rows, columns
