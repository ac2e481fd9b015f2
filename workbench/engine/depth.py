"""How many candidates a machine can work on beside the running one."""

import os

from workbench.session.records import SessionSettings

MOST = 4
"""On the CPU path, where each holds interpreters and compilers; ours."""
MOST_BESIDE_GPU = 1
"""On one GPU: beside a timing more work on the CPU could be seen in short kernels' times; ours. On
several one for each: every GPU has a candidate, and one more is compiled."""


def depth_of(settings: SessionSettings, cores: int | None = None) -> int:
    """Candidates begun ahead at most: what the session says, else one a core but for the first.

    None in a beam, which begins its own. `cores` are those that this process may use.
    """
    if settings.beam > 1:
        return 0
    if settings.ahead is not None:
        return settings.ahead
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    beside_gpu = max(MOST_BESIDE_GPU, len(settings.device_indices))
    return min(MOST if settings.device_index is None else beside_gpu, cores - 1)
