"""What a worker is allowed, which environment it was born with, and what confines it."""

from enum import StrEnum

from msgspec import Struct


class Flavor(StrEnum):
    """The environment that has to be settled before torch or triton is imported."""

    INTERPRET = "interpret"
    """TRITON_INTERPRET=1, no CUDA device visible, no new processes, no exec."""
    COMPILE = "compile"
    """Triton compiles for a target; no CUDA device visible; exec of the toolchain allowed."""
    CUDA = "cuda"
    """The GPU is visible; exec allowed until `JobContext.forbid_exec`."""
    REFERENCE = "reference"
    """Runs the problem file: no TRITON_INTERPRET; the GPU (and exec) only where there is one."""
    BARE = "bare"
    """Nothing preloaded, otherwise confined like INTERPRET: for jobs that need no torch."""


class Limits(Struct, frozen=True, kw_only=True):
    """What one worker may use. Going past any of them ends the worker with a typed outcome."""

    wall_seconds: float = 120.0
    """For one call, unless the call names its own deadline."""
    cpu_seconds: int = 600
    """Of each process, over its whole life (RLIMIT_CPU)."""
    memory_bytes: int = 8 << 30
    """Private memory of each process (RLIMIT_DATA) and resident memory of all together."""
    output_bytes: int = 64 << 10
    """Kept of stdout and of stderr, counted from the end; the rest is read and dropped."""
    file_bytes: int = 512 << 20
    """Of one file (RLIMIT_FSIZE) and of the whole scratch folder."""
    reply_bytes: int = 1 << 30
    """Of the blobs of one reply."""
    tasks: int = 256
    """Threads and processes together."""
    open_files: int = 512
    threads: int = 1
    """Of torch's own thread pool on the CPU."""
    device_bytes: int | None = None
    """GPU memory: of torch's allocator, and of all its processes (their CUDA contexts apart) where
    NVML tells; None: no cap. `Worker.allow_device_bytes` moves it."""


class Layer(Struct, frozen=True, kw_only=True):
    """One layer of a sandbox and whether it holds."""

    name: str
    """`pid namespace`, `landlock`, `seccomp`, ..."""
    ok: bool
    detail: str = ""
    """Version or extent where it holds; the reason where it does not."""
