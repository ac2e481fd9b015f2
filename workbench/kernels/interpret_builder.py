"""The interpreter's operations: instrumented, and corrected where triton's are wrong or missing."""

import dataclasses
import inspect
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from workbench.kernels import interpret_numbers as numbers
from workbench.kernels.faults import CannotJudge
from workbench.kernels.interpret_fp8 import FP8, narrow_fp8, widen_fp8
from workbench.kernels.interpret_libdevice import erf, function_of
from workbench.kernels.interpret_open import OpenBuilder, sight_of
from workbench.kernels.trace_launch import LaunchWatch, ProbeDone, candidate_line
from workbench.kernels.trace_memory import ArgumentPointer, region_of
from workbench.kernels.untyped import Untyped

Array = NDArray[Any]

_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
_MUFU = {np.exp, np.exp2, np.log, np.log2, np.sqrt, np.sin, np.cos}
_COMPARING = {
    *(np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal),
    *(np.minimum, np.maximum, np.fmin, np.fmax),
}
"""Comparisons run on the integer pipe, at half the rate of fp32 arithmetic."""
_WRAPPING = {np.add, np.subtract, np.multiply}
_SHIFTS = (np.left_shift, np.right_shift)
_PIPES = {"fp16": "float16", "bf16": "bfloat16", "fp64": "float64", "int8": "int8"}


