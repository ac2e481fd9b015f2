"""Every fact that a condition may name: its type, unit, source and meaning."""

from typing import Literal

from msgspec import Struct

FactType = Literal["number", "flag", "text", "names"]
FactSource = Literal["code", "launch", "problem", "device", "static", "trace", "profile", "history"]


class FactSpec(Struct, frozen=True):
    """What the catalogue promises about a fact; the value may always be unknown."""

    name: str
    type: FactType
    unit: str
    source: FactSource
    says: str


def _specs(source: FactSource, table: str) -> list[FactSpec]:
    """Parse a table with rows of `name | type | unit | meaning`."""
    rows = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    return [FactSpec(name, kind, unit, source, says) for name, kind, unit, says in rows]  # type: ignore[arg-type]  # the test of the catalogue decodes every row strictly


_CODE = """
code.kernel_count        | number |  | kernels that one forward launches
code.launch_count        | number |  | places in the text that launch this kernel
code.loop_count          | number |  | loops in the kernel
code.loop_depth          | number |  | deepest nesting of its loops
code.passes_over_input   | number |  | most separate loops that load from one argument
code.rereads_input       | flag   |  | some argument is loaded by more than one loop
code.load_count          | number |  | loads in the text
code.store_count         | number |  | stores in the text
code.atomic_count        | number |  | atomics in the text
code.has_mask            | flag   |  | some access is masked
code.mask_in_loop        | flag   |  | some load inside a loop is masked
code.dot_count           | number |  | matrix products in the text
code.dot_precision       | text   |  | input precision of its products; default, mixed or none
code.reduction_count     | number |  | reductions in the text
code.reduction_in_loop   | flag   |  | some reduction stands inside a loop
code.scan_count          | number |  | scans and sorts in the text
code.special_count       | number |  | exp, log, sqrt, erf and their like in the text
code.division_count      | number |  | floating divisions of blocks in the text
code.has_modulo_offsets  | flag   |  | some block of offsets is wrapped with %
code.has_wide_offsets    | flag   |  | some offset is computed in 64 bits
code.tile_order          | text   |  | output tiles are visited: row-major, grid-2d, grouped, none
code.is_persistent       | flag   |  | a program takes several tiles, a grid's width apart
code.is_autotuned        | flag   |  | an autotuner chooses the meta-parameters
code.uses_descriptors    | flag   |  | memory is accessed through tensor descriptors
code.has_eviction_policy | flag   |  | some access states how it is cached
code.block_parameters    | names  |  | compile-time parameters that size some block
code.tunable_blocks      | number |  | how many of them have a literal value to edit
code.invariant_loads     | number |  | loads inside a loop that do not depend on it
code.has_constant_dims   | flag   |  | some dimension is a compile-time parameter
code.passed_dims         | number |  | dimensions that are passed as plain arguments
"""

_ANCHOR = """
anchor.value | number | | what the parameter that is being chosen holds in the code now
"""

_LAUNCH = """
launch.num_warps           | number | warps | warps per program
launch.num_stages          | number |       | stages that the compiler may pipeline loads over
launch.num_ctas            | number |       | programs in a cluster
launch.programs            | number |       | programs in the grid
launch.grid_rank           | number |       | dimensions of the grid that are larger than one
launch.waves               | number |       | programs over what the device holds at once
launch.tail | number | | part of all waves that the last one leaves idle, 0 to 1
launch.block_elements      | number |       | elements of the largest block that is loaded or stored
launch.elements_per_thread | number |       | those elements over the threads of a program
launch.total               | number |       | launches of all kernels in one forward
loop.trip_count            | number |       | most iterations of a loop that does not walk tiles
loop.extent                | number |       | largest dimension that a loop walks
loop.extent_bytes          | number | B     | that dimension in bytes of the widest input element
loop.tile_bytes            | number | B     | a program's largest input, held all at once
loop.step                  | number |       | elements that the loop advances
arg.alignment_min          | number | B     | smallest alignment of a tensor argument
arg.contiguous             | flag   |       | every tensor argument is contiguous
arg.divisible              | flag   |       | every masked dimension is a multiple of its block
arg.divisible_dims         | names  |       | masked dimensions that are a multiple of their block
arg.even_wraps             | flag   |       | some block wraps with % only where another one begins
arg.dtypes                 | names  |       | dtypes of the tensor arguments
arg.output_dtype           | text   |       | dtype of the first tensor that is stored to
arg.output_bytes           | number | B     | bytes of all tensors that are stored to
arg.dot_dtype              | text   |       | dtype of the first loaded tensor of a product
arg.element_bytes          | number | B     | size of the widest floating input element
arg.bytes                  | number | B     | bytes of all tensor arguments
arg.largest_bytes          | number | B     | bytes of the largest tensor argument
"""

_PROBLEM = """
problem.family    | text   |        | gemm, attention, reduction, normalization, ...
problem.flops     | number | flop   | least work of a correct kernel
problem.bytes     | number | B      | inputs read once, outputs written once
problem.intensity | number | flop/B | flops over bytes
problem.precision | text   |        | promised for fp32 products: ieee or tf32
"""

_DEVICE = """
device.cc                 | number |        | compute capability times ten: 90 for sm90
device.sms                | number |        | streaming multiprocessors
device.l2_bytes           | number | B      | level 2 cache
device.shared_per_program | number | B      | most shared memory of one program
device.registers_per_sm   | number |        | 32-bit registers of one SM
device.dram_gbps          | number | GB/s   | bandwidth of device memory
device.balance            | number | flop/B | fp32 flops over bytes it can move in a second
"""

