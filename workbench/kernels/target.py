"""The GPUs we compile for: limits of an SM, memory, arithmetic rates, latencies.

Sources, named in short beside the numbers below:
- guide: CUDA C++ Programming Guide 13, tables "Technical Specifications per Compute Capability" and
  "Throughput of Native Arithmetic Instructions".
- sheet: the vendor's datasheet or architecture whitepaper of the device, dense rates, no sparsity.
- measured: read on an H200 (driver 580, torch 2.11, triton 3.6).
- ours: an estimate where nobody publishes a number; it only feeds modeled times.
"""

from msgspec import Struct

from workbench.errors import WorkbenchError


class Target(Struct, frozen=True, kw_only=True):
    """One GPU, as the compiler, the occupancy rules and the speed model need it."""

    name: str
    """Value of `--target`: `sm90`."""
    arch: int
    """Compute capability times ten."""
    device: str
    """The product whose memory and clocks stand for this target."""
    sms: int
    regs: int
    """32-bit registers of one SM."""
    regs_per_thread: int = 255
    """guide: most registers of one thread, on every target here."""
    register_unit: int = 256
    """Registers are allocated to a warp in multiples of this (CUDA occupancy calculator)."""
    partitions: int = 4
    """Sub-partitions of an SM, each with a quarter of the registers and one warp scheduler."""
    warps: int
    """Most resident warps of one SM."""
    programs: int
    """Most resident programs (CTAs) of one SM."""
    threads_per_program: int = 1024
    shared_per_sm: int
    """Shared memory of one SM in bytes."""
    shared_per_program: int
    """Most bytes that a program may request (the opt-in limit)."""
    shared_reserved: int = 1024
    """guide: bytes that the system takes from shared memory for each resident program."""
    shared_unit: int = 128
    """Shared memory is allocated in multiples of this many bytes (CUDA occupancy calculator)."""
    l1_bytes: int
    """L1 and shared memory of one SM together."""
    l2_bytes: int
    memory_bytes: int
    dram_gbps: float
    """Bandwidth of a copy, bytes read plus bytes written, in 1e9 bytes a second."""
    dram_peak_gbps: float
    """Bandwidth in the datasheet, in 1e9 bytes a second."""
    l2_gbps: float
    """Sustained bandwidth from L2 to all SMs, in 1e9 bytes a second."""
    clock_mhz: int
    """Boost clock for which the arithmetic rates hold."""
    fp32_tflops: float
    tensor_tflops: dict[str, float]
    """Peak of dense products by operand dtype (`bfloat16`, `tf32`, ...), accumulating in fp32 or
    int32."""
    tensor_sustained: float
    """Share of that peak that a tuned library reaches at full power."""
    integer_per_clock: int = 64
    """guide: integer, comparing and logical results per clock and SM."""
    special_per_clock: int
    """MUFU operations per clock and SM."""
    launch_us: float
    """Device time that one more launch in a stream adds, beyond the work in it."""
    dram_latency_ns: float
    l2_latency_ns: float


_KIB = 1 << 10
_MIB = 1 << 20
_GIB = 1 << 30

_AMPERE = Target(
    name="sm80",
    arch=80,
    device="NVIDIA A100-SXM4-80GB",
    sms=108,  # sheet
    regs=65536,  # guide
    warps=64,  # guide
    programs=32,  # guide
    shared_per_sm=164 * _KIB,  # guide
    shared_per_program=163 * _KIB,  # guide
    l1_bytes=192 * _KIB,  # guide
    l2_bytes=40 * _MIB,  # sheet
    memory_bytes=80 * _GIB,  # sheet
    dram_gbps=1815.0,  # ours: 0.89 of the sheet's, as on the H200
    dram_peak_gbps=2039.0,  # sheet
    l2_gbps=4300.0,  # ours: half of 5120 bytes a clock (whitepaper) at the boost clock, rounded up
    clock_mhz=1410,  # sheet
    fp32_tflops=19.5,  # sheet
    tensor_tflops={
        "float16": 312.0,
        "bfloat16": 312.0,
        "tf32": 156.0,
        "int8": 624.0,
        "float64": 19.5,
    },  # sheet
    tensor_sustained=0.85,  # ours: less bound by power than the H200
    special_per_clock=16,  # guide
    launch_us=1.7,  # ours: as measured on the H200
    dram_latency_ns=600.0,  # ours
    l2_latency_ns=200.0,  # ours
)

