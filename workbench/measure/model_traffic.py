"""How many bytes one program moves from DRAM and from L2, from what was traced lane by lane."""

from msgspec import Struct

from workbench.kernels.records import (
    DescriptorArgument,
    Launch,
    LaunchTrace,
    TensorArgument,
    Traffic,
)
from workbench.kernels.target import Target

_SECTOR = 32
_KEPT = 0.7
_LOST = 1.6
"""Re-reads of a working set up to 0.7 of a cache hit, beyond 1.6 of it none does, linear between.
Measured at both ends: three passes over rows that together are 13 times L2 cost three reads."""


class Moved(Struct, frozen=True, kw_only=True):
    """Bytes of one program, averaged over the grid."""

    dram: float
    """Read from and written to DRAM."""
    l2: float
    """Read from and written to L2."""
    read: float
    """Loaded from L2 alone."""


class _Tensor(Struct, frozen=True, kw_only=True):
    """One tensor argument's traffic over the whole grid, bytes."""

    unique: float
    """Read at least once; what no cache can save."""
    in_wave: float
    """Distinct bytes that the programs of one wave read."""
    distinct: float
    """Of one wave's programs, how many read different data."""
    across: float
    """Read again by later waves."""
    again: float
    """Read again by the same program."""
    requested: float
    written: float
    written_requests: float


