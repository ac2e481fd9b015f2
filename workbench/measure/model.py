"""How long a candidate's launches would take on a target, computed from counted work.

Every launch is a sequence of waves of resident programs; a wave takes as long as the busiest of
its resources (roofline: Williams, Waterman, Patterson 2009), or as long as one program must wait
for its own loads (Little's law: bytes in flight over latency bound the bandwidth). Where a formula
or constant below names no other source it is ours, fitted on an H200 to 79 kernels, most of them
within 25 % and all but a few within a factor of two: it ranks variants, it does not replace a
clock.
"""

import math
from collections.abc import Sequence

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.kernels.records import HostOperation, Launch, LaunchTrace
from workbench.kernels.target import Target
from workbench.measure.model_pipes import pipe_times
from workbench.measure.model_traffic import Moved, is_async, moved
from workbench.measure.records import FLOOR, Kind, Time
from workbench.problems.records import WorkFloor

_AROUND_US = 2.2
"""Measured: an empty kernel between two events takes 3.9 us, each further one 1.7 us."""
_PROGRAM_START_NS = 80.0
"""Measured: one SM starts a program every 80 ns, however small (1.63 programs a ns on 132 SMs)."""
_PROGRAM_US = 0.35
"""Life of a program beyond its loads: start, index arithmetic, last store."""
_REDUCTION_US = 0.15
"""Shuffles, shared memory and barriers of one reduction over a program's threads."""
_SM_BYTES_PER_NS = 35.0
"""Measured: what the loads of one program draw once the first bytes have arrived. That its stores
leave at the same rate is ours: RMSNorm and grouped convolution are ranked better with it, and the
median error of the kernels that belong to no problem falls from 6.8 to 5.8 %."""
_ATOMIC_NS = 2.0
"""Measured: 1.8 ns an update of one address, 2.5 ns of one line's sectors one after another."""
_ATOMIC_BYTES = 256.0
"""Measured: of L2's bandwidth, what one atomic update of a sector takes (44 a ns on an H200)."""
_SHARPNESS = 4.0
"""Resources overlap, but not fully: parts are joined by this norm, the maximum being infinity."""


class CannotModel(WorkbenchError):
    """What was recorded and what was traced do not add up to a call that can be timed."""


class Parts(Struct, frozen=True, kw_only=True):
    """Microseconds that one launch would take on each resource alone, all its waves together."""

    dram: float
    l2: float
    fp32: float
    integer: float
    """Integer, logical and comparing work, reductions."""
    special: float
    tensor: float
    shared: float
    latency: float
    """What programs wait for their own loads, reductions and start."""
    programs: float
    """Starting them."""
    atomics: float
    total: float
    """The launch, waves joined."""


def modeled_time(
    launches: Sequence[Launch],
    traces: Sequence[LaunchTrace],
    target: Target,
    floor: WorkFloor | None = None,
    host: Sequence[HostOperation] = (),
) -> Time:
    """The time of one call, with its parts in `detail` (microseconds; they overlap, no sum).

    `launches` and `traces` are of the same call, in order; `host` are torch operations beside
    them, each charged its bytes and a launch. Never below the floor's bytes at the target's
    bandwidth: data starts in DRAM. Raises CannotModel when launches and traces do not match, when
    there is nothing to time, and for a kernel of which no program fits.
    """
    if [one.kernel for one in launches] != [one.kernel for one in traces]:
        raise CannotModel(
            "its launches differ between compiling and interpreting, so they cannot be timed",
            todo="launch the same kernels at every call, whatever the data holds",
        )
    if not launches:
        raise CannotModel("the candidate launches no kernel, so there is nothing to time")
    parts = [launch_parts(one, trace, target) for one, trace in zip(launches, traces, strict=True)]
    copying = sum(one.bytes for one in host) / target.dram_gbps / 1e3
    idle = [max(0.0, target.launch_us - one.total) for one in parts]
    starting = _AROUND_US + sum(idle) + target.launch_us * len(host)
    total = sum(one.total for one in parts) + copying + starting
    least = floor.bytes / target.dram_gbps / 1e3 if floor is not None else 0.0
    names = [name for name in Parts.__struct_fields__ if name != "total"]
    detail = {name: sum(getattr(one, name) for one in parts) for name in names}
    return Time(
        kind=Kind.MODELED,
        microseconds=max(total, least),
        device=target.name,
        detail={**detail, "host": copying, "launch": starting, FLOOR: least},
    )


