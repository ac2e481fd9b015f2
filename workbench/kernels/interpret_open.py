"""Results that the language leaves open: here none is what a kernel may have hoped for.

A GPU gives one that depends on layouts, or on what other programs do meanwhile; the interpreter's
plain numpy would always give the orderly one, and a kernel that relies on it would look right.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from triton._C.libtriton.ir import ATOMIC_OP
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from workbench.kernels.faults import CannotJudge
from workbench.kernels.trace_launch import LaunchWatch, Sight, candidate_line
from workbench.kernels.untyped import Untyped

Array = NDArray[Any]


class OpenBuilder(InterpreterBuilder):  # type: ignore[misc]  # triton is untyped
    """Operations whose results triton does not define in every case."""

    watch: LaunchWatch

    def create_reshape(self, arg: TensorHandle, shape: Untyped, allow_reorder: bool) -> Untyped:
        """With `can_reorder` the compiler may put elements in any order."""
        data = _reordered(arg.data) if allow_reorder else arg.data
        return TensorHandle(data.reshape(shape), arg.dtype.scalar)

    def create_cat(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        """Only reached with `can_reorder`."""
        both = np.concatenate([lhs.data, rhs.data])
        return TensorHandle(_reordered(both), lhs.dtype.scalar)

    def create_gather(self, src: TensorHandle, indices: TensorHandle, axis: int) -> TensorHandle:
        """An index outside of the block reads whatever lies there: NaN, or the largest integer."""
        size = src.data.shape[axis]
        wide = indices.data.astype(np.int64)
        inside = (wide >= 0) & (wide < size)
        picked = np.take_along_axis(src.data, np.where(inside, wide, 0), axis=axis)
        return TensorHandle(np.where(inside, picked, _anything(picked.dtype)), src.dtype.scalar)

    def create_atomic_load(
        self, ptr: TensorHandle, mask: TensorHandle, *rest: Untyped
    ) -> TensorHandle:
        """A load that shows what other programs have stored, as an atomic update does."""
        self.watch.sight = sight_of(rest)
        self.watch.access("atomic", ptr, mask.data)
        return super().create_atomic_load(ptr, mask, *rest)

    def create_atomic_poll(self, *_: Untyped) -> TensorHandle:
        """Refused: programs run one after the other, so it would wait for ever."""
        what = "tl.atomic_poll, which waits for other programs"
        raise CannotJudge(what, kernel=self.watch.kernel, line=candidate_line())

    def create_atomic_rmw(
        self, op: Untyped, ptr: TensorHandle, val: TensorHandle, *rest: Untyped
    ) -> TensorHandle:
        """Floats are exchanged as bits: triton's interpreter exchanges integers alone."""
        data = val.data
        if op != ATOMIC_OP.XCHG or data.dtype.kind != "f":
            return super().create_atomic_rmw(op, ptr, val, *rest)
        bits = np.ascontiguousarray(data).view(f"i{data.itemsize}")
        made = super().create_atomic_rmw(op, ptr, TensorHandle(bits, val.dtype), *rest)
        return TensorHandle(made.data.view(data.dtype), val.dtype.scalar)


def one_of_equals(equal: Array, axis: int) -> Array:
    """The place along `axis` of a true element, neither the first nor the last of three or more;
    the second of two.
    """
    wanted = equal.sum(axis=axis, keepdims=True) // 2 + 1
    place: Array = np.argmax(equal.cumsum(axis=axis) == wanted, axis=axis)
    return place


def sight_of(rest: tuple[Untyped, ...]) -> Sight:
    """What an atomic with these last two arguments, its semantics and its scope, shows of the
    stores of other programs (PTX ISA, memory consistency model).
    """
    meaning, scope = (str(one).rsplit(".", 1)[-1] for one in rest[-2:])
    if scope == "CTA":
        return Sight.NOTHING
    return Sight.EVERYTHING if "ACQUIRE" in meaning else Sight.ADDRESS


def _reordered(data: Array) -> Array:
    """The elements in an order that depends on their number alone, so that two blocks of one size
    still belong together.
    """
    order = np.random.default_rng(data.size).permutation(data.size)
    return data.reshape(-1)[order].reshape(data.shape)


def _anything(dtype: np.dtype[Any]) -> Untyped:
    """What no kernel hopes for; as bits of a bfloat16 or fp8 it is NaN."""
    if dtype.kind == "f":
        return dtype.type(np.nan)
    return True if dtype.kind == "b" else np.iinfo(dtype).max
