"""What no verdict waits for: torch imported twice, kernels of ours compiled again; and who tells
where its seconds went."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gate_kit import (
    ADD_RELU,
    ADD_RELU_KERNEL,
    CANDIDATE,
    SEED,
    Source,
    judged,
    model,
    problem,
    workshop,
)
from triton.runtime.cache import get_cache_manager

from workbench.errors import WorkbenchError
from workbench.gate.correctness.cases import Effort
from workbench.gate.correctness.stage import CorrectnessSettings, ShapeEffort, run
from workbench.gate.records import Outcome
from workbench.isolation.ahead import MadeAhead
from workbench.isolation.processes import children
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Shape

__all__ = ["workshop"]

EVERYTHING_WITH_EVERYTHING = """
@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    zero = tl.zeros([BLOCK], tl.float32)
    for other in range(n):
        zero += tl.load(x_ptr + other) * 0.0
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.maximum(x + y, 0.0) + zero, mask=mask)

def launch(x, y, out):
    add_relu[(triton.cdiv(x.numel(), 32),)](x, y, out, x.numel(), BLOCK=32)
    return out
"""
"""Work that grows with the square of the shape, where the reference's does not."""

HEAVY = """
import sys
import workbench.engine.workplace
print(*{"torch", "triton", "numpy", "textual"} & set(sys.modules))
"""


def test_the_process_that_judges_imports_nothing_that_a_worker_computes_with():
    told = subprocess.run([sys.executable, "-c", HEAVY], capture_output=True, text=True, check=True)
    assert told.stdout.split() == []


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="the GPU here starts")
def test_a_gpu_that_does_not_start_in_a_sandbox_costs_no_other_forkserver():
    before = set(children(os.getpid()))
    with Workshop(device_index=0, wrap=False) as shop:
        shop.warm(Flavor.CUDA)
        while not (started := set(children(os.getpid())) - before):
            pass
        with pytest.raises(WorkbenchError, match="the GPU did not start in a worker"):
            shop.worker(Flavor.CUDA)
        assert set(children(os.getpid())) - before == started


def test_what_is_compiled_ahead_is_found_in_every_later_worker_s_own_cache(tmp_path, monkeypatch):
    made, first, later = (tmp_path / name for name in ("made", "first", "later"))
    for folder in (made, first, later):
        folder.mkdir()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(first / "triton"))
    cache = get_cache_manager("a" * 64)
    cache.put_group("kernel.json", {"kernel.cubin": cache.put(b"code", "kernel.cubin")})
    ahead = MadeAhead(made)
    ahead.take(first)
    ahead.give(later)
    first.rename(tmp_path / "gone")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(later / "triton"))
    group = get_cache_manager("a" * 64).get_group("kernel.json")
    assert Path(group["kernel.cubin"]).read_bytes() == b"code"
    assert Path(group["kernel.cubin"]).is_relative_to(later)


def test_what_a_worker_does_to_its_copy_reaches_no_other(tmp_path):
    made, first, one, other = (tmp_path / name for name in ("made", "first", "one", "other"))
    for folder in (made, first / "triton", one, other):
        folder.mkdir(parents=True)
    (first / "triton" / "helper.so").write_bytes(b"ours")
    ahead = MadeAhead(made)
    ahead.take(first)
    ahead.give(one)
    (one / "triton" / "helper.so").write_bytes(b"theirs")
    ahead.give(other)
    assert (other / "triton" / "helper.so").read_bytes() == b"ours"


def test_a_stage_says_where_its_seconds_went(workshop):
    right = model("x, y = inputs\nreturn launch(x, y, torch.empty_like(x))")
    report = judged(workshop, ADD_RELU, ADD_RELU_KERNEL + right)
    assert report.outcome is Outcome.PASSED
    assert {"starting workers", "reference: draw", "candidate: call"} <= set(report.parts)
    assert 0.5 * report.seconds < sum(report.parts.values()) <= report.seconds


def test_a_larger_shape_that_only_the_interpreter_is_too_slow_for_is_soon_given_up_and_said(
    workshop,
):
    sized = ADD_RELU.replace("13, 29", "1, N").replace("class", "N = 8\n\nclass", 1)
    shapes = (Shape(name="tiny", values={"N": 8}), Shape(name="small", values={"N": 1 << 14}))
    task = problem(sized, shapes=shapes)
    few = [ShapeEffort(shape=one.name, effort=Effort.FEW) for one in shapes]
    right = model("x, y = inputs\nreturn launch(x, y, torch.empty_like(x))")
    report = run(
        Source(CANDIDATE + EVERYTHING_WITH_EVERYTHING + right),
        task,
        CorrectnessSettings(shapes=tuple(few), seed=SEED),
        workshop,
    )
    assert report.outcome is Outcome.PASSED
    codes = [finding.code for finding in report.findings]
    assert "correctness.shape-unchecked" in codes
    assert {*codes} <= {"correctness.shape-unchecked", "correctness.special-values"}
    assert "at tiny, worst" in report.says
    # What was wrong before it was given up still counts.
    wrong = right.replace("torch.empty_like(x))", "torch.empty_like(x)) + 1")
    refused = run(
        Source(CANDIDATE + EVERYTHING_WITH_EVERYTHING + wrong),
        task,
        CorrectnessSettings(shapes=tuple(few), seed=SEED),
        workshop,
    )
    assert refused.outcome is Outcome.FAILED
