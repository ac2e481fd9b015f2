# ruff: noqa: ARG001, E731, N803 - Triton's own conventions in kernels
"""Kernels and launches that the recorder's tests compile; a file of its own, as a candidate is."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def copy(x, o, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * scale, mask=i < n)


@triton.jit
def large(x, o, N: tl.constexpr):
    m = tl.arange(0, N)
    a = tl.load(x + m[:, None] * N + m[None, :])
    tl.store(o + m[:, None] * N + m[None, :], tl.dot(a, tl.trans(a)))


@triton.jit
def row_softmax(x, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + i
    v = tl.load(x + at, mask=i < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(o + at, v / tl.sum(v, 0), mask=i < n)


@triton.jit
def _broken_helper(a, b):
    return tl.dot(a, b)


@triton.jit
def broken(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, _broken_helper(tl.load(x + i), tl.load(x + i)))


@triton.jit
def odd(x, o, N: tl.constexpr):
    i = tl.arange(0, 100)
    tl.store(o + i, tl.load(x + i))


@triton.autotune([triton.Config({"N": 256}, num_warps=8), triton.Config({"N": 32})], key=[])
@triton.jit
def tuned(x, o, N: tl.constexpr):
    m = tl.arange(0, N)
    a = tl.load(x + m[:, None] * N + m[None, :])
    tl.store(o + m[:, None] * N + m[None, :], tl.dot(a, tl.trans(a)))


@triton.heuristics({"BLOCK": lambda a: triton.next_power_of_2(a["n"])})
@triton.jit
def guessed(x, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def described(x, o, M: tl.constexpr, N: tl.constexpr):
    o.store([0, 0], x.load([0, 0]))


@triton.jit
def paired(xs, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(xs[0] + i) + xs[1])


def run_copy(x, **options):
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    copy[grid](x, out, x.numel(), 0.5, BLOCK=1024, **options)  # the launch
    return out


def run_described(x):
    out = torch.empty_like(x)
    pair = [TensorDescriptor.from_tensor(t, [16, 32]) for t in (x, out)]
    described[(1,)](*pair, 16, 32)
