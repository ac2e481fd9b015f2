"""Whether the compiler itself restores a removed mechanism: its code before and after.

Looked at are two levels: TTGIR, where triton's own passes have chosen layouts, copies and products,
and SASS, which the GPU runs. A mechanism leaves operations of its own in either.
"""

import re
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from workbench.gate.records import GateReport
from workbench.kernels.records import Launch

LEAVES: dict[str, tuple[str, ...]] = {
    "tensor-descriptors": (
        "TTGIR ttng.async_tma_copy_global_to_local",
        "TTGIR ttng.async_tma_copy_local_to_global",
        "SASS UTMALDG",
        "SASS UTMASTG",
    ),
    "pipelined-loads": (
        "TTGIR ttg.async_copy_global_to_local",
        "SASS LDGSTS",
        "SASS LDGSTS.128",
    ),
    "loop-pipeline": ("TTGIR ttg.async_copy_global_to_local", "SASS LDGSTS", "SASS LDGSTS.128"),
    "warp-specialized": ("TTGIR ttg.warp_specialize",),
    "early-exit": ("TTGIR scf.while",),
    "tensor-core-precision": ("TTGIR ttng.warp_group_dot", "SASS HGMMA", "SASS HMMA"),
}
"""Operations that only a mechanism leaves in a kernel, where there are such; ours."""

CHOICES = frozenset({"autotuned-options"})
"""Mechanisms that choose among kernels: where the first is chosen, the code without the choice is
the same, and the compiler restored nothing; ours."""

_NUMBERS = ("registers", "shared_bytes", "spill_store_bytes", "spill_load_bytes", "code_bytes")
_OPERATION = re.compile(
    r"^\s*(?:[%\w:,\s]+=\s*)?\"?((?:tt|ttg|ttng|nvws|scf)\.[a-z_]+)\b(?! *=)", re.MULTILINE
)
"""An operation at the start of a statement: types and attributes have the same form inside one."""
_PLUMBING = frozenset({"scf.yield", "tt.return", "tt.func", "scf.condition"})


class Made(Struct, frozen=True):
    """The generated code of a kernel."""

    report: GateReport
    operations: Mapping[str, int] = {}
    """Number of TTGIR operations by name over all launches; empty if its text was not kept."""


def operations(ttgir: str) -> Counter[str]:
    """How often each operation stands in a TTGIR text: `ttg.async_wait`, `tt.load`, ..."""
    found = Counter(_OPERATION.findall(ttgir))
    for name in _PLUMBING:
        found.pop(name, None)
    return found


def same_code(before: Made, after: Made) -> str:
    """How the compiler generated the same code for two kernels, so that nothing was removed.

    Empty where it did not. Compared are the launches' grids, options and static profiles; not the
    binaries, which contain line numbers.
    """
    if _code(before.report) != _code(after.report):
        return ""
    says = "restored by the compiler: the same machine code without it"
    if not before.operations or not after.operations:
        return says
    moved = _moved(before.operations, after.operations)
    if not moved:
        return f"{says}, and the same operations in TTGIR already"
    names = ", ".join(f"{name} {had} to {has}" for name, (had, has) in moved.items())
    return f"{says}, from another TTGIR ({names})"


def _code(report: GateReport) -> list[object]:
    return [
        (one.kernel, one.grid, one.num_warps, one.num_ctas, one.static) for one in report.launches
    ]


def restored(category: str, before: Made, after: Made) -> str:
    """Operations of a mechanism that the kernel without it has as many of as the one with it.

    SASS decides; TTGIR does for mechanisms that leave nothing of their own in SASS. Empty where
    they are gone, and for mechanisms that leave no operation of their own.
    """
    had, has = _leaves(before), _leaves(after)
    left = [name for name in LEAVES.get(category, ()) if had[name]]
    deciding = [name for name in left if name.startswith("SASS")] or left
    if not any(has[name] >= had[name] for name in deciding):
        return ""
    told = ", ".join(f"{name} {had[name]} to {has[name]}" for name in left)
    return f"restored by the compiler: as much of it without it ({told})"


def _leaves(made: Made) -> Counter[str]:
    found = Counter({f"SASS {name}": n for name, n in _mix(made.report).items()})
    found.update({f"TTGIR {name}": n for name, n in made.operations.items()})
    return found


def _mix(report: GateReport) -> Counter[str]:
    found: Counter[str] = Counter()
    for launch in report.launches:
        found.update(launch.static.mix)
    return found


def generated(before: Made, after: Made) -> dict[str, tuple[int, int]]:
    """Differences in the generated code of two kernels: (before, after) by name, all launches.

    Registers and bytes are those of the launch with most of them; SASS groups and TTGIR operations
    are summed, the latter only where both texts were kept.
    """
    one, other = before.report, after.report
    found = {name: (_most(one.launches, name), _most(other.launches, name)) for name in _NUMBERS}
    had, has = _mix(one), _mix(other)
    found |= {f"SASS {group}": (had[group], has[group]) for group in sorted(had | has)}
    found = {name: pair for name, pair in found.items() if pair[0] != pair[1]}
    if before.operations and after.operations:
        moved = _moved(before.operations, after.operations)
        found |= {f"TTGIR {name}": pair for name, pair in moved.items()}
    return found


def _moved(had: Mapping[str, int], has: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    names = sorted(had.keys() | has.keys())
    pairs = {name: (had.get(name, 0), has.get(name, 0)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _most(launches: tuple[Launch, ...], name: str) -> int:
    return max((int(getattr(one.static, name)) for one in launches), default=0)
