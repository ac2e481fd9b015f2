"""How the shipped experts compare with vendor libraries: recorded pairs, and their table.

Everything printed follows from the recorded samples, so that the table can be printed without a
GPU.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

import msgspec
from msgspec import Struct

from workbench.bench import lines
from workbench.bench.vendors import QUOTED, WORKLOADS
from workbench.measure.pairs import PairRule, measured_time, summarize

RULE = PairRule(first=60, cap=60)
"""One look at 60 pairs: the interval is reported and nothing is decided (ours)."""


class Head(Struct, frozen=True, kw_only=True, tag="head"):
    """The machine, versions and date of a measurement."""

    date: str
    gpu: str
    versions: dict[str, str]


class Measured(Struct, frozen=True, kw_only=True, tag="measured"):
    """An expert against one rival, in interleaved pairs."""

    workload: str
    rival: str
    vendor: bool
    rival_us: tuple[float, ...]
    expert_us: tuple[float, ...]
    gpu_seconds: float


class Missing(Struct, frozen=True, kw_only=True, tag="missing"):
    """What could not be measured, and why."""

    workload: str
    rival: str
    says: str


Line = Head | Measured | Missing


class Row(Struct, frozen=True, kw_only=True):
    """One comparison, as it is printed."""

    workload: str
    rival: str
    vendor: bool
    expert_us: float
    rival_us: float
    ratio: float
    """Rival's time over the expert's: above 1 the expert is faster."""
    low: float
    high: float
    pairs: int
    best: bool
    """Whether this is the fastest vendor that was measured for the workload."""


def rows(kept: Sequence[Line]) -> list[Row]:
    """A row for each measurement, in the order of the workloads."""
    found = [_row(one) for one in kept if isinstance(one, Measured)]
    fastest: dict[str, float] = {}
    for row in found:
        if row.vendor:
            fastest[row.workload] = min(row.ratio, fastest.get(row.workload, math.inf))
    marked = [
        msgspec.structs.replace(row, best=row.vendor and row.ratio == fastest[row.workload])
        for row in found
    ]
    return sorted(marked, key=lambda row: WORKLOADS.index(row.workload))


def _row(one: Measured) -> Row:
    summary = summarize(one.rival_us, one.expert_us, RULE)
    return Row(
        workload=one.workload,
        rival=one.rival,
        vendor=one.vendor,
        expert_us=measured_time(one.expert_us, RULE, "").microseconds,
        rival_us=measured_time(one.rival_us, RULE, "").microseconds,
        ratio=summary.ratio,
        low=summary.low,
        high=summary.high,
        pairs=summary.pairs,
        best=False,
    )


def mean(found: Sequence[Row]) -> tuple[float, int] | None:
    """(geometric mean against the best vendor of each workload, workloads); None without any."""
    ratios = [row.ratio for row in found if row.best]
    return (geometric_mean(ratios), len(ratios)) if ratios else None


def quoted(workload: str) -> list[str]:
    """Published results of a workload's rivals, in words."""
    return [
        f"{one.us:g} us quoted, not measured here: {one.says}" for one in QUOTED.get(workload, ())
    ]


def read_lines(path: Path) -> list[Line]:
    """Everything that a file keeps. Raises WorkbenchError for what is no such file."""
    what = "no kept sample of an expert"
    return lines.read(path, Line, what=what, command="workbench bench experts --keep")
