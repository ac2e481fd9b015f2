"""The metrics that Nsight Compute is asked for, with the groups and units of our reports.

Names and meanings follow NVIDIA's Nsight Compute Profiling Guide, "Metrics Reference". Where a
metric's name differs between versions or GPUs, the first one that is present is used.
"""

from typing import Literal

from msgspec import Struct, structs

Group = Literal["speed of light", "memory", "occupancy", "stalls", "instructions", "launch"]


class Source(Struct, frozen=True):
    """One way to obtain a number: a metric, and a factor for its value in base units."""

    metric: str
    factor: float = 1.0


class MetricSpec(Struct, frozen=True, kw_only=True):
    """One number of the profile."""

    name: str
    """Our name for it, also that of the fact `profile.NAME`."""
    group: Group
    unit: str
    """`%`, `us`, `B`, `GB/s`, or empty for a count or ratio."""
    better: int
    """1 when more is better, -1 when less is better, 0 when neither is."""
    says: str
    """What it is, for a person."""
    sources: tuple[Source, ...]
    """In order of preference."""


_OF_PEAK = ".avg.pct_of_peak_sustained_"
"""Abbreviated as `@` in the tables below."""

_SPEED = """
duration_us | us | -1 | duration under the profiler
    gpu__time_duration.sum
    gpu__time_duration.avg
sm_pct | % | 0 | SM throughput
    sm__throughput@elapsed
dram_pct | % | 0 | DRAM throughput
    gpu__dram_throughput@elapsed
    dram__throughput@elapsed
l2_pct | % | 0 | L2 throughput
    lts__throughput@elapsed
l1_pct | % | 0 | L1 throughput
    l1tex__throughput@active
"""

_MEMORY = """
dram_read_bytes | B | -1 | read from DRAM
    dram__bytes_read.sum
dram_write_bytes | B | -1 | written to DRAM
    dram__bytes_write.sum
dram_gbps | GB/s | 1 | DRAM bandwidth
    dram__bytes.sum.per_second
l1_hit_pct | % | 1 | L1 hit rate
    l1tex__t_sector_hit_rate.pct
l2_hit_pct | % | 1 | L2 hit rate
    lts__t_sector_hit_rate.pct
load_sector_use | | 1 | useful part of loaded sectors
    smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct*0.01
    smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio*0.03125
store_sector_use | | 1 | useful part of stored sectors
    smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct*0.01
    smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio*0.03125
load_sectors | | -1 | sectors per load request
    l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio
store_sectors | | -1 | sectors per store request
    l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio
shared_load_wavefronts | | -1 | shared load wavefronts
    l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
shared_store_wavefronts | | -1 | shared store wavefronts
    l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum
shared_load_conflicts | | -1 | added by bank conflicts
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
shared_store_conflicts | | -1 | added by bank conflicts
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum
local_load_bytes | B | -1 | loaded from local memory
    l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum
local_store_bytes | B | -1 | stored to local memory
    l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum
"""

_OCCUPANCY = """
occupancy | | 1 | achieved occupancy
    sm__warps_active@active*0.01
occupancy_possible | | 1 | theoretical occupancy
    sm__maximum_warps_per_active_cycle_pct*0.01
limit_registers | | 0 | programs that registers allow
    launch__occupancy_limit_registers
limit_shared | | 0 | programs that shared memory allows
    launch__occupancy_limit_shared_mem
limit_warps | | 0 | programs that warps allow
    launch__occupancy_limit_warps
limit_programs | | 0 | programs that an SM allows
    launch__occupancy_limit_blocks
eligible_warps | | 1 | eligible warps per scheduler
    smsp__warps_eligible.avg.per_cycle_active
issue_pct | % | 1 | issue slots used
    smsp__issue_active@active
    smsp__issue_active.avg.per_cycle_active*100
"""

