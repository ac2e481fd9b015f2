"""Kernels that store in many ways; only their text is read."""

import triton
import triton.language as tl


@triton.jit
def plain(x, out, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def through_a_name(x, out, n, block: tl.constexpr):
    i = tl.arange(0, block)
    row = out + i
    for _ in range(n):
        tl.store(row, tl.load(x + i))
        row += block


@triton.jit
def _put(value, place):
    tl.store(place, value)


@triton.jit
def through_a_helper(x, out, block: tl.constexpr):
    i = tl.arange(0, block)
    _put(tl.load(x + i), place=out + i)


@triton.jit
def by_loaded_index(places, counts, block: tl.constexpr):
    at = tl.load(places + tl.arange(0, block))
    tl.atomic_add(counts + at, 1)


@triton.jit
def descriptor(x, out, n, block: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [n], [1], [block])
    target = tl.make_tensor_descriptor(out, [n], [1], [block])
    target.store([0], source.load([0]))


@triton.jit
def ticket(x, out, count):
    if tl.atomic_add(count, 1) == tl.num_programs(0) - 1:
        tl.store(out, tl.load(x))
