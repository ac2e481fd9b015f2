"""Reductions and scans in the interpreter: pairwise by halves, each step rounded to the type."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import ReduceOps, ScanOps, TensorHandle

from workbench.kernels.interpret_numbers import narrow, rounded_tree_sum, widen
from workbench.kernels.interpret_open import one_of_equals
from workbench.kernels.trace_launch import is_library
from workbench.kernels.untyped import Untyped

Array = NDArray[Any]


class NeedsScalars(Exception):
    """A combine function branched on a block: it must be applied element by element."""


class _Wholesale:
    """Whether a combine function may run on whole blocks although it was written for scalars."""

    active = False


def block_truth(tensor: Untyped) -> bool:
    """What `bool(tensor)` means: a scalar's value; for a block, where triton's own code needs it,
    True.
    """
    data = tensor.handle.data
    if data.size == 1:
        triton_interpreter.interpreter_builder.decided(tensor.handle)
        return bool(data.reshape(-1)[0])
    if _Wholesale.active:
        raise NeedsScalars
    if is_library(sys._getframe(1).f_code.co_filename):  # noqa: SLF001 -- no public walk up
        return True
    raise ValueError("Boolean value of Tensor with more than one value is ambiguous")


def reduce(operation: ReduceOps, inputs: tuple[Untyped, ...]) -> Untyped:
    """Replacement of `ReduceOps.apply_impl`."""
    triton_interpreter.interpreter_builder.watch.reduction(inputs[0].handle.data.size)
    flat, axis = operation.unravel(inputs, operation.axis)
    known = _KNOWN_REDUCTIONS.get(_name(operation.combine_fn))
    results = known(flat, axis) if known is not None else _by_halves(operation, flat, axis)
    shape = inputs[0].handle.data.shape
    kept = [_kept(data, shape, operation) if operation.keep_dims else data for data in results]
    tensors = [operation.to_tensor(_scalar(d), t.dtype) for d, t in zip(kept, flat, strict=False)]
    builder = triton_interpreter.interpreter_builder
    builder.reduced(_name(operation.combine_fn), inputs, tensors)
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def scan(operation: ScanOps, inputs: tuple[Untyped, ...]) -> Untyped:
    """Replacement of `ScanOps.apply_impl`."""
    triton_interpreter.interpreter_builder.watch.reduction(inputs[0].handle.data.size)
    axis, backward = operation.axis, operation.reverse
    data = [_flip(t.handle.data, axis) if backward else t.handle.data for t in inputs]
    known = _KNOWN_SCANS.get(_name(operation.combine_fn))
    if known is not None:
        results: Sequence[Array] = [_scanned(known, data[0], inputs[0].dtype, axis)]
    else:
        results = _by_doubling(operation, data, inputs, axis)
    turned = [_flip(d, axis) if backward else d for d in results]
    tensors = [operation.to_tensor(d, t.dtype) for d, t in zip(turned, inputs, strict=True)]
    triton_interpreter.interpreter_builder.reduced("", inputs, tensors)
    return tensors


def _name(combine: Untyped) -> str:
    """The standard library's combine function of that identity; empty for a kernel's own."""
    standard = tl.standard
    return next((name for name in _STANDARD if getattr(standard, name, None) is combine), "")


def _values(tensor: Untyped) -> Array:
    data: Array = tensor.handle.data
    return widen(data) if tensor.dtype.scalar == tl.bfloat16 else data


def _stored(values: Array, dtype: Untyped) -> Array:
    return narrow(values) if dtype.scalar == tl.bfloat16 else values


def _sum(inputs: tuple[Untyped, ...], axis: int) -> list[Array]:
    tensor, dtype = inputs[0], inputs[0].dtype.scalar
    data = tensor.handle.data
    if dtype in (tl.bfloat16, tl.float16):
        return [rounded_tree_sum(data, axis, "bfloat16" if dtype == tl.bfloat16 else "float16")]
    return [np.sum(data, axis=axis, dtype=data.dtype if data.dtype != np.bool_ else None)]


def _extreme(pick: np.ufunc) -> Callable[[tuple[Untyped, ...], int], list[Array]]:
    """Maximum or minimum; NaN loses, as in PTX `max` and `min`."""

    def reduced(inputs: tuple[Untyped, ...], axis: int) -> list[Array]:
        return [_stored(pick.reduce(_values(inputs[0]), axis=axis), inputs[0].dtype)]

    return reduced


def _arg_extreme(sign: int, *, first: bool) -> Callable[[tuple[Untyped, ...], int], list[Array]]:
    """Value and index of the first or of any maximum (sign 1) or minimum (sign -1); NaN loses."""

    def reduced(inputs: tuple[Untyped, ...], axis: int) -> list[Array]:
        values, indices = _values(inputs[0]), inputs[1].handle.data
        worst = -sign * np.inf if values.dtype.kind == "f" else None
        ranked = values if worst is None else np.where(np.isnan(values), worst, values)
        found = (np.argmax if sign > 0 else np.argmin)(ranked, axis=axis)
        at = np.expand_dims(found, axis)
        if not first:
            equal = ranked == np.take_along_axis(ranked, at, axis)
            at = np.expand_dims(one_of_equals(equal, axis), axis)
        index = np.take_along_axis(indices, at, axis).squeeze(axis)
        value = np.take_along_axis(values, at, axis).squeeze(axis)
        return [_stored(value, inputs[0].dtype), index]

    return reduced


_KNOWN_REDUCTIONS: dict[str, Callable[[tuple[Untyped, ...], int], list[Array]]] = {
    "_sum_combine": _sum,
    "_elementwise_max": _extreme(np.fmax),
    "_elementwise_min": _extreme(np.fmin),
    "_argmax_combine_tie_break_left": _arg_extreme(1, first=True),
    "_argmax_combine_tie_break_fast": _arg_extreme(1, first=False),
    "_argmin_combine_tie_break_left": _arg_extreme(-1, first=True),
    "_argmin_combine_tie_break_fast": _arg_extreme(-1, first=False),
}
_KNOWN_SCANS: dict[str, Callable[..., Array]] = {
    "_sum_combine": np.cumsum,
    "_prod_combine": np.cumprod,
}
_STANDARD = (*_KNOWN_REDUCTIONS, "_prod_combine")


def _scanned(known: Callable[..., Array], data: Array, dtype: Untyped, axis: int) -> Array:
    if dtype.scalar == tl.bfloat16:
        return narrow(known(widen(data), axis=axis))
    return known(data, axis=axis, dtype=data.dtype)


def _by_halves(operation: ReduceOps, inputs: tuple[Untyped, ...], axis: int) -> list[Array]:
    """A tree reduction by halves: valid because the combine function is associative."""
    dtypes = [t.dtype for t in inputs]
    data = [np.moveaxis(t.handle.data, axis, 0) for t in inputs]
    try:
        while data[0].shape[0] > 1:
            half = data[0].shape[0] // 2
            left, right, rest = _split(data, half)
            joined = _combine(operation.combine_fn, left, right, dtypes)
            data = [np.concatenate([j, r]) for j, r in zip(joined, rest, strict=True)]
    except NeedsScalars:
        return _one_by_one(operation, inputs, axis)
    return [d[0] for d in data]


def _one_by_one(operation: ReduceOps, inputs: tuple[Untyped, ...], axis: int) -> list[Array]:
    """Triton's own reduction element by element, for combine functions with branches."""
    plain = ReduceOps(axis, operation.combine_fn, keep_dims=False)
    shape = np.delete(inputs[0].handle.data.shape, axis)
    return [t.handle.data.reshape(shape) for t in plain.generic_reduce(inputs)]