_INSTRUCTIONS = """
tensor_pct | % | 0 | tensor pipe
    sm__pipe_tensor_cycles_active@active
    sm__pipe_tensor_op_hmma_cycles_active@active
    sm__inst_executed_pipe_tensor@active
fma_pct | % | 0 | fp32 pipe
    sm__pipe_fma_cycles_active@active
    sm__inst_executed_pipe_fma@active
alu_pct | % | 0 | integer and logic pipe
    sm__pipe_alu_cycles_active@active
    sm__inst_executed_pipe_alu@active
special_pct | % | 0 | special-function pipe
    sm__inst_executed_pipe_xu@active
memory_pipe_pct | % | 0 | load and store pipe
    sm__inst_executed_pipe_lsu@active
instructions | | -1 | warp instructions
    smsp__inst_executed.sum
    sm__inst_executed.sum
branches_uniform | | 0 | uniform branch targets, per thread
    smsp__sass_branch_targets_threads_uniform.sum
    smsp__sass_branch_targets_threads_uniform.avg
branches_divergent | | -1 | divergent branch targets, per thread
    smsp__sass_branch_targets_threads_divergent.sum
    smsp__sass_branch_targets_threads_divergent.avg
predicated_on | | 1 | threads on, of 32
    smsp__thread_inst_executed_pred_on_per_inst_executed.ratio*0.03125
"""

_LAUNCH = """
registers | | 0 | registers per thread
    launch__registers_per_thread
shared_bytes | B | 0 | shared memory of a program
    launch__shared_mem_per_block
waves | | 0 | waves
    launch__waves_per_multiprocessor
"""

STALLS = (
    *("long_scoreboard", "short_scoreboard", "barrier", "membar", "wait", "not_selected"),
    *("no_instruction", "math_pipe_throttle", "mio_throttle", "lg_throttle", "tex_throttle"),
    *("drain", "dispatch_stall", "imc_miss", "branch_resolve", "sleeping", "misc", "gmma"),
)
"""Reasons why a resident warp does not issue an instruction."""
STALL_PREFIX = "stall_"
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_SELECTED = "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio"


def _rows(group: Group, table: str) -> list[MetricSpec]:
    """Parse a table: rows `name | unit | better | meaning`, each followed by its sources.

    A source is `metric` or `metric*factor`.
    """
    specs: list[MetricSpec] = []
    for row in table.strip().splitlines():
        if "|" not in row:
            specs[-1] = structs.replace(specs[-1], sources=(*specs[-1].sources, _source(row)))
            continue
        name, unit, better, says = (cell.strip() for cell in row.split("|"))
        specs.append(
            MetricSpec(name=name, group=group, unit=unit, better=int(better), says=says, sources=())
        )
    return specs


def _source(text: str) -> Source:
    metric, _, factor = text.strip().replace("@", _OF_PEAK).partition("*")
    return Source(metric, float(factor) if factor else 1.0)


def _stall_specs() -> list[MetricSpec]:
    waits = [
        MetricSpec(
            name=STALL_PREFIX + reason,
            group="stalls",
            unit="",
            better=-1,
            says=f"warps waiting: {reason.replace('_', ' ')}",
            sources=(Source(_STALL.format(reason)),),
        )
        for reason in STALLS
    ]
    selected = MetricSpec(
        name="stall_selected",
        group="stalls",
        unit="",
        better=0,
        says="warps issuing",
        sources=(Source(_SELECTED),),
    )
    return [*waits, selected]


CATALOGUE: dict[str, MetricSpec] = {
    spec.name: spec
    for spec in (
        *_rows("speed of light", _SPEED),
        *_rows("memory", _MEMORY),
        *_rows("occupancy", _OCCUPANCY),
        *_stall_specs(),
        *_rows("instructions", _INSTRUCTIONS),
        *_rows("launch", _LAUNCH),
    )
}

SECTIONS = ("SchedulerStats", "WarpStateStats")
"""Sections collected beside the set `detailed`, because the GUI's usual pages need them."""


def metric_names() -> tuple[str, ...]:
    """Names of all metrics that the catalogue reads, each once."""
    return tuple(
        dict.fromkeys(source.metric for spec in CATALOGUE.values() for source in spec.sources)
    )