def launch_parts(launch: Launch, trace: LaunchTrace, target: Target) -> Parts:
    """One launch: full waves of resident programs, then what is left of the grid.

    Residency and waves: CUDA Programming Guide, "Hardware Multithreading"; the last, smaller wave
    is faster where it shares less and no faster where a program waits for itself. Raises
    CannotModel when no program fits on an SM.
    """
    if launch.static.programs_per_sm < 1:
        raise CannotModel(f"no program of {launch.kernel} fits on an SM of {target.name}")
    # A program of several CTAs takes a place for each of them.
    resident = max(1, launch.static.programs_per_sm * target.sms // max(launch.num_ctas, 1))
    programs = max(trace.programs, 1)
    wave = min(programs, resident)
    work = moved(launch, trace, target, wave)
    full, rest = divmod(programs, resident)
    waves = [_wave(launch, trace, target, work, resident)] * min(full, 1)
    counts = [full] * min(full, 1)
    if rest:
        waves.append(_wave(launch, trace, target, work, rest))
        counts.append(1)
    sums = {
        name: sum(count * wave[name] for count, wave in zip(counts, waves, strict=True))
        for name in waves[0]
    }
    atomics = _atomics_us(trace, target)
    # Nothing overlaps with the first program's way to its first bytes.
    filling = _PROGRAM_US + target.dram_latency_ns / 1e3
    total = filling + joined(sums["total"], atomics)
    return Parts(**{**sums, "atomics": atomics, "total": total})


def _wave(
    launch: Launch, trace: LaunchTrace, target: Target, work: Moved, running: int
) -> dict[str, float]:
    """Microseconds of `running` programs at once, by resource; `total` joins them."""
    busiest = math.ceil(running / target.sms)
    active = min(running, target.sms)
    share = active / target.sms
    pipes = pipe_times(launch, trace, target)
    sm_gbps = target.l2_gbps * min(1.0, 2.0 * share)
    alone = sum(pipes.values()) * _slowdown_alone(launch)
    latency = waiting(launch, trace, target, work) + (0.0 if is_async(launch) else alone)
    parts = {
        "dram": running * work.dram / (target.dram_gbps * min(1.0, 3.0 * share)) / 1e3,
        "l2": running * work.l2 / sm_gbps / 1e3,
        **{name: busiest * time for name, time in pipes.items()},
        "latency": latency,
        "programs": busiest * _PROGRAM_START_NS / 1e3,
    }
    # Slots that turn over and an SM that starts them are one pipeline: the slower sets its pace.
    pace = max(latency, parts["programs"])
    rest = [time for name, time in parts.items() if name not in {"latency", "programs"}]
    return {**parts, "total": joined(pace, *rest)}


def joined(*times: float) -> float:
    """One time of parts that overlap: at least the longest, at most their sum."""
    longest = max(times)
    if longest <= 0.0:
        return 0.0
    norm: float = sum((t / longest) ** _SHARPNESS for t in times) ** (1 / _SHARPNESS)
    return longest * norm


def waiting(launch: Launch, trace: LaunchTrace, target: Target, work: Moved) -> float:
    """Microseconds that one program spends waiting, were it alone.

    Each step waits for its slowest load: DRAM latency, or L2's when little comes from DRAM.
    Asynchronous copies keep `num_stages` - 1 steps in flight, an unrolled loop as many as the
    compiler put load instructions for; the bytes themselves take their time either way. What is
    stored takes as long to leave the SM as what is loaded to come in, and the next program gets
    the place after that: where few programs fit, nothing else runs meanwhile.
    """
    from_dram = min(1.0, work.dram / work.l2) if work.l2 else 1.0
    nanoseconds = target.l2_latency_ns + from_dram * (target.dram_latency_ns - target.l2_latency_ns)
    steps = trace.load_steps / steps_in_flight(launch, trace)
    drawing = work.l2 / _SM_BYTES_PER_NS if not is_async(launch) else 0.0
    return _PROGRAM_US + (steps * nanoseconds + drawing) / 1e3 + _REDUCTION_US * trace.reductions


def steps_in_flight(launch: Launch, trace: LaunchTrace) -> float:
    """How many steps' loads are under way at once."""
    if is_async(launch):
        return max(1.0, launch.num_stages - 1.0)
    loads = sum(n for name, n in launch.static.mix.items() if name.startswith("LDG."))
    executed = trace.loads * trace.programs
    if not loads or not executed:
        return 1.0
    loaded = sum(t.loaded for t in trace.traffic.values()) / executed
    each = max(1.0, loaded / launch.static.threads / _load_bytes(launch))
    copies = loads / (each * trace.load_places)
    # An unrolled loop keeps its single trip for the rest: n - 1 of 2n - 1 copies are remainder.
    return max(1.0, (copies + 1.0) / 2.0)


def _load_bytes(launch: Launch) -> float:
    """Bytes of the widest plain load in the code."""
    for name, width in (("LDG.256", 32.0), ("LDG.128", 16.0), ("LDG.64", 8.0), ("LDG.32", 4.0)):
        if launch.static.mix.get(name):
            return width
    return 2.0


def _slowdown_alone(launch: Launch) -> float:
    """How much longer one program computes alone than its share of a full SM.

    An SM has four schedulers; eight warps keep them busy through dependent instructions.
    """
    return max(1.0, 8.0 * 32.0 / launch.static.threads)


def _atomics_us(trace: LaunchTrace, target: Target) -> float:
    """Updates of one line go one after another, those of different lines side by side."""
    if not trace.atomic_requests:
        return 0.0
    lines = max(1.0, sum(t.stored_sectors for t in trace.traffic.values()) / 4)
    rate = target.l2_gbps / _ATOMIC_BYTES
    return max(trace.atomic_requests * _ATOMIC_NS / lines, trace.atomic_requests / rate) / 1e3
