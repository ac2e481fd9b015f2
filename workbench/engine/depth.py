"""How many candidates a machine can work on beside the running one."""

import os

from workbench.session.records import SessionSettings

MOST = 4
"""On the CPU path, where each holds interpreters and compilers; ours."""
MOST_BESIDE_GPU = 1
"""Beside a timing more work on the CPU could be seen in short kernels' times; ours."""


def depth_of(settings: SessionSettings, cores: int | None = None) -> int:
    """Candidates begun ahead at most: what the session says, else one a core but for the first.

    `cores` are those that this process may use.
    """
    if settings.ahead is not None:
        return settings.ahead
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    return min(MOST if settings.device_index is None else MOST_BESIDE_GPU, cores - 1)
