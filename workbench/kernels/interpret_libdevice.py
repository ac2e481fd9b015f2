"""libdevice functions on numpy arrays: what `libdevice.tanh(x)` gives in the interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]


def _torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    def apply(values: Array) -> Array:
        result: Array = function(torch.from_numpy(np.array(values))).numpy()
        return result

    return apply


erf = _torch(torch.special.erf)
"""Vectorized; numpy has none, and triton's own calls Python for every element."""


def _turned(function: Callable[..., Array]) -> Callable[[Array], Array]:
    """PTX `sin.approx` and `cos.approx`: of a float32 number of turns, whose spacing is what they
    err by (PTX ISA: up to 2^-14.7 within 50 turns).
    """

    def apply(x: Array) -> Array:
        turns = (x * np.float32(0.5 / np.pi)).astype(np.float32)
        result: Array = function(2 * np.pi * turns.astype(np.float64)).astype(x.dtype)
        return result

    return apply


_fast_sine, _fast_cosine = _turned(np.sin), _turned(np.cos)


def _fast_power(x: Array, y: Array) -> Array:
    """PTX `ex2.approx` of a product with `lg2.approx`, each in float32."""
    result: Array = np.exp2(y * np.log2(x))
    return result


def _fused(x: Array, y: Array, z: Array) -> Array:
    result: Array = (x.astype(np.float64) * y + z).astype(z.dtype)
    return result


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "dadd_rn": np.add,
    "ddiv_rn": np.divide,
    "dmul_rn": np.multiply,
    "drcp_rn": np.reciprocal,
    "dsqrt_rn": np.sqrt,
    "dsub_rn": np.subtract,
    "erf": erf,
    "erfc": _torch(torch.special.erfc),
    "erfinv": _torch(torch.special.erfinv),
    "exp": np.exp,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fabs": np.abs,
    "fadd_rn": np.add,
    "fast_cosf": _fast_cosine,
    "fast_exp10f": lambda x: np.power(x.dtype.type(10), x),
    "fast_expf": np.exp,
    "fast_fdividef": np.divide,
    "fast_log10f": np.log10,
    "fast_log2f": np.log2,
    "fast_logf": np.log,
    "fast_powf": _fast_power,
    "fast_sinf": _fast_sine,
    "fast_tanf": lambda x: _fast_sine(x) / _fast_cosine(x),
    "fdim": lambda x, y: np.fmax(x - y, 0),
    "fdiv_rn": np.divide,
    "finitef": np.isfinite,
    "floor": np.floor,
    "fma": _fused,
    "fma_rn": _fused,
    "fmaf_rn": _fused,
    "fmod": np.fmod,
    "fmul_rn": np.multiply,
    "frcp_rn": np.reciprocal,
    "frsqrt_rn": lambda x: 1 / np.sqrt(x),
    "fsqrt_rn": np.sqrt,
    "fsub_rn": np.subtract,
    "hypot": np.hypot,
    "isfinited": np.isfinite,
    "isinfd": np.isinf,
    "isinff": np.isinf,
    "isnand": np.isnan,
    "isnanf": np.isnan,
    "lgamma": _torch(torch.special.gammaln),
    "llabs": np.abs,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "nextafter": np.nextafter,
    "normcdf": _torch(torch.special.ndtr),
    "pow": np.power,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "remainder": lambda x, y: x - np.rint(x / y) * y,
    "rint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "saturatef": lambda x: np.clip(np.nan_to_num(x, nan=0.0), 0, 1),
    "signbitd": np.signbit,
    "signbitf": np.signbit,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
"""By libdevice symbol without the `__nv_` prefix; most float32 variants add an `f`."""


def function_of(symbol: str) -> Callable[..., Array] | None:
    """The function for a symbol such as `__nv_tanhf`; None for one that is not in the table."""
    name = symbol.removeprefix("__nv_")
    return FUNCTIONS.get(name) or FUNCTIONS.get(name.removesuffix("f"))