_STATIC = """
static.registers         | number |     | registers per thread
static.spills            | number | B   | bytes spilled, stores and loads
static.shared_bytes      | number | B   | shared memory of a program
static.occupancy         | number |     | resident warps over the limit, 0 to 1
static.limiter           | text   |     | what bounds occupancy: registers, shared, warps, programs
static.programs_per_sm   | number |     | programs that one SM holds
static.load_width        | number | bit | widest global load instruction of a thread
static.narrow_loads      | flag   |     | some global load moves under 128 bits a thread
static.uses_tensor_cores | flag   |     | matrix instructions are in the machine code
static.uses_async_copies | flag   |     | asynchronous copies are in the machine code
static.instructions      | number |     | machine instructions
"""

_TRACE = """
trace.masked_fraction   | number |        | lanes that masks switch off, 0 to 1
trace.sector_efficiency | number |        | useful over touched bytes of 32-byte sectors, 0 to 1
trace.load_redundancy   | number |        | bytes loaded over bytes of the tensors they come from
trace.loaded_bytes      | number | B      | bytes loaded, lane by lane
trace.stored_bytes      | number | B      | bytes stored
trace.flops             | number | flop   | flops of products and of vector arithmetic
trace.special_ops       | number |        | operations of the special-function unit
trace.intensity         | number | flop/B | flops over bytes loaded and stored
trace.atomics           | number |        | atomic operations
"""

_PROFILE = """
profile.bottleneck       | text   |    | largest part of the modeled time: dram, fp32, tensor, ...
profile.bottleneck_share | number |    | that part over all parts, 0 to 1
profile.microseconds     | number | us | time of one forward at the full shape
profile.efficiency       | number |    | roofline time over that time, 0 to 1
profile.limiter_pct      | number | %  | by ncu: the busiest of SMs, L2 and DRAM over its peak
profile.duration_us | number | us | by ncu: kernel alone, caches cold; explains, is not a timing
profile.sm_pct           | number | %  | by ncu: busiest pipe of the SMs over its peak
profile.dram_pct         | number | %  | by ncu: DRAM over its peak
profile.l2_pct           | number | %  | by ncu: L2 over its peak
profile.l1_pct           | number | %  | by ncu: L1 over its peak
profile.dram_read_bytes  | number | B  | by ncu: read from DRAM
profile.dram_write_bytes | number | B  | by ncu: written to DRAM
profile.dram_gbps        | number | GB/s | by ncu: DRAM traffic over the kernel's duration
profile.l1_hit_pct       | number | %  | by ncu: sectors found in L1
profile.l2_hit_pct       | number | %  | by ncu: sectors found in L2
profile.load_sector_use  | number |    | by ncu: useful bytes of a loaded 32-byte sector, 0 to 1
profile.store_sector_use | number |    | by ncu: useful bytes of a stored 32-byte sector, 0 to 1
profile.load_sectors     | number |    | by ncu: sectors of one global load request
profile.store_sectors    | number |    | by ncu: sectors of one global store request
profile.bank_conflicts   | number |    | by ncu: shared-memory wavefronts that conflicts add, 0 to 1
profile.local_bytes      | number | B  | by ncu: spilled to and from local memory
profile.occupancy        | number |    | by ncu: warps that were active over the SM's limit, 0 to 1
profile.occupancy_possible | number |  | by ncu: warps that could be resident over the limit, 0 to 1
profile.occupancy_limiter | text  |    | by ncu: registers, shared, warps or programs
profile.waves            | number |    | by ncu: programs over what the device holds at once
profile.eligible_warps   | number |    | by ncu: warps of a scheduler that could issue, a cycle
profile.issue_pct        | number | %  | by ncu: cycles in which a scheduler issued
profile.stall | text | | by ncu: what warps wait for most: long_scoreboard, barrier, ...
profile.stall_share      | number |    | by ncu: that wait over all time of the warps, 0 to 1
profile.memory_stall_share | number |  | by ncu: waits for L1, shared and global memory, 0 to 1
profile.barrier_stall_share | number | | by ncu: waits at barriers, 0 to 1
profile.tensor_pct       | number | %  | by ncu: tensor pipe over its peak
profile.fma_pct          | number | %  | by ncu: fp32 multiply-add pipe over its peak
profile.alu_pct          | number | %  | by ncu: integer and logic pipe over its peak
profile.special_pct      | number | %  | by ncu: special-function pipe over its peak
profile.memory_pipe_pct  | number | %  | by ncu: load and store pipe over its peak
profile.divergent_pct    | number | %  | by ncu: divergent over all branch targets
profile.predicated_on    | number |    | by ncu: threads that an instruction is on for, over 32
"""

_HISTORY = """
history.steps    | number |  | transitions of this session
history.tried    | names  |  | cards tried on this line
history.accepted | names  |  | cards accepted on this line
history.failures | number |  | rejected steps since the last accepted one
"""

_TABLES: tuple[tuple[FactSource, str], ...] = (
    ("code", _CODE),
    ("code", _ANCHOR),
    ("launch", _LAUNCH),
    ("problem", _PROBLEM),
    ("device", _DEVICE),
    ("static", _STATIC),
    ("trace", _TRACE),
    ("profile", _PROFILE),
    ("history", _HISTORY),
)

CATALOGUE: dict[str, FactSpec] = {
    spec.name: spec for source, table in _TABLES for spec in _specs(source, table)
}
