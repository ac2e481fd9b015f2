"""Records of what is known about kernels without timing: launches, profile, trace, facts."""

from typing import Literal

from msgspec import Struct

Scalar = int | float | bool | str | None


class TensorArgument(Struct, frozen=True, kw_only=True, tag="tensor"):
    """A tensor as a launch received it."""

    dtype: str
    """Without the `torch.` prefix: `float32`."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    alignment: int
    """Largest power of two that divides the address, at most 256."""
    bytes: int


class DescriptorArgument(Struct, frozen=True, kw_only=True, tag="descriptor"):
    """A host-made tensor descriptor (TMA)."""

    base: TensorArgument
    block: tuple[int, ...]


class ScalarArgument(Struct, frozen=True, kw_only=True, tag="scalar"):
    """Any argument that is not a tensor."""

    value: Scalar


Argument = TensorArgument | DescriptorArgument | ScalarArgument


class StaticProfile(Struct, frozen=True, kw_only=True):
    """What the compiler reports of one kernel: exact for this triton, ptxas and target."""

    registers: int
    """Registers per thread."""
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int
    """Shared memory of a program, dynamic plus static."""
    threads: int
    """Threads per program; warp specialization adds to `32 * num_warps`."""
    programs_per_sm: int
    occupancy: float
    """Resident warps over the SM's limit, 0 to 1."""
    limiter: Literal["registers", "shared", "warps", "programs"]
    code_bytes: int
    mix: dict[str, int] = {}
    """Number of SASS instructions in the code, by group (`LDG.128`, `HGMMA`, ...) and `total`."""


class Launch(Struct, frozen=True, kw_only=True):
    """One `kernel[grid](...)` as the host code made it, compiled for the target."""

    kernel: str
    grid: tuple[int, int, int]
    arguments: dict[str, Argument]
    constexprs: dict[str, Scalar]
    num_warps: int
    num_stages: int
    num_ctas: int
    line: int
    """Line of the launch in the candidate's file; 0 when it is elsewhere."""
    cubin_sha256: str
    static: StaticProfile
    compile_seconds: float
    configs: tuple[str, ...] = ()
    """The configurations of the kernel's autotuner, in its order; empty when it has none."""
    config: int = 0
    """Index of the recorded one: without a GPU the first that compiles and fits, not the best."""
    code_sha256: str = ""
    """Hash of the machine code alone, independent of the folder in which it was compiled; the key
    of `KernelCode`. Empty in sessions recorded before this field existed."""

    @property
    def programs(self) -> int:
        """Programs in the grid; of one that is not above zero triton launches none."""
        x, y, z = self.grid
        return max(x * y * z, 0)


class Build(Struct, frozen=True, kw_only=True):
    """A kernel that host code compiled ahead of its launch (`kernel.warmup(...)`)."""

    kernel: str
    arguments: dict[str, str]
    """What the compiler was told of each argument, by parameter; see `kernels.builds`."""
    options: dict[str, str]
    """Options as they were given (`num_warps`), in Python's spelling."""
    registers: int
    """Registers per thread."""
    spills: int
    """Local memory per thread, 4-byte words."""
    threads: int
    """Most threads of a program."""
    metadata: dict[str, Scalar]
    """`shared` (bytes), `num_warps`, `num_stages`, `num_ctas`, `warp_size`, `name`."""


class KernelCode(Struct, frozen=True, kw_only=True):
    """Generated code of one kernel; a text that is too long to keep is empty."""

    kernel: str
    code_sha256: str
    target: str
    """`sm90`."""
    toolchain: dict[str, str]
    """Versions of the tools that made it, by name."""
    ttgir: str = ""
    ptx: str = ""
    """The PTX without debug sections."""
    sass: str = ""


class HostOperation(Struct, frozen=True, kw_only=True):
    """A torch operation of the host code that moves or makes data beside the kernels."""

    name: str
    """The dispatcher's name: `aten::clone`."""
    bytes: int
    """Bytes of all tensors it reads and writes."""
    line: int
    """Line in the candidate's file; 0 when it is elsewhere."""


