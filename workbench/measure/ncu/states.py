"""How a run of Nsight Compute ended, judged by its messages, and what to do about it."""

import re
from collections.abc import Sequence

from workbench.measure.ncu.records import NcuRecord, NcuState

_WORDS: dict[NcuState, tuple[str, ...]] = {
    NcuState.REFUSED: ("ERR_NVGPUCTRPERM", "permission to access NVIDIA GPU Performance"),
    NcuState.OCCUPIED: (
        *("driver resource was unavailable", "no other tool", "already being profiled"),
        *("concurrently collecting profiling", "profiler is already"),
    ),
    NcuState.UNSUPPORTED: (
        *("unsupported gpu", "profiling is not supported", "not supported on (this )?device"),
        *("driver is not compatible", "incompatible (cuda )?driver", "device architecture"),
    ),
    NcuState.CRASHED: (
        *("application returned an error", "terminated (due to|by) signal", "launch failed"),
        *("application crashed", "failed to profile", "internal error", "unknown error"),
    ),
    NcuState.NO_KERNEL: ("no kernels were profiled", "before first instrumented api call"),
}
"""Patterns in ncu's errors and warnings; the first state with a match is reported."""

REMEDY: dict[NcuState, str] = {
    NcuState.MISSING: "install Nsight Compute, part of the CUDA toolkit, and put `ncu` on PATH",
    NcuState.REFUSED: "let users read GPU counters: module option nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0, or run with CAP_SYS_ADMIN (a container: "
    "--cap-add=SYS_ADMIN); see NVIDIA's page on ERR_NVGPUCTRPERM",
    NcuState.OCCUPIED: "end the other profiler (ncu, nsys, CUPTI) or pause DCGM: "
    "`dcgmi profile --pause`",
    NcuState.UNSUPPORTED: "install an Nsight Compute that knows this GPU and driver",
    NcuState.NO_KERNEL: "look whether the candidate launches kernels at this shape at every call",
    NcuState.TIMED_OUT: "profile it by hand with fewer metrics: a long kernel is replayed for each",
    NcuState.CRASHED: "run `ncu` on it by hand; a kernel that only fails under replay may depend "
    "on what an earlier launch left in memory",
    NcuState.UNREADABLE: "report the version of ncu; its page may have a new form",
}


def state_of(messages: Sequence[str], *, exit_code: int, launches: int) -> NcuState:
    """The state of a run that ended by itself. Launches that were read outweigh a bad exit code.

    A refusal by the driver is reported even where some launches were read before it.
    """
    found = [
        state
        for state, words in _WORDS.items()
        if any(re.search(word, text, re.IGNORECASE) for word in words for text in messages)
    ]
    hard = (NcuState.REFUSED, NcuState.OCCUPIED, NcuState.UNSUPPORTED)
    for state in found:
        if state in hard or not launches:
            return state
    if launches:
        return NcuState.PROFILED
    return NcuState.CRASHED if exit_code else NcuState.NO_KERNEL


def without_profile(state: NcuState, why: str, *, version: str = "") -> NcuRecord:
    """The record of a run without a profile; the reader is referred to the static one."""
    return NcuRecord(
        state=state,
        says=f"{_SAYS[state]}{f': {why}' if why else ''}; the static profile stands in its place",
        todo=REMEDY[state],
        version=version,
    )


_SAYS: dict[NcuState, str] = {
    NcuState.MISSING: "Nsight Compute is not installed",
    NcuState.REFUSED: "the driver keeps its performance counters for the administrator",
    NcuState.OCCUPIED: "another profiler has the GPU's counters",
    NcuState.UNSUPPORTED: "this Nsight Compute cannot profile this GPU",
    NcuState.NO_KERNEL: "Nsight Compute saw none of the candidate's kernels",
    NcuState.TIMED_OUT: "Nsight Compute did not end in time",
    NcuState.CRASHED: "the candidate did not end well under Nsight Compute",
    NcuState.UNREADABLE: "what Nsight Compute printed cannot be read",
}
