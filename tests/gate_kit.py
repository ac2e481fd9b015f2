"""Small problems and candidates for the tests of the gate, and a workshop that they share."""

import atexit
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest
from msgspec import Struct

from workbench.gate.correctness.cases import Effort
from workbench.gate.correctness.stage import CorrectnessSettings, ShapeEffort, run
from workbench.gate.judge import JOB_MODULES
from workbench.gate.problem.inspect import JOB_MODULES as INSPECTING
from workbench.gate.records import Finding, StageReport
from workbench.gate.timing.baselines import JOB_MODULES as BASELINES
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Precision, Problem, Shape

SEED = bytes(range(16))

REFERENCE = """
import torch
from torch import nn
"""

CANDIDATE = """
import torch
import triton
import triton.language as tl
from torch import nn
"""

ADD_RELU = """
class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y)

def get_inputs():
    return [torch.randn(13, 29), torch.randn(13, 29)]

def get_init_inputs():
    return []
"""

ADD_RELU_KERNEL = """
@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.maximum(x + y, 0.0), mask=mask)

def launch(x, y, out):
    add_relu[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out
"""

SCALE = """
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * self.weight

def get_inputs():
    return [torch.randn(9, 21)]

def get_init_inputs():
    return [21]
"""

SCALE_KERNEL = """
@triton.jit
def scale(x_ptr, w_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask)
    w = tl.load(w_ptr + cols, mask=mask)
    tl.store(o_ptr + row * n + cols, x * w, mask=mask)

def launch(x, w, out):
    scale[(x.shape[0],)](x, w, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out
"""


class Source(Struct, frozen=True):
    """A candidate as the stage wants it."""

    source: str


def model(forward: str, init: str = "", arguments: str = "self") -> str:
    """`ModelNew` with that body of `forward` and, optionally, of a constructor."""
    forward = "\n".join("        " + line for line in dedent(forward).strip().splitlines())
    made = ""
    if init:
        lines = "\n".join("        " + line for line in dedent(init).strip().splitlines())
        made = f"    def __init__({arguments}):\n        super().__init__()\n{lines}\n\n"
    return f"class ModelNew(nn.Module):\n{made}    def forward(self, *inputs):\n{forward}\n"


def problem(
    body: str, *, shapes: tuple[Shape, ...] = (Shape(name="file"),), **fields: object
) -> Problem:
    """A problem from the body of its file."""
    known = {"precision": Precision.IEEE, **fields}
    return Problem(
        name="mine", path=Path("mine.py"), source=REFERENCE + dedent(body), shapes=shapes, **known
    )


def judged(
    workshop: Workshop,
    body: str | Problem,
    candidate: str,
    *,
    call_seconds: float = 60.0,
    seed: bytes = SEED,
    effort: Effort = Effort.ALL,
) -> StageReport:
    """The stage's report on a candidate, at the problem's first shape."""
    task = body if isinstance(body, Problem) else problem(body)
    settings = CorrectnessSettings(
        shapes=(ShapeEffort(shape=task.tiny.name, effort=effort),),
        seed=seed,
        call_seconds=call_seconds,
    )
    return run(Source(CANDIDATE + dedent(candidate)), task, settings, workshop)


def told(report: StageReport) -> Finding:
    """The decisive finding."""
    assert report.findings, report.says
    return report.findings[0]


@pytest.fixture(scope="session")
def workshop() -> Workshop:
    """Forkservers that all tests of one process share, also across files that import this."""
    return shared()


@cache
def shared() -> Workshop:
    """Able to do every job of the gate on a CPU; each of its forkservers takes seconds to start."""
    made = Workshop(preload=(*JOB_MODULES, *INSPECTING, *BASELINES))
    atexit.register(made.close)
    return made
