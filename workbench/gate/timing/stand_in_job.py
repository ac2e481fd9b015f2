"""The overhead of a timed call: calls that compute nothing, in the reference's worker.

Runs the same code around an empty call that `candidate_job` runs around a candidate's, in a process
that never held a candidate: load on the host then shows in it as in the sides' turns.
"""

from typing import Any

import torch
from torch import nn

from workbench.gate.correctness.candidate_job import FILE, Loaded, call
from workbench.gate.correctness.reference_job import reference_of
from workbench.gate.timing.ring_job import ring_of
from workbench.isolation.context import JobContext
from workbench.isolation.wire import Blob

_MOST_BYTES = 256 << 20
"""Most bytes of outputs that are allocated beside those of the sides (ours)."""


class _StandIn(nn.Module):
    """Has the reference's weights, allocates its outputs, and computes nothing."""

    def __init__(self, reference: nn.Module, like: list[torch.Tensor]) -> None:
        super().__init__()
        self.reference = reference
        self._like = [(output.shape, output.dtype, output.device) for output in like]
        self._roomy = sum(output.nbytes for output in like) > _MOST_BYTES

    def forward(self, *_inputs: object, **_named: object) -> list[torch.Tensor]:
        """Uninitialised outputs; large ones are one element, expanded."""
        return [
            torch.empty((), dtype=dtype, device=device).expand(shape)
            if self._roomy
            else torch.empty(shape, dtype=dtype, device=device)
            for shape, dtype, device in self._like
        ]


def turn(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer a `RunCall` as a candidate's worker does, on the present contents."""
    ring, reference = ring_of(bench), reference_of(bench)
    loaded = bench.state.get("candidate")
    if not isinstance(loaded, Loaded):
        model = _StandIn(reference.oracle.model, ring.outputs())
        loaded = Loaded(model, bench.scratch / FILE, ring.clock, bench.device, "")
        loaded.interpreted = False
        bench.state["candidate"] = loaded
    loaded.inputs = ring.inputs
    reply = call(bench, request, blobs)
    loaded.returned = []
    return reply
