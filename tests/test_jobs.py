"""Jobs answer with what the second call of a candidate launches, at full size, as data.

Traces need a process that interprets: their cases are in `interpreted/cases.py`.
"""

import json

import msgspec
import pytest

from workbench.kernels.jobs import record
from workbench.kernels.requests import (
    BranchSpec,
    LaunchRequest,
    PlainSpec,
    Recorded,
    TensorSpec,
)

CANDIDATE = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, o, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, size, options):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(size, size))
        self.factor = options["factor"]
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.weight.t().contiguous()
        PREPARE
        out = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), self.factor, BLOCK=1024)
        return out
"""


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch


@pytest.fixture
def ask(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))

    def asked(source, shape=(1 << 15, 1 << 15)):
        strides = (shape[1], 1)
        request = LaunchRequest(
            source=source,
            target="sm90",
            init=(
                PlainSpec(kind="int", value=8192),
                BranchSpec(
                    kind="dict", items=(PlainSpec(kind="float", value=0.5),), keys=("factor",)
                ),
            ),
            inputs=(TensorSpec(dtype="float32", shape=shape, strides=strides),),
        )
        body, blobs = record(Bench(tmp_path), msgspec.to_builtins(request), [])
        assert blobs == []
        json.dumps(body)
        return msgspec.convert(body, Recorded)

    return asked


def candidate(prepare="pass"):
    return CANDIDATE.replace("PREPARE", prepare)


def test_launches_are_those_of_the_full_shape(ask):
    answer = ask(candidate())
    (launch,) = answer.launches
    assert launch.grid == (1 << 20, 1, 1)
    assert launch.arguments["x"].bytes == 4 << 30
    assert launch.arguments["factor"].value == 0.5
    source = candidate().splitlines()
    assert source[launch.line - 1].strip().startswith("scale[(triton.cdiv")
    assert launch.compile_seconds > 0
    assert answer.fault is None
    assert set(answer.toolchain) == {"torch", "triton", "ptxas"}


def test_what_the_first_call_prepares_is_not_charged(ask):
    assert ask(candidate()).host == ()


def test_what_every_call_moves_is_charged_with_its_line(ask):
    answer = ask(candidate("x = x.t().contiguous()"))
    (moved,) = answer.host
    assert (moved.name, moved.bytes) == ("aten::clone", 8 << 30)
    assert "x.t().contiguous()" in candidate("x = x.t().contiguous()").splitlines()[moved.line - 1]


def test_a_kernel_that_does_not_compile_is_a_fault_with_its_line(ask):
    source = candidate().replace("tl.arange(0, BLOCK)", "tl.arange(0, 1000)")
    fault = ask(source).fault
    assert (fault.kind, fault.kernel) == ("compile-failed", "scale")
    assert "arange(0, 1000)" in source.splitlines()[fault.line - 1]
    assert "power of 2" in fault.what


def test_a_kernel_that_does_not_fit_is_a_fault_with_its_numbers(ask):
    source = (
        candidate()
        .replace(
            "    tl.store(o",
            "    i = tl.arange(0, 256)\n"
            "    a = tl.load(x + i[:, None] * 256 + i[None, :])\n"
            "    tl.store(o + i[:, None] * 256 + i[None, :], tl.dot(a, tl.trans(a)))\n"
            "    i = tl.arange(0, BLOCK)\n"
            "    tl.store(o",
        )
        .replace("BLOCK=1024)\n        return", "BLOCK=1024, num_warps=8)\n        return")
    )
    fault = ask(source).fault
    assert fault.kind == "too-large"
    assert fault.details["required"] > fault.details["limit"] == 227 * 1024


def test_what_host_code_raises_is_raised(ask):
    with pytest.raises(KeyError, match="missing"):
        ask(candidate("raise KeyError('missing')"))