_HOPPER = Target(
    name="sm90",
    arch=90,
    device="NVIDIA H200",
    sms=132,  # measured
    regs=65536,  # measured
    warps=64,  # measured
    programs=32,  # guide
    shared_per_sm=228 * _KIB,  # measured
    shared_per_program=227 * _KIB,  # guide
    l1_bytes=256 * _KIB,  # guide
    l2_bytes=60 * _MIB,  # measured (device properties; an H100 has 50)
    memory_bytes=141 * 10**9,  # sheet
    dram_gbps=4271.0,  # measured: copy of 4 GiB
    dram_peak_gbps=4800.0,  # sheet
    l2_gbps=11000.0,  # measured: what 64 by 64 tiles of a GEMM draw at most
    clock_mhz=1980,  # measured (maximum SM clock)
    fp32_tflops=66.9,  # sheet: 132 SMs, 128 FMA a clock, 1980 MHz
    tensor_tflops={
        "float16": 989.4,
        "bfloat16": 989.4,
        "tf32": 494.7,
        "float8": 1978.9,
        "int8": 1978.9,
        "float64": 66.9,
    },  # sheet
    tensor_sustained=0.80,  # measured: 790 of 989 TFLOP/s, bfloat16 on random data
    special_per_clock=16,  # guide
    launch_us=1.7,  # measured: five empty kernels against one
    dram_latency_ns=650.0,  # ours
    l2_latency_ns=200.0,  # ours
)

_BLACKWELL = Target(
    name="sm100",
    arch=100,
    device="NVIDIA B200",
    sms=148,  # sheet
    regs=65536,  # guide
    warps=64,  # guide
    programs=32,  # guide
    shared_per_sm=228 * _KIB,  # guide
    shared_per_program=227 * _KIB,  # guide
    l1_bytes=256 * _KIB,  # guide
    l2_bytes=126 * _MIB,  # sheet
    memory_bytes=180 * 10**9,  # sheet
    dram_gbps=7120.0,  # ours: 0.89 of the sheet's, as on the H200
    dram_peak_gbps=8000.0,  # sheet
    l2_gbps=10000.0,  # ours
    clock_mhz=1965,  # sheet
    fp32_tflops=74.5,  # sheet
    tensor_tflops={
        "float16": 2250.0,
        "bfloat16": 2250.0,
        "tf32": 1125.0,
        "float8": 4500.0,
        "int8": 4500.0,
        "float64": 37.0,
    },  # sheet
    tensor_sustained=0.75,  # ours
    special_per_clock=16,  # guide
    launch_us=1.7,  # ours: as measured on the H200
    dram_latency_ns=700.0,  # ours
    l2_latency_ns=220.0,  # ours
)

_BLACKWELL_CONSUMER = Target(
    name="sm120",
    arch=120,
    device="NVIDIA GeForce RTX 5090",
    sms=170,  # sheet
    regs=65536,  # guide
    warps=48,  # guide
    programs=24,  # guide
    shared_per_sm=100 * _KIB,  # guide
    shared_per_program=99 * _KIB,  # guide
    l1_bytes=128 * _KIB,  # guide
    l2_bytes=96 * _MIB,  # sheet
    memory_bytes=32 * _GIB,  # sheet
    dram_gbps=1630.0,  # ours: 0.91 of the sheet's, GDDR7
    dram_peak_gbps=1792.0,  # sheet
    l2_gbps=6500.0,  # ours
    clock_mhz=2407,  # sheet
    fp32_tflops=104.8,  # sheet
    tensor_tflops={
        "float16": 209.5,
        "bfloat16": 209.5,
        "tf32": 104.8,
        "float8": 419.0,
        "int8": 838.0,
        "float64": 1.64,
    },  # sheet
    tensor_sustained=0.90,  # ours
    integer_per_clock=128,  # sheet: integer and fp32 lanes are the same ones
    special_per_clock=16,  # guide
    launch_us=1.7,  # ours: as measured on the H200
    dram_latency_ns=600.0,  # ours
    l2_latency_ns=180.0,  # ours
)

TARGETS: dict[str, Target] = {
    t.name: t for t in (_AMPERE, _HOPPER, _BLACKWELL, _BLACKWELL_CONSUMER)
}


def target(name: str) -> Target:
    """The target of that name. Raises WorkbenchError, which lists the known ones, without one."""
    found = TARGETS.get(name)
    if found is None:
        raise WorkbenchError(
            f"{name!r} is not a target we can compile for",
            where="--target",
            todo=f"use one of {', '.join(TARGETS)}",
        )
    return found
