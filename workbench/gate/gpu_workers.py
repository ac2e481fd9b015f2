"""The kinds of workers that checks on a GPU use, so that spare ones can be started early."""

import contextlib
import threading

from workbench.errors import WorkbenchError
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.workshop import Workshop
from workbench.measure.gpulock import gpu_lock
from workbench.measure.gpuwatch import lock_name

REFERENCE_LIMITS = Limits(memory_bytes=32 << 30, reply_bytes=8 << 30, cpu_seconds=1800)
"""The problem's code may draw many GB on the host before they go to a GPU, and its worker serves a
whole timing."""
CALL_SECONDS = 60.0
"""Deadline of one call of a candidate (gate protocol, section 10)."""
CANDIDATE_BYTES = 4 << 30
"""Host memory of a candidate's worker."""
CANDIDATE_LIMITS = Limits(wall_seconds=CALL_SECONDS, memory_bytes=CANDIDATE_BYTES)

REFERENCE = (Flavor.REFERENCE, REFERENCE_LIMITS)
CANDIDATE = (Flavor.CUDA, CANDIDATE_LIMITS)
SPARE = (REFERENCE, REFERENCE, CANDIDATE, CANDIDATE)
"""Workers of each kind that one stage uses at most: a comparison with its interpreted twin, or a
timing of a candidate and its parent."""

EXERCISES = {
    Flavor.REFERENCE: "workbench.gate.correctness.exercise_job:reference",
    Flavor.CUDA: "workbench.gate.correctness.exercise_job:candidate",
}
"""What a spare worker runs once it has started, so that its first reply is not slower than others.
"""


def spare(workshop: Workshop) -> None:
    """Start the spare workers of one stage in the background while nobody times; returns at once.

    A timing that needs the GPU exclusively waits until they are up. Without a GPU nothing happens.
    """
    if workshop.device_index is not None:
        index = workshop.device_index
        threading.Thread(target=_spared, args=(workshop, index), daemon=True).start()


def _spared(workshop: Workshop, device_index: int) -> None:
    # A fault here is met again by whoever needs a worker or the lock.
    with (
        contextlib.suppress(WorkbenchError, OSError),
        gpu_lock(lock_name(device_index), shared=True, counted=False),
    ):
        workshop.spare(*SPARE, exercises=EXERCISES)
        workshop.spared()
