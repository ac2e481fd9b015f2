"""Warms up a worker before its first use: runs our own code on dummy numbers.

On a GPU torch loads each kernel when it is first launched, and comparing outputs launches some
dozens: half of the time of a first reply. No candidate is involved, and only the driver's caches
remain.
"""

import sys
from typing import Any

from workbench.gate.correctness.candidate_job import clock_of
from workbench.gate.correctness.cases import Case, Poison
from workbench.gate.correctness.memory import uninitialised
from workbench.gate.correctness.protocol import (
    Compare,
    Draw,
    OpenReference,
    Perturb,
    Recheck,
    encode,
)
from workbench.gate.correctness.reference_job import (
    compare,
    draw,
    open_reference,
    perturb,
    recheck,
    reference_of,
)
from workbench.isolation.context import JobContext
from workbench.isolation.tensors import to_blob
from workbench.isolation.wire import Blob
from workbench.problems.records import Precision

_PROBLEM = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(64))

    def forward(self, x):
        return x * self.scale


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""


def candidate(
    bench: JobContext,
    request: dict[str, Any],  # noqa: ARG001 -- a job's shape
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Create the clock, and time an empty call in memory that was left full."""
    with uninitialised(Poison.PATTERN, bench.device):
        clock_of(bench).read(lambda: None)
    with uninitialised(Poison.NAN, bench.device):
        clock_of(bench).read(lambda: None, bare=True)
    return {}, []


def reference(
    bench: JobContext,
    request: dict[str, Any],  # noqa: ARG001 -- a job's shape
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Build a reference of our own, compute its answers, and compare them with themselves."""
    opening = OpenReference(
        source=_PROBLEM,
        values={},
        build_seed=1,
        precision=Precision.IEEE,
        tolerance={},
        selections=(),
    )
    open_reference(bench, encode(opening), [])
    made = reference_of(bench)
    perturb(bench, encode(Perturb(seed=1)), [])
    for number, case in enumerate((Case.FRESH, Case.KEPT_ENDS)):
        _, inputs = draw(bench, encode(Draw(number=number, case=case, seed=number)), [])
        if made.call is not None:
            left = [to_blob(output) for output in made.call.native.outputs]
            left += [*inputs, *(to_blob(weight) for weight in made.weights.values())]
            compare(bench, encode(Compare(number=number)), left)
            recheck(bench, encode(Recheck(number=number)), left[: len(made.call.native.outputs)])
    sys.modules.pop(made.oracle.module.__name__, None)
    del bench.state["reference"]
    return {}, []
