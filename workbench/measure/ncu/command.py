"""Nsight Compute's command lines: one that profiles, and one that reads the report back."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from workbench.measure.ncu.catalogue import SECTIONS, metric_names

MOST_LAUNCHES = 12
"""Most launches profiled in one call; each is replayed some forty times (ours)."""
CACHE_CONTROL = "all"
CLOCK_CONTROL = "none"
_VERSION = re.compile(r"Version\s+([\d.]+)")
_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")


def find_ncu() -> Path | None:
    """The `ncu` on PATH, or where NVIDIA's installers put it; None when there is none."""
    found = shutil.which("ncu")
    if found:
        return Path(found)
    for place in _PLACES:
        there = sorted(Path("/").glob(place.lstrip("/")))
        if there:
            return there[-1]
    return None


@lru_cache
def version_of(ncu: Path) -> str:
    """The version of `ncu`, like `2025.3.1.0`; empty when it cannot be found out."""
    try:
        said = subprocess.run(
            [ncu, "--version"], capture_output=True, text=True, check=False, timeout=30
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _VERSION.search(said)
    return found.group(1) if found else ""


def profile_command(
    ncu: Path,
    program: Sequence[str],
    *,
    kernels: Sequence[str],
    report: Path,
    log: Path,
    without: Sequence[str] = (),
) -> list[str]:
    """The command that profiles `kernels` between `program`'s cuProfilerStart and -Stop.

    The program warms up before it starts the profiler, so no launches have to be skipped. Clocks
    are left as they are, as they are when we time; every replay starts with flushed caches, as
    every timed call does. ncu writes the `.ncu-rep` to `report` and its own messages to `log`.
    `without` names metrics that this ncu does not know.
    """
    names = "|".join(re.escape(name) for name in dict.fromkeys(kernels))
    metrics = [name for name in metric_names() if name not in without]
    return [
        *(str(ncu), "--config-file", "off"),
        *("--target-processes", "application-only", "--replay-mode", "kernel"),
        *("--profile-from-start", "off"),
        *("--clock-control", CLOCK_CONTROL, "--cache-control", CACHE_CONTROL),
        *("--kernel-name", f"regex:^({names})$", "--launch-count", str(MOST_LAUNCHES)),
        *("--set", "detailed"),
        *(word for section in SECTIONS for word in ("--section", section)),
        *(("--metrics", ",".join(metrics)) if metrics else ()),
        *("--export", str(report), "--force-overwrite", "--log-file", str(log)),
        *program,
    ]


def read_command(ncu: Path, report: Path) -> list[str]:
    """The command that prints the report's raw page in base units; it needs no GPU."""
    return [
        *(str(ncu), "--config-file", "off", "--import", str(report)),
        *("--csv", "--page", "raw", "--print-units", "base"),
    ]
