"""How many programs of a compiled kernel fit on one SM, and which resource limits them."""

from typing import Literal

from msgspec import Struct

from workbench.kernels.target import Target

Limiter = Literal["registers", "shared", "warps", "programs"]


class Occupancy(Struct, frozen=True, kw_only=True):
    """Residency of one kernel on one SM of a target."""

    programs_per_sm: int
    """Resident programs on one SM; 0 when not even one fits."""
    occupancy: float
    """Resident warps over the SM's limit, 0 to 1."""
    limiter: Limiter
    """The resource that runs out first; in a tie, the first of registers, shared, warps."""
    by: dict[str, int]
    """Programs that each resource alone would allow."""


def occupancy(target: Target, *, registers: int, shared: int, threads: int) -> Occupancy:
    """Residency from registers per thread, shared bytes per program and threads per program.

    The rules are those of the CUDA Programming Guide ("Hardware Multithreading") and of NVIDIA's
    occupancy calculator. Registers are allocated to whole warps in units of 256, from the quarter
    of the register file that belongs to the warp's sub-partition. Each program also takes 1 KiB of
    reserved shared memory, and shared memory is allocated in units of 128 bytes.
    """
    warps = -(-threads // 32)
    by = {
        "registers": _by_registers(target, registers, warps),
        "shared": target.shared_per_sm // _up(shared + target.shared_reserved, target.shared_unit),
        "warps": target.warps // warps,
        "programs": target.programs,
    }
    order: tuple[Limiter, ...] = ("registers", "shared", "warps", "programs")
    limiter = min(order, key=lambda name: by[name])
    fit = by[limiter]
    return Occupancy(
        programs_per_sm=fit, occupancy=fit * warps / target.warps, limiter=limiter, by=by
    )


def _by_registers(target: Target, registers: int, warps: int) -> int:
    if registers > target.regs_per_thread:
        return 0
    per_warp = _up(max(registers, 1) * 32, target.register_unit)
    per_partition = target.regs // target.partitions // per_warp
    return per_partition * target.partitions // warps


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