def _split(data: list[Array], half: int) -> tuple[list[Array], list[Array], list[Array]]:
    return (
        [d[:half] for d in data],
        [d[half : 2 * half] for d in data],
        [d[2 * half :] for d in data],
    )


def _by_doubling(
    operation: ScanOps, data: list[Array], inputs: tuple[Untyped, ...], axis: int
) -> list[Array]:
    """A scan after Hillis and Steele (1986): after step s every element combines the last 2^s."""
    dtypes = [t.dtype for t in inputs]
    running = [np.moveaxis(d, axis, 0) for d in data]
    length = running[0].shape[0]
    step = 1
    try:
        while step < length:
            joined = _combine(
                operation.combine_fn,
                [d[:-step] for d in running],
                [d[step:] for d in running],
                dtypes,
            )
            running = [np.concatenate([d[:step], j]) for d, j in zip(running, joined, strict=True)]
            step *= 2
    except NeedsScalars:
        tensors = tuple(operation.to_tensor(d, t) for d, t in zip(data, dtypes, strict=True))
        return [t.handle.data for t in operation.generic_scan(tensors)]
    return [np.moveaxis(d, 0, axis) for d in running]


def _combine(
    combine: Untyped, left: list[Array], right: list[Array], dtypes: list[Untyped]
) -> list[Array]:
    """One application of the kernel's combine function, on whole arrays."""
    shape = left[0].shape
    lanes = _power_of_two(left[0].size)
    args = [
        _block(d, lanes, t) for side in (left, right) for d, t in zip(side, dtypes, strict=True)
    ]
    before, _Wholesale.active = _Wholesale.active, True
    try:
        result = combine.fn(*args)
    finally:
        _Wholesale.active = before
    results = result if isinstance(result, tuple | list | tl.tuple) else (result,)
    return [_unblock(r, d, shape) for r, d in zip(results, left, strict=True)]


def _block(data: Array, lanes: int, dtype: Untyped) -> Untyped:
    """A one-dimensional block of power-of-two length, padded with its own elements."""
    flat = np.resize(data, lanes) if lanes != data.size else data.reshape(-1)
    return tl.core.tensor(TensorHandle(flat, dtype.scalar), tl.block_type(dtype, [lanes]))


def _unblock(result: Untyped, like: Array, shape: tuple[int, ...]) -> Array:
    data = result.handle.data if isinstance(result, tl.tensor) else np.asarray(result)
    size = int(np.prod(shape))
    return np.resize(data.astype(like.dtype, copy=False), size).reshape(shape)


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _kept(data: Array, shape: tuple[int, ...], operation: ReduceOps) -> Array:
    axes = tuple(range(len(shape))) if operation.axis is None else (operation.axis,)
    return np.expand_dims(data, axes)


def _scalar(data: Array) -> Untyped:
    return data if np.ndim(data) else data[()]


def _flip(data: Array, axis: int) -> Array:
    return np.ascontiguousarray(np.flip(data, axis))


def patch(scope: Untyped) -> None:
    """Install both in triton's interpreter; `scope` undoes it."""
    scope.set_attr(triton_interpreter.ReduceOps, "apply_impl", reduce)
    scope.set_attr(triton_interpreter.ScanOps, "apply_impl", scan)
    scope.set_attr(tl.core.tensor, "__bool__", block_truth)
