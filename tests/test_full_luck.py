"""No verdict about the full shape rests on which programs a secret seed happened to draw."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import dedent

import pytest
from gate_kit import CANDIDATE, workshop

from workbench.gate.correctness.full.protocol import TracedFull, TraceFull
from workbench.gate.correctness.protocol import decode, encode
from workbench.isolation.records import Flavor
from workbench.isolation.wire import Blob
from workbench.kernels.requests import TensorSpec, TraceRequest

__all__ = ["workshop"]

ROWS, COLS = 12, 100
SEEDS = 24
"""The last of twelve programs is the first of eight drawn ones in about one of ten draws."""

DOUBLE = """
@triton.jit
def double(x, y, ROWS, COLS, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < COLS
    value = tl.load(x + row * COLS + lanes, mask=inside)
    tl.store(y + row * COLS + lanes, value * 2.0, mask={mask})

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[(x.shape[0],)](x, y, x.shape[0], x.shape[1], BLOCK=128)
        return y
"""


@contextmanager
def looking(shop) -> Iterator:
    """What a sample of the programs of a kernel with that mask wrote, by the sample's seed."""
    x = TensorSpec(dtype="float32", shape=(ROWS, COLS), strides=(COLS, 1))
    chunk = Blob(dtype="float32", shape=(4,), strides=(1,), data=b"\0\0\x80?" * 4)

    with shop.worker(Flavor.INTERPRET) as worker:

        def look(mask: str, seed: int, made: str = "empty") -> TracedFull:
            source = DOUBLE.replace("{mask}", mask).replace("empty_like", f"{made}_like")
            request = TraceRequest(
                source=CANDIDATE + dedent(source),
                target="sm90",
                init=(),
                inputs=(x,),
                sample_seed=seed,
            )
            asked = TraceFull(request=request, inputs=1, state=())
            job = "workbench.gate.correctness.full.candidate_job:trace"
            return decode(worker.call(job, encode(asked), [chunk]).body, TracedFull)

        yield look


@pytest.mark.parametrize(
    ("mask", "share"),
    [
        ("inside", 1.0),
        ("inside & (row != ROWS - 1)", 11 / 12),
        ("inside & (row != 5)", 11 / 12),
        ("inside & (lanes < COLS - 1)", 0.99),
        ("inside & (row < 0)", 0.0),
    ],
)
def test_what_kernels_write_is_counted_alike_whatever_is_drawn(workshop, mask, share):
    seeds = random.Random(3)
    with looking(workshop) as look:
        for _ in range(SEEDS):
            seed = seeds.getrandbits(62)
            told = look(mask, seed)
            assert told.all_ways, seed
            assert told.written == (pytest.approx(share),), seed


@pytest.mark.parametrize(("mask", "free"), [("inside", False), ("inside & (row != 7)", True)])
def test_zeros_of_the_host_that_stay_are_found_whatever_is_drawn(workshop, mask, free):
    seeds = random.Random(4)
    with looking(workshop) as look:
        for _ in range(SEEDS // 2):
            told = look(mask, seeds.getrandbits(62), "zeros")
            groups = [one for one in told.groups if one.filled]
            assert [one.unwritten for one in groups if not one.at_ends] == [free]
            assert any(one.at_ends for one in groups) is not free
