"""Which workers the checks on a GPU need, so that suitable ones are started ahead."""

import contextlib
import threading

from workbench.errors import WorkbenchError
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.workshop import Workshop
from workbench.measure.gpulock import gpu_lock
from workbench.measure.gpuwatch import lock_name

REFERENCE_LIMITS = Limits(memory_bytes=32 << 30, reply_bytes=8 << 30, cpu_seconds=1800)
"""The problem's own code may draw many GB on the host before they go to a GPU, and it answers
for every turn of a long timing."""
CALL_SECONDS = 60.0
"""Deadline of one call of a candidate (gate protocol, section 10)."""
CANDIDATE_BYTES = 4 << 30
"""Host memory of a candidate's worker."""
CANDIDATE_LIMITS = Limits(wall_seconds=CALL_SECONDS, memory_bytes=CANDIDATE_BYTES)

REFERENCE = (Flavor.REFERENCE, REFERENCE_LIMITS)
CANDIDATE = (Flavor.CUDA, CANDIDATE_LIMITS)
SPARE = (REFERENCE, REFERENCE, CANDIDATE, CANDIDATE)
"""Most that one conversation takes of each: a comparison with its look in the interpreter beside
it, or a timing of a candidate and its parent."""

EXERCISES = {
    Flavor.REFERENCE: "workbench.gate.correctness.exercise_job:reference",
    Flavor.CUDA: "workbench.gate.correctness.exercise_job:candidate",
}
"""What a spare one does once it has started, so that its first answer takes no longer than others.
"""


def spare(workshop: Workshop) -> None:
    """Have all that one conversation takes started ahead, while nobody times; returns at once.

    A timing that wants the GPU alone waits until they are up. Without a GPU there is nothing to do.
    """
    if workshop.device_index is not None:
        index = workshop.device_index
        threading.Thread(target=_spared, args=(workshop, index), daemon=True).start()


def _spared(workshop: Workshop, device_index: int) -> None:
    # Whatever keeps them from it is met again by who needs a worker or the lock.
    with (
        contextlib.suppress(WorkbenchError, OSError),
        gpu_lock(lock_name(device_index), shared=True),
    ):
        workshop.spare(*SPARE, exercises=EXERCISES)
        workshop.spared()
