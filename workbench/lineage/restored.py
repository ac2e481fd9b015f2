"""Whether the compiler has put back what was taken out: what is in its code before and after."""

from collections import Counter

from workbench.gate.records import GateReport
from workbench.kernels.records import Launch

LEAVES: dict[str, tuple[str, ...]] = {
    "tensor-descriptors": ("UTMALDG", "UTMASTG"),
    "pipelined-loads": ("LDGSTS", "LDGSTS.128"),
    "tensor-core-precision": ("HGMMA", "HMMA"),
}
"""SASS groups that a mechanism alone leaves in a kernel, where there are such; ours."""

_NUMBERS = ("registers", "shared_bytes", "spill_store_bytes", "spill_load_bytes", "code_bytes")


def same_code(before: GateReport, after: GateReport) -> bool:
    """Whether the compiler made the same of two kernels: then nothing was taken out.

    Compared are the launches' grids, options and static profiles; not the binaries, which hold
    line numbers.
    """
    return _code(before) == _code(after)


def _code(report: GateReport) -> list[object]:
    return [
        (one.kernel, one.grid, one.num_warps, one.num_ctas, one.static) for one in report.launches
    ]


def restored(category: str, before: GateReport, after: GateReport) -> tuple[str, ...]:
    """SASS groups of a mechanism that are in the kernel without it as much as in the one with it.

    Empty where they are gone, and for mechanisms that leave no group of their own.
    """
    had, has = _mix(before), _mix(after)
    return tuple(g for g in LEAVES.get(category, ()) if had[g] and has[g] >= had[g])


def _mix(report: GateReport) -> Counter[str]:
    found: Counter[str] = Counter()
    for launch in report.launches:
        found.update(launch.static.mix)
    return found


def generated(before: GateReport, after: GateReport) -> dict[str, tuple[int, int]]:
    """What is not the same in the code of two kernels: (before, after) by name, all launches.

    Registers and bytes are those of the launch that has most; SASS groups are summed.
    """
    found = {name: (_most(before.launches, name), _most(after.launches, name)) for name in _NUMBERS}
    had, has = _mix(before), _mix(after)
    found |= {f"SASS {group}": (had[group], has[group]) for group in sorted(had | has)}
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def _most(launches: tuple[Launch, ...], name: str) -> int:
    return max((int(getattr(one.static, name)) for one in launches), default=0)
