"""The overhead of a timed call: empty calls in a candidate's worker before it loads the candidate.

No candidate code has run in the process yet, so these readings are trusted.
"""

from functools import partial
from typing import Any

from workbench.gate.correctness.candidate_job import clock_of
from workbench.gate.correctness.cases import Poison
from workbench.gate.correctness.memory import uninitialised
from workbench.gate.correctness.protocol import decode, encode
from workbench.gate.timing.ring_protocol import EmptyTurn, Timed
from workbench.isolation.context import JobContext
from workbench.isolation.wire import Blob


def turn(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Do everything that a timed call does, without the call."""
    bare = decode(request, EmptyTurn).bare
    with uninitialised(Poison.PATTERN, bench.device):
        _, reading = clock_of(bench).read(partial(int), bare=bare)
    return encode(Timed(reading=reading)), []


def ahead(
    bench: JobContext,
    request: dict[str, Any],  # noqa: ARG001 -- a job's shape
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Create the clock, so that its spin kernel and the driver's helper are compiled."""
    clock_of(bench)
    return {}, []
