"""Facts about a profiled launch: the catalogue's numbers, and others derived from them."""

from collections.abc import Mapping

from workbench.measure.ncu.catalogue import CATALOGUE, STALL_PREFIX, STALLS
from workbench.measure.ncu.records import NcuLaunch, NcuRecord

Value = float | str
_LIMITS = {
    "registers": "limit_registers",
    "shared": "limit_shared",
    "warps": "limit_warps",
    "programs": "limit_programs",
}
_MEMORY_STALLS = ("long_scoreboard", "short_scoreboard")
"""Stalls whose sum is KernelSkill's memory-dependency stall."""


def ncu_facts(record: NcuRecord | None, kernel: str) -> dict[str, Value]:
    """Facts `profile.*` of one kernel, by full name; empty where ncu did not see it."""
    launch = None if record is None else record.of(kernel)
    if launch is None:
        return {}
    return {f"profile.{name}": value for name, value in numbers(launch).items() if name in _FACTS}


def numbers(launch: NcuLaunch) -> dict[str, Value]:
    """All known readings and the numbers derived from them, by name; unknown ones are absent."""
    known = launch.values
    return {**known, **_derived(known)}


DERIVED: dict[str, str] = {
    "limiter_pct": "%",
    "bank_conflicts": "",
    "local_bytes": "B",
    "occupancy_limiter": "",
    "stall": "",
    "stall_share": "",
    "memory_stall_share": "",
    "barrier_stall_share": "",
    "divergent_pct": "%",
}
"""Names and units of what `numbers` adds to the readings."""

_HIDDEN = {
    *_LIMITS.values(),
    *("shared_load_wavefronts", "shared_store_wavefronts"),
    *("shared_load_conflicts", "shared_store_conflicts", "local_load_bytes", "local_store_bytes"),
    *("instructions", "branches_uniform", "branches_divergent", "registers", "shared_bytes"),
    *(STALL_PREFIX + reason for reason in (*STALLS, "selected")),
}
"""Readings that are not facts: a derived fact covers them, or the compiler gives the same."""
_FACTS = frozenset({*CATALOGUE, *DERIVED} - _HIDDEN)


def _derived(known: Mapping[str, float]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    busiest = [known[name] for name in ("sm_pct", "l2_pct", "dram_pct") if name in known]
    if busiest:
        found["limiter_pct"] = max(busiest)
    local = _sum(known, "local_load_bytes", "local_store_bytes")
    if local is not None:
        found["local_bytes"] = local
    wavefronts = _sum(known, "shared_load_wavefronts", "shared_store_wavefronts")
    conflicts = _sum(known, "shared_load_conflicts", "shared_store_conflicts")
    if wavefronts and conflicts is not None:
        found["bank_conflicts"] = min(1.0, conflicts / wavefronts)
    uniform, divergent = known.get("branches_uniform"), known.get("branches_divergent")
    if uniform is not None and divergent is not None and uniform + divergent > 0:
        # KernelSkill's divergence: divergent over all branch targets.
        found["divergent_pct"] = 100 * divergent / (divergent + uniform)
    limits = {says: known[name] for says, name in _LIMITS.items() if name in known}
    if limits:
        # In a tie the first: registers and shared memory can be changed, the others cannot.
        found["occupancy_limiter"] = min(limits, key=lambda says: limits[says])
    return {**found, **_stalls(known)}


def _stalls(known: Mapping[str, float]) -> dict[str, Value]:
    """The main stall, and shares of the warps' time, 0 to 1.

    Nsight Compute's guide, "Warp State Statistics": the waits and the issue of an instruction add
    up to the cycles that a warp spends on it, so each divided by their sum is a share of the time.
    """
    waits = {
        reason: known[STALL_PREFIX + reason] for reason in STALLS if STALL_PREFIX + reason in known
    }
    whole = sum(waits.values()) + known.get("stall_selected", 0.0)
    if not waits or whole <= 0:
        return {}
    # A warp that was ready but not selected was not stalled: another one issued.
    blocked = {reason: wait for reason, wait in waits.items() if reason != "not_selected"}
    found: dict[str, Value] = {}
    if blocked:
        top = max(blocked, key=lambda reason: blocked[reason])
        found = {"stall": top, "stall_share": blocked[top] / whole}
    if all(reason in waits for reason in _MEMORY_STALLS):
        found["memory_stall_share"] = sum(waits[r] for r in _MEMORY_STALLS) / whole
    if "barrier" in waits:
        found["barrier_stall_share"] = waits["barrier"] / whole
    return found


def _sum(known: Mapping[str, float], *names: str) -> float | None:
    """The sum, or None unless all are known: a partial sum would look like a small total."""
    if any(name not in known for name in names):
        return None
    return sum(known[name] for name in names)