def moved(launch: Launch, trace: LaunchTrace, target: Target, wave: int) -> Moved:
    """What one program moves when `wave` programs run at once.

    Compulsory bytes come from DRAM. What is read again comes from L1 or L2 as far as the data
    between the two reads fits: a program's own data in its share of L1, a wave's distinct data in
    L2. Stores go to L2 as they come and to DRAM once.
    """
    tensors = [_tensor(launch, trace, name, t, wave) for name, t in trace.traffic.items()]
    programs = max(trace.programs, 1)
    together = sum(t.in_wave + t.written * wave / programs for t in tensors)
    kept = _share_kept(together, target.l2_bytes)
    in_l1 = _kept_in_l1(launch, trace, target, wave)
    busiest = -(-wave // target.sms)
    read = dram = stored = 0.0
    for tensor in tensors:
        again = tensor.again * (1 - in_l1)
        first = tensor.requested - tensor.again
        read += first * _not_shared(launch, tensor.distinct, busiest) + again
        dram += tensor.unique + (tensor.across + again) * (1 - kept) + tensor.written
        stored += tensor.written_requests
    spill = _spilled(launch, trace, target, wave)
    return Moved(
        dram=dram / programs + spill.dram,
        l2=(read + stored) / programs + spill.l2,
        read=read / programs + spill.read,
    )


def _not_shared(launch: Launch, distinct: float, busiest: int) -> float:
    """Share of first reads that no neighbour on the same SM makes through L1 at the same time.

    Programs spread over SMs at random as to what they read: of `busiest` draws out of `distinct`
    places so many differ (balls in bins). Copies to shared memory go past L1.
    """
    if is_async(launch) or distinct <= 0:
        return 1.0
    return distinct * (1 - (1 - 1 / max(distinct, 1.0)) ** busiest) / busiest


def is_async(launch: Launch) -> bool:
    """Whether loads go to shared memory by themselves (cp.async, TMA) while a program computes."""
    mix = launch.static.mix
    return any(mix.get(name) for name in ("LDGSTS", "LDGSTS.128", "UTMALDG", "UBLKCP"))


def _spilled(launch: Launch, trace: LaunchTrace, target: Target, wave: int) -> Moved:
    """Local memory of one program: every spill instruction once, in a loop at every trip.

    Measured: rows that do not fit the register file spill 20 GB, and take what DRAM takes for it.
    """
    static = launch.static
    if not static.spill_store_bytes:
        return Moved(dram=0.0, l2=0.0, read=0.0)
    trips = max(1.0, trace.load_steps / max(1, trace.load_places))
    stored = static.spill_store_bytes * static.threads * trips
    loaded = static.spill_load_bytes * static.threads * trips
    frame = max(static.stack_bytes, static.spill_store_bytes) * static.threads
    busiest = -(-wave // target.sms)
    l1 = target.l1_bytes - busiest * (static.shared_bytes + target.shared_reserved)
    past_l1 = 1 - _share_kept(busiest * frame, max(0, l1))
    past_l2 = 1 - _share_kept(wave * frame, target.l2_bytes)
    l2 = (stored + loaded) * past_l1
    return Moved(dram=l2 * past_l2, l2=l2, read=loaded * past_l1)


def _tensor(launch: Launch, trace: LaunchTrace, name: str, traffic: Traffic, wave: int) -> _Tensor:
    scale = trace.programs / trace.sampled if trace.sampled else 0.0
    most = float(_extent(launch, name, traffic))
    touched = traffic.unique_sectors
    read_share = traffic.loaded / max(traffic.loaded + traffic.stored, 1)
    written_sectors = traffic.stored_sectors * scale * _SECTOR
    loads = traffic.loaded > 0
    # DRAM moves 64 bytes at least: lone sectors cost two (measured: stride 32 against stride 8).
    wide = 2 * traffic.granules / touched if touched else 1.0
    unique = min(most, touched * scale * _SECTOR * wide) if loads else 0.0
    own = traffic.sectors_per_program * _SECTOR if loads else 0.0
    requested = float(traffic.requested) * (read_share if loads else 0.0)
    distinct = _distinct(traffic, wave)
    in_wave = min(unique, distinct * own)
    waves = trace.programs / max(wave, 1)
    return _Tensor(
        unique=unique,
        in_wave=in_wave,
        distinct=distinct,
        across=max(0.0, waves * in_wave - unique),
        again=max(0.0, requested - own * trace.programs),
        requested=requested,
        written=min(most, written_sectors),
        written_requests=max(0.0, traffic.requested - requested),
    )


def _extent(launch: Launch, name: str, traffic: Traffic) -> int:
    """Bytes that a tensor has at most: its own elements, not all of a shared storage."""
    argument = launch.arguments.get(name)
    if isinstance(argument, DescriptorArgument):
        argument = argument.base
    if isinstance(argument, TensorArgument):
        return min(argument.bytes, traffic.footprint)
    return traffic.footprint


def _distinct(traffic: Traffic, wave: int) -> float:
    """Of `wave` consecutive programs, how many read different data, from the probed prefixes.

    Beyond the probe the last doubling's growth goes on.
    """
    counts = traffic.sharing
    if not counts:
        return float(wave)
    level = 0
    while level + 1 < len(counts) and 2 << level <= wave:
        level += 1
    start, known = 1 << level, float(counts[level])
    if wave <= start:
        return known
    following = counts[level + 1] if level + 1 < len(counts) else None
    if following is not None:
        return known + (following - known) * (wave - start) / start
    growth = counts[-1] / max(counts[-2], 1) if len(counts) > 1 else 1.0
    exponent = min(1.0, max(0.0, growth - 1.0))
    grown: float = known * (wave / start) ** exponent
    return min(float(wave), grown)


def _kept_in_l1(launch: Launch, trace: LaunchTrace, target: Target, wave: int) -> float:
    """Share of a program's own re-reads that find their data in L1.

    L1 is what shared memory leaves; copies to shared memory go past it.
    """
    busiest = -(-wave // target.sms)
    taken = busiest * (launch.static.shared_bytes + target.shared_reserved)
    own = sum(t.sectors_per_program for t in trace.traffic.values() if t.loaded) * _SECTOR
    return _share_kept(busiest * own, max(0, target.l1_bytes - taken))


def _share_kept(together: float, capacity: float) -> float:
    """How much of what is read again is still there."""
    if together <= _KEPT * capacity:
        return 1.0
    if capacity <= 0 or together >= _LOST * capacity:
        return 0.0
    return (_LOST - together / capacity) / (_LOST - _KEPT)
