"""Arithmetic as the GPU does it where numpy has no such type: bfloat16, TF32, fp16 accumulators."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
F32 = NDArray[np.float32]
Bits16 = NDArray[np.uint16]


def widen(bits: Bits16) -> F32:
    """bfloat16 bit patterns as the float32 values that they are."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def narrow(values: Array) -> Bits16:
    """Values rounded to bfloat16, to nearest with ties to even; NaN stays NaN."""
    exact = np.ascontiguousarray(values, dtype=np.float32)
    bits = exact.view(np.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    nan = np.isnan(exact)
    if nan.any():
        rounded[nan] = 0x7FC0
    return rounded.reshape(np.shape(values))


def narrow_toward_zero(values: Array) -> Bits16:
    """Values truncated to bfloat16."""
    exact = np.ascontiguousarray(values, dtype=np.float32)
    return (exact.view(np.uint32) >> 16).astype(np.uint16).reshape(np.shape(values))


def half_toward_zero(values: Array) -> Array:
    """Values truncated to float16."""
    half = np.asarray(values, dtype=np.float32).astype(np.float16)
    over = np.abs(half.astype(np.float32)) > np.abs(values)
    return np.where(over, np.nextafter(half, np.float16(0)), half).astype(np.float16)


def to_integer(values: Array, dtype: np.dtype[Any]) -> Array:
    """Floats to integers as PTX `cvt.rzi` does: toward zero, saturating, NaN to zero.

    8-bit results go through 16 bits and wrap, as LLVM lowers them; a 64-bit result of NaN is the
    smallest integer, or 2^63 unsigned. Both seen on an H200.
    """
    wide = dtype if dtype.itemsize > 1 else np.dtype(f"{dtype.kind}2")
    limits = np.iinfo(wide)
    nan = np.isnan(values)
    exact = np.trunc(np.where(nan, 0.0, np.asarray(values, dtype=np.float64)))
    # float64 cannot hold the largest 64-bit integers: compare, never convert out of range.
    high = exact >= float(limits.max)
    low = exact <= float(limits.min)
    inside = np.where(high | low, 0.0, exact).astype(wide)
    whole = np.where(high, limits.max, np.where(low, limits.min, inside)).astype(wide)
    if dtype.itemsize == 8:
        whole[nan] = limits.min if dtype.kind == "i" else 1 << 63
    return whole.astype(dtype)


def tf32(values: F32) -> F32:
    """What the tensor core reads of an fp32 register as TF32: the low 13 mantissa bits ignored.

    PTX ISA, `mma` with `.tf32` operands: the lower bits are undefined in effect; hardware drops
    them. Triton does not round before a plain TF32 dot, so the error is up to 2^-10, not 2^-11.
    """
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def tf32_nearest(values: F32) -> F32:
    """PTX `cvt.rna.tf32.f32`: to nearest, ties away from zero. Triton's 3xTF32 splits with it."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(special, bits, rounded).view(np.float32)


def dot(a: Array, b: Array, precision: str) -> F32:
    """float32 product of float32 operands under Triton's `input_precision`.

    `ieee` is plain float32. The emulations follow Triton's F32DotTC pass: `tf32x3` and `bf16x3`
    add the three products of a split in two, `bf16x6` the six of a split in three.
    """
    if precision == "tf32":
        return _matmul(tf32(a), tf32(b))
    if precision == "tf32x3":
        big_a, big_b = tf32_nearest(a), tf32_nearest(b)
        small_a, small_b = tf32(_rest(a, big_a)), tf32(_rest(b, big_b))
        return _matmul(small_a, big_b) + _matmul(big_a, small_b) + _matmul(big_a, big_b)
    if precision in {"bf16x3", "bf16x6"}:
        return _split_bf16(a, b, 3 if precision == "bf16x6" else 2)
    return _matmul(a, b)


def _rest(values: F32, part: F32) -> F32:
    """What a split leaves; nothing where the part is not finite, as Triton zeroes NaN there."""
    rest = values - part
    return np.where(np.isfinite(rest), rest, np.float32(0))


def _split_bf16(a: F32, b: F32, parts: int) -> F32:
    split_a, split_b = _bf16_parts(a, parts), _bf16_parts(b, parts)
    pairs = [(i, j) for i in range(parts) for j in range(parts) if i + j < parts]
    total = np.zeros(1, dtype=np.float32)
    for i, j in sorted(pairs, key=sum, reverse=True):
        total = total + _matmul(split_a[i], split_b[j])
    return total


def _bf16_parts(values: F32, count: int) -> list[F32]:
    parts = []
    for _ in range(count):
        part = widen(narrow(values))
        parts.append(part)
        values = _rest(values, part)
    return parts


def _matmul(a: F32, b: F32) -> F32:
    # One call to BLAS per matrix; numpy falls back to a slow loop for some strides.
    product: F32 = np.matmul(np.ascontiguousarray(a), np.ascontiguousarray(b))
    return product


_HALF_STEP = 16
"""Inner dimension of one product into a float16 accumulator, as of one tensor-core instruction."""


def dot_into_half(a: F32, b: F32, accumulator: Array) -> Array:
    """Product with a float16 accumulator, rounded after every 16 of the inner dimension."""
    total: Array = accumulator
    for k in range(0, a.shape[-1], _HALF_STEP):
        end = k + _HALF_STEP
        part = _matmul(a[..., k:end], b[..., k:end, :])
        total = (total.astype(np.float32) + part).astype(np.float16)
    return total


def rounded_tree_sum(values: Array, axis: int, narrow_to: str) -> Array:
    """Sum along `axis` by halves, rounded each time to `bfloat16` (bits in and out) or `float16`.

    A GPU reduces such tensors in a tree of additions in their own type; numpy would add in float32
    and look more exact than the kernel is.
    """
    wide = widen(values) if narrow_to == "bfloat16" else values.astype(np.float32)
    wide = np.moveaxis(wide, axis, 0)
    while wide.shape[0] > 1:
        half = wide.shape[0] // 2
        summed = wide[:half] + wide[half : 2 * half]
        if narrow_to == "bfloat16":
            summed = widen(narrow(summed))
        else:
            summed = summed.astype(np.float16).astype(np.float32)
        wide = np.concatenate([summed, wide[2 * half :]]) if wide.shape[0] % 2 else summed
    return narrow(wide[0]) if narrow_to == "bfloat16" else wide[0].astype(np.float16)