class TracedBuilder(OpenBuilder):
    """Triton's interpreter builder, instrumented with the launch's `watch`.

    bfloat16 is held as bit patterns and computed in float32, rounded after every operation, as the
    GPU does. fp8 is held likewise, and only converted: its arithmetic, whose sums a Hopper GPU
    keeps with fewer bits than fp32, is refused, and so are microscaled formats. Overflow checks,
    which only debug builds have, are left out.
    """

    watch: LaunchWatch

    def adapted(self) -> Untyped:
        """The options under which kernels are interpreted."""
        return dataclasses.replace(
            self.options, sanitize_overflow=False, allowed_dot_input_precisions=_PRECISIONS
        )

    def decided(self, handle: TensorHandle) -> None:
        """Python asks for a scalar's value, to branch on it or as a trip count."""

    def create_barrier(self) -> None:
        """All threads of a program reach a barrier together; the interpreter runs them as one."""
        self.watch.waited()

    def reduced(self, combine: str, inputs: Untyped, results: Untyped) -> None:
        """A hook: tensors were reduced or scanned by triton's function of that name, or a kernel's
        own.
        """

    # -- numbers

    def get_bf16(self, value: float) -> TensorHandle:
        """A bfloat16 constant; triton 3.6 has none."""
        return TensorHandle(numbers.narrow(np.array([value], dtype=np.float32)), tl.bfloat16)

    def get_all_ones_value(self, kind: Untyped) -> TensorHandle:
        """The operand of `~x`; triton 3.6 has none for unsigned integers."""
        scalar = kind.scalar
        if not scalar.is_int_unsigned() or scalar.primitive_bitwidth < 8:
            return super().get_all_ones_value(kind)
        width = np.dtype(f"u{scalar.primitive_bitwidth // 8}")
        return TensorHandle(np.full(1, np.iinfo(width).max, dtype=width), scalar)

    def binary_op(self, lhs: TensorHandle, rhs: TensorHandle, op: Untyped) -> TensorHandle:
        """Elementwise on two operands of one type; comparisons give int1."""
        kind = lhs.dtype.scalar
        left, right = lhs.data, rhs.data
        floating = kind.is_floating()
        elements = max(left.size, right.size)
        if not floating or op in _COMPARING:
            self.watch.integer(elements)
        else:
            self.watch.vector(elements)
        if floating:
            self._refuse_fp8(kind)
            if kind == tl.bfloat16:
                left, right = _float_of(lhs), _float_of(rhs)
            if op is np.divide:
                self.watch.special(elements)
        if op in _SHIFTS:
            self._refuse_wide_shift(left, right)
        if left.dtype == np.bool_ and right.dtype == np.bool_ and op in _WRAPPING:
            output = (op(left.astype(np.int8), right.astype(np.int8)) & 1).astype(np.bool_)
        else:
            output = op(left, right)
        if output.dtype == np.bool_:
            return TensorHandle(output, tl.int1)
        if floating and kind == tl.bfloat16:
            return TensorHandle(numbers.narrow(output), kind)
        return TensorHandle(_fitted(output, kind), kind)

    def unary_op(self, arg: TensorHandle, op: Untyped) -> TensorHandle:
        """Elementwise on one operand."""
        kind = arg.dtype.scalar
        if not kind.is_floating():
            return super().unary_op(arg, op)
        self._refuse_fp8(kind)
        (self.watch.special if op in _MUFU else self.watch.vector)(arg.data.size)
        return _handle(op(_float_of(arg)), kind)

    def create_rsqrt(self, arg: TensorHandle) -> TensorHandle:
        """1 / sqrt."""
        self.watch.special(arg.data.size)
        return _handle(1 / np.sqrt(_float_of(arg)), arg.dtype.scalar)

    def create_erf(self, arg: TensorHandle) -> TensorHandle:
        """Vectorized; counted as about twenty FMAs and one exponential."""
        self.watch.vector(20 * arg.data.size)
        self.watch.special(arg.data.size)
        return _handle(erf(_float_of(arg)), arg.dtype.scalar)

    def create_fma(self, x: TensorHandle, y: TensorHandle, z: TensorHandle) -> TensorHandle:
        """Rounded once: float64 holds the product of two float32 values exactly."""
        kind = z.dtype.scalar
        self._refuse_fp8(kind)
        self.watch.vector(2 * z.data.size)
        if kind == tl.float64:
            return super().create_fma(x, y, z)
        a, b, c = (_float_of(h).astype(np.float64) for h in (x, y, z))
        return _handle(a * b + c, kind)

    def create_clampf(
        self, arg: TensorHandle, low: TensorHandle, high: TensorHandle, propagate: Untyped
    ) -> TensorHandle:
        """NaN gives the lower bound unless the kernel asks to propagate it."""
        self.watch.vector(2 * arg.data.size)
        value, least, most = (_float_of(h) for h in (arg, low, high))
        if propagate == triton_interpreter._ir.PROPAGATE_NAN.NONE:  # noqa: SLF001 -- triton has no public name for it
            clamped = np.fmin(np.fmax(value, least), most)
        else:
            clamped = np.clip(value, least, most)
        return _handle(clamped, arg.dtype.scalar)

    def create_minnumf(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        """NaN loses; in triton 3.6 it wins."""
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        """NaN loses; in triton 3.6 it wins."""
        return self.binary_op(lhs, rhs, np.fmax)

    def create_ashr(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        """Arithmetic shift; triton 3.6 changes its operands in place."""
        copies = [TensorHandle(h.data, h.dtype) for h in (lhs, rhs)]
        return super().create_ashr(*copies)

    def create_umulhi(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        """High half of the unsigned product; triton 3.6 sign-extends the operands."""
        if lhs.data.dtype.itemsize != 4:
            return super().create_umulhi(lhs, rhs)
        wide = [np.ascontiguousarray(h.data).view(np.uint32).astype(np.uint64) for h in (lhs, rhs)]
        high = ((wide[0] * wide[1]) >> np.uint64(32)).astype(np.uint32)
        return TensorHandle(high.view(lhs.data.dtype), lhs.dtype.scalar)

    def cast_impl(self, src: TensorHandle, dst_type: Untyped) -> TensorHandle:
        """Every numeric conversion, rounding to nearest even."""
        return self._converted(src, dst_type, numbers.narrow, None)

    def create_fp_to_fp(
        self, src: TensorHandle, dst_type: Untyped, rounding_mode: Untyped
    ) -> TensorHandle:
        """A conversion between float types with its rounding mode."""
        toward_zero = getattr(triton_interpreter._ir.ROUNDING_MODE, "RTZ", None)  # noqa: SLF001 -- triton has no public name for it
        if rounding_mode is not None and rounding_mode == toward_zero:
            return self._converted(
                src, dst_type, numbers.narrow_toward_zero, numbers.half_toward_zero
            )
        return self._converted(src, dst_type, numbers.narrow, None)

    def _converted(
        self, src: TensorHandle, dst_type: Untyped, narrow: Untyped, half: Untyped
    ) -> TensorHandle:
        source, kind = src.dtype.scalar, dst_type.scalar
        if source == kind and src.data.dtype != np.bool_:
            return TensorHandle(src.data, kind)
        for one in (source, kind):
            if one.name not in FP8:
                self._refuse_fp8(one)
        self.watch.integer(src.data.size)
        data = _float_of(src)
        if kind.name in FP8:
            if half is not None:
                self._refuse_fp8(kind)
            return TensorHandle(narrow_fp8(data, kind.name), kind)
        if kind == tl.bfloat16:
            return TensorHandle(narrow(data), kind)
        if kind == tl.float16 and half is not None:
            return TensorHandle(half(data), kind)
        dtype = triton_interpreter._get_np_dtype(kind)  # noqa: SLF001 -- triton has no public name for it
        if data.dtype.kind == "f" and dtype.kind in "iu":
            return TensorHandle(numbers.to_integer(data, dtype), kind)
        return TensorHandle(data.astype(dtype), kind)

    def create_bitcast(self, src: TensorHandle, dst_type: Untyped) -> TensorHandle:
        """Reinterpret bits; a pointer still points into the same tensor."""
        result = super().create_bitcast(src, dst_type)
        region = region_of(src.dtype)
        if region is not None and result.dtype.is_ptr():
            result.dtype = ArgumentPointer(result.dtype, region)
        return result

    def ternary_op(
        self, lhs: TensorHandle, rhs: TensorHandle, other: TensorHandle, op: Untyped
    ) -> TensorHandle:
        """`where`; a choice between pointers into two tensors has no tensor for bounds checks."""
        result = super().ternary_op(lhs, rhs, other, op)
        if isinstance(other.dtype, ArgumentPointer) and region_of(rhs.dtype) is not (
            other.dtype.region
        ):
            result.dtype = tl.pointer_type(other.dtype.element_ty)
        return result

    def create_dot(
        self, a: TensorHandle, b: TensorHandle, d: TensorHandle, precision: Untyped, _most: int
    ) -> TensorHandle:
        """Matrix product plus accumulator, in the precision of the pipe that would run it."""
        kind = a.dtype.scalar
        self._refuse_fp8(kind)
        name = str(precision).rsplit(".", 1)[-1].lower()
        pipe = _PIPES.get(str(kind), f"float32/{name}")
        *batch, m, k = a.data.shape
        self.watch.dot(pipe, int(np.prod(batch, dtype=int)), (m, b.data.shape[-1], k))
        if kind in (tl.int8, tl.uint8):
            # float64 holds the sums exactly: 127 * 127 * K stays far below 2^53.
            product = np.matmul(a.data.astype(np.float64), b.data.astype(np.float64))
            return TensorHandle(d.data + product.astype(d.data.dtype), d.dtype.scalar)
        if kind == tl.float64:
            return TensorHandle(np.matmul(a.data, b.data) + d.data, d.dtype.scalar)
        left, right = (_float_of(h).astype(np.float32) for h in (a, b))
        if d.dtype.scalar == tl.float16:
            half = np.broadcast_to(d.data, (*batch, m, right.shape[-1]))
            return TensorHandle(numbers.dot_into_half(left, right, half), tl.float16)
        product32 = numbers.dot(left, right, name if kind == tl.float32 else "ieee")
        return TensorHandle(product32 + d.data, d.dtype.scalar)

    def create_dot_scaled(self, *_: Untyped) -> TensorHandle:
        """Refused: block scales and fp8 or fp4 operands are not emulated faithfully."""
        raise CannotJudge("tl.dot_scaled", kernel=self.watch.kernel, line=candidate_line())

    def create_histogram(self, data: TensorHandle, bins: int, mask: Untyped) -> TensorHandle:
        """Counts of the values 0 to bins - 1; others are dropped, as on the GPU."""
        values = data.data.reshape(-1)
        valid = (values >= 0) & (values < bins)
        if mask is not None:
            valid &= mask.data.reshape(-1)
        self.watch.reduction(values.size)
        counts = np.bincount(values[valid].astype(np.int64), minlength=bins)
        return TensorHandle(counts.astype(np.int32), tl.int32)

    def create_extern_elementwise(
        self,
        _lib: str,
        _path: str,
        symbol: str,
        args: list[TensorHandle],
        kind: Untyped,
        _pure: bool,
    ) -> TensorHandle:
        """A libdevice function."""
        function = function_of(symbol)
        if function is None:
            raise CannotJudge(
                f"libdevice's {symbol}", kernel=self.watch.kernel, line=candidate_line()
            )
        self.watch.special(args[0].data.size)
        self.watch.vector(10 * args[0].data.size)
        dtype = triton_interpreter._get_np_dtype(kind)  # noqa: SLF001 -- triton has no public name for it
        return TensorHandle(
            np.asarray(function(*(a.data for a in args))).astype(dtype), kind.scalar
        )

    def create_inline_asm(self, *_: Untyped) -> TensorHandle:
        """Refused: the interpreter cannot run PTX."""
        raise CannotJudge("inline assembly", kernel=self.watch.kernel, line=candidate_line())

    # -- memory

    def create_masked_load(
        self, ptrs: TensorHandle, mask: Untyped, other: Untyped, *rest: Untyped, **named: Untyped
    ) -> TensorHandle:
        """Checked, counted, then done; a probed program only shows addresses and reads zeros."""
        lit = mask_of(mask)
        if self.watch.probing:
            self.watch.begins(ptrs, lit)
            kind = ptrs.get_element_ty()
            dtype = triton_interpreter._get_np_dtype(kind)  # noqa: SLF001 -- triton has no public name for it
            return TensorHandle(np.zeros(ptrs.data.shape, dtype=dtype), kind)
        allowed = TensorHandle(self.watch.access("load", ptrs, lit), tl.int1)
        return super().create_masked_load(ptrs, allowed, other, *rest, **named)

    def create_masked_store(
        self, ptrs: TensorHandle, value: TensorHandle, mask: Untyped, *rest: Untyped
    ) -> TensorHandle | None:
        """Checked, counted, then done; a probed program stores nothing."""
        if self.watch.probing:
            return None
        allowed = TensorHandle(self.watch.access("store", ptrs, mask_of(mask)), tl.int1)
        return super().create_masked_store(ptrs, value, allowed, *rest)

    def create_atomic_rmw(
        self, op: Untyped, ptr: TensorHandle, val: TensorHandle, mask: Untyped, *rest: Untyped
    ) -> TensorHandle:
        """An atomic update; bfloat16 adds lane by lane, rounding each time."""
        if self.watch.probing:
            raise ProbeDone
        self.watch.sight = sight_of(rest)
        allowed = np.ascontiguousarray(self.watch.access("atomic", ptr, mask_of(mask)))
        kind = val.dtype.scalar
        if kind != tl.bfloat16:
            return super().create_atomic_rmw(op, ptr, val, TensorHandle(allowed, tl.int1), *rest)
        if op != triton_interpreter._ir.ATOMIC_OP.FADD:  # noqa: SLF001 -- triton has no public name for it
            raise CannotJudge(
                f"bfloat16 atomics but add ({op})", kernel=self.watch.kernel, line=candidate_line()
            )
        return self._add_bfloat16(ptr, val, allowed)

    def _add_bfloat16(self, ptr: TensorHandle, val: TensorHandle, mask: Array) -> TensorHandle:
        old = np.zeros(ptr.data.shape, dtype=np.uint16)
        for lane in map(tuple, np.argwhere(mask)):
            at = TensorHandle(ptr.data[lane].reshape(1), ptr.dtype)
            one = TensorHandle(np.ones(1, dtype=np.bool_), tl.int1)
            before = super().create_masked_load(at, one, None, None, None, *_SPARE)
            added = numbers.widen(before.data) + numbers.widen(val.data[lane])
            after = TensorHandle(numbers.narrow(added), tl.bfloat16)
            super().create_masked_store(at, after, one, None, *_SPARE)
            old[lane] = before.data[0]
        return TensorHandle(old, tl.bfloat16)

    def create_atomic_cas(self, ptr: TensorHandle, *rest: Untyped) -> TensorHandle:
        """Compare and swap, checked like any access."""
        if self.watch.probing:
            raise ProbeDone
        self.watch.sight = sight_of(rest)
        self.watch.access("atomic", ptr, np.ones(ptr.data.shape, dtype=np.bool_))
        return super().create_atomic_cas(ptr, *rest)

    def _refuse_wide_shift(self, values: Array, by: Array) -> None:
        """Refuse shifts by the width or more: undefined when compiled; CPU and GPU differ."""
        if bool(((by < 0) | (by >= 8 * values.dtype.itemsize)).any()):
            what = "a shift by more bits than a number has"
            raise CannotJudge(what, kernel=self.watch.kernel, line=candidate_line())

    def _refuse_fp8(self, kind: Untyped) -> None:
        if kind.is_fp8():
            raise CannotJudge(
                f"arithmetic on {kind}", kernel=self.watch.kernel, line=candidate_line()
            )


_STORE = inspect.signature(InterpreterBuilder.create_masked_store)
_SPARE: tuple[None, ...] = (None,) * (len(_STORE.parameters) - 5)
"""triton 3.6 passes cache modifier and eviction policy as two arguments, 3.9 as one."""


def _float_of(handle: TensorHandle) -> Array:
    """The values of a handle, bfloat16 and fp8 widened."""
    data: Array = handle.data
    if handle.dtype.scalar.name in FP8:
        return widen_fp8(data, handle.dtype.scalar.name)
    if handle.dtype.scalar == tl.bfloat16 and data.dtype == np.uint16:
        return numbers.widen(data)
    return data


def _handle(values: Array, kind: Untyped) -> TensorHandle:
    if kind == tl.bfloat16:
        return TensorHandle(numbers.narrow(values), kind)
    return TensorHandle(_fitted(values, kind), kind)


def _fitted(values: Array, kind: Untyped) -> Array:
    """The result in the type's own width, which numpy's promotion may have widened."""
    dtype = triton_interpreter._get_np_dtype(kind)  # noqa: SLF001 -- triton has no public name for it
    return values if values.dtype.itemsize <= dtype.itemsize else values.astype(dtype)


def mask_of(mask: Untyped) -> Array:
    """The lanes of a mask; block pointers and descriptors in triton 3.6 pass a bare array."""
    lanes: Array = mask.data if isinstance(mask, TensorHandle) else np.asarray(mask)
    return lanes
