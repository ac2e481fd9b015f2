"""Conversions from and to fp8 as a GPU makes them; numpy has no such types."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits8 = NDArray[np.uint8]
F32 = NDArray[np.float32]

FP8 = {"fp8e4nv": (4, 0x7E), "fp8e5": (5, 0x7B)}
"""Bits of the exponent, and the code of the largest finite number, by triton's name."""
_NAN, _SIGN = 0x7F, 0x80


@cache
def _values(name: str) -> F32:
    """The number that each of the 256 codes stands for (OCP 8-bit floating point, 5.2)."""
    exponent_bits, last = FP8[name]
    mantissa_bits = 7 - exponent_bits
    codes = np.arange(128)
    exponent, mantissa = codes >> mantissa_bits, codes % (1 << mantissa_bits)
    normal = (exponent > 0).astype(np.int64)
    lowest = 2 - (1 << (exponent_bits - 1)) - mantissa_bits
    values = np.ldexp((normal << mantissa_bits) + mantissa, lowest + exponent - normal)
    values[last + 1 :] = np.nan
    if name == "fp8e5":
        values[last + 1] = np.inf
    return np.concatenate([values, -values]).astype(np.float32)


def widen_fp8(bits: Bits8, name: str) -> F32:
    """The numbers that fp8 bit patterns stand for."""
    return _values(name)[bits]


def narrow_fp8(values: NDArray[Any], name: str) -> Bits8:
    """Values rounded to nearest with ties to even; beyond the largest number they are that one.

    PTX ISA, `cvt.rn.satfinite`, which Triton emits from compute capability 8.9 on. NaN stays NaN.
    """
    last = FP8[name][1]
    finite = _values(name)[: last + 1].astype(np.float64)
    halfway = (finite[:-1] + finite[1:]) / 2
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    codes = np.searchsorted(halfway, sizes)
    tie = halfway[np.minimum(codes, last - 1)] == sizes
    codes += tie & (codes % 2 == 1)
    codes = np.where(np.isnan(sizes), _NAN, codes)
    made: Bits8 = (codes + _SIGN * np.signbit(values)).astype(np.uint8)
    return made