class Traffic(Struct, frozen=True, kw_only=True):
    """What one launch moves for one tensor argument, in bytes counted lane by lane."""

    loaded: int
    stored: int
    unique_sectors: int
    """Distinct 32-byte sectors touched by the programs that were traced (not scaled)."""
    footprint: int
    """Bytes of the tensor's storage."""
    requested: int = 0
    """Bytes of the 32-byte sectors that groups of 32 lanes request."""
    stored_sectors: int = 0
    """Number of the `unique_sectors` that were stored to."""
    sectors_per_program: float = 0.0
    """Distinct sectors that one program touches, averaged over the traced programs."""
    granules: int = 0
    """Distinct 64-byte pairs of sectors in `unique_sectors`: DRAM moves nothing smaller."""
    sharing: tuple[int, ...] = ()
    """Number of distinct addresses at which the first 1, 2, 4, 8, ... programs of the grid begin to
    read this tensor; few addresses for many programs mean that neighbours share data. Empty when
    not probed."""


class Way(Struct, frozen=True, kw_only=True):
    """A condition on loaded numbers that always had the same outcome in the interpreter."""

    kernel: str
    line: int
    truth: bool
    """The outcome."""
    branch: bool
    """Whether the kernel branched on it; otherwise it chose or masked lanes."""


class OutOfBounds(Struct, frozen=True, kw_only=True):
    """An access with active lanes whose addresses lie outside every tensor argument."""

    kernel: str
    line: int
    program: tuple[int, int, int]
    access: Literal["load", "store", "atomic"]
    lanes: int
    """How many lanes of that access were outside."""
    argument: str
    """The nearest tensor argument."""
    offset_bytes: int
    """Offset from the start of that argument's storage; may be negative."""


class LaunchTrace(Struct, frozen=True, kw_only=True):
    """What one launch did in the interpreter, scaled from the sampled programs to the grid."""

    kernel: str
    grid: tuple[int, int, int]
    programs: int
    sampled: int
    """Programs that were run; equals `programs` when the trace is exact."""
    traffic: dict[str, Traffic]
    masked_fraction: float
    """Share of the lanes of loads and stores that masks switch off, 0 to 1."""
    sector_efficiency: float
    """Useful bytes over bytes of the 32-byte sectors that groups of 32 lanes touch, 0 to 1."""
    dot_flops: dict[str, float]
    """Flops of `tl.dot` by pipe: operand dtype, with the fp32 input precision after a slash
    (`float32/tf32x3`)."""
    vector_flops: float
    special_ops: float
    """Operations of the MUFU pipe: exp, log, sqrt, rsqrt, sin, division."""
    reduced_elements: float
    atomics: float
    out_of_bounds: tuple[OutOfBounds, ...] = ()
    integer_ops: float = 0.0
    """Elementwise integer, logical, conversion, comparison, minimum and maximum operations. Address
    arithmetic is counted as written, although a compiler folds much of it."""
    line: int = 0
    """Line of the launch in the candidate's file; 0 when it is elsewhere."""
    load_steps: float = 0.0
    """How often a program waits for loads in sequence, on average: once in each trip of a loop
    whose body loads; independent loads wait together."""
    loads: float = 0.0
    """Loads that one program executes, on average."""
    load_places: int = 0
    """Number of places in the source that load."""
    atomic_requests: float = 0.0
    """Sequential requests of atomics to L2: for 32 lanes the distinct sectors, or the lanes on one
    address where those are more."""
    reductions: float = 0.0
    """Reductions and scans that one program runs, on average."""
    dot_tiles: dict[str, tuple[int, int, int]] = {}
    """M, N, K of the `tl.dot` that does most of each pipe's flops."""


class Fact(Struct, frozen=True, kw_only=True):
    """A named value that conditions refer to. `value` None means unknown."""

    name: str
    """Dotted name: `loop.trip_count`, `launch.num_warps`, `device.cc`."""
    value: bool | int | float | str | tuple[str, ...] | None
    unit: str = ""
    source: Literal["code", "launch", "problem", "device", "static", "trace", "profile", "history"]
    says: str
    """One line for a person."""
    evidence: str = ""
    """Where it was read: `line 14`, or `4096 x 2 B`."""
