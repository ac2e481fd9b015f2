"""Records of a worker's environment, its limits, and the layers that confine it."""

from enum import StrEnum

from msgspec import Struct


class Flavor(StrEnum):
    """The environment of a worker, which must be set before torch or triton is imported."""

    INTERPRET = "interpret"
    """TRITON_INTERPRET=1, no CUDA device visible, no new processes, no exec."""
    COMPILE = "compile"
    """Triton compiles for a target; no CUDA device visible; exec of the toolchain allowed."""
    CUDA = "cuda"
    """The GPU is visible. Exec of the toolchain allowed, for Triton runs ptxas and a C compiler at
    each new specialization, until `Worker.forbid_programs`: a timing calls that before its first
    pair; a comparison, which goes on compiling, and the profiling tools never do."""
    REFERENCE = "reference"
    """Runs the problem file: no TRITON_INTERPRET; the GPU (and exec) only where there is one."""
    BARE = "bare"
    """Nothing preloaded, but confined like INTERPRET; for jobs that do not need torch."""


class Limits(Struct, frozen=True, kw_only=True):
    """What one worker may use. Exceeding any limit ends the worker with a typed outcome."""

    wall_seconds: float = 120.0
    """Deadline of one call, unless the call names its own."""
    cpu_seconds: int = 600
    """CPU time of each process over its whole life (RLIMIT_CPU)."""
    memory_bytes: int = 8 << 30
    """Private memory of each process (RLIMIT_DATA), and resident memory of all together."""
    output_bytes: int = 64 << 10
    """Bytes kept from the end of stdout and of stderr; the rest is read and dropped."""
    file_bytes: int = 512 << 20
    """Size of one file (RLIMIT_FSIZE), and of the whole scratch folder."""
    reply_bytes: int = 1 << 30
    """Size of all blobs of one reply."""
    tasks: int = 256
    """Number of threads and processes together."""
    open_files: int = 512
    threads: int = 1
    """Size of torch's thread pool on the CPU."""
    device_bytes: int | None = None
    """GPU memory of torch's allocator and, where NVML reports it, of all its processes without
    their CUDA contexts; None for no limit. `Worker.allow_device_bytes` changes it."""


class Layer(Struct, frozen=True, kw_only=True):
    """One layer of a sandbox, and whether it is in force."""

    name: str
    """`pid namespace`, `landlock`, `seccomp`, ..."""
    ok: bool
    detail: str = ""
    """Version or extent if it is in force; otherwise the reason."""
