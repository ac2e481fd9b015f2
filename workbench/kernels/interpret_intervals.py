"""The interpreter's operations, evaluated on intervals for every program of a launch at once."""

import ctypes
from typing import Any

import numpy as np
import triton.language as tl
from msgspec import structs
from numpy.typing import NDArray
from triton.runtime.interpreter import TensorDescHandle, TensorHandle

from workbench.kernels.interpret_builder import TracedBuilder, mask_of
from workbench.kernels.interpret_numbers import narrow, widen
from workbench.kernels.interpret_spreads import (
    any_varies,
    handle_of,
    handles_in,
    span_of,
    spread_of,
    widened,
    with_spread,
)
from workbench.kernels.intervals import INTERVALS, Span, compared, exact, signed, towards_zero
from workbench.kernels.path_coverage import UNKNOWN, PathCoverage, Spread
from workbench.kernels.trace_launch import LaunchWatch
from workbench.kernels.trace_memory import region_of
from workbench.kernels.untyped import Untyped

Array = NDArray[Any]

COMPARISONS = {
    *(np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal),
}
_CHOICES = {np.minimum, np.maximum, np.fmin, np.fmax}


class IntervalBuilder(TracedBuilder):
    """The builder that also computes every value for all other programs of the launch."""

    coverage: PathCoverage

    def create_get_program_id(self, axis: int) -> TensorHandle:
        """Where programs begin to differ."""
        made = super().create_get_program_id(axis)
        return with_spread(made, exact(self.coverage.axes[axis].astype(np.int32)))

    def decided(self, handle: TensorHandle) -> None:
        """Python asks for a value: programs with another value take another path."""
        spread = spread_of(handle)
        if isinstance(spread, Span):
            self.coverage.split_by(spread.low)

    def trips(self, start: Untyped, stop: Untyped, step: Untyped) -> Span | None:
        """Programs whose loop has another trip count take another path; returns the loop variable's
        start.

        None where the loop is the same in every program, or depends on data.
        """
        handles = [handle_of(value) for value in (start, stop, step)]
        spans = [span_of(handle) for handle in handles]
        if not any_varies(*handles) or None in spans:
            return None
        low, high, by = (span.low.astype(np.int64) for span in spans if span is not None)
        if np.any(by == 0):
            return None
        self.coverage.split_by(self._wide(np.maximum(-((low - high) // by), 0)))
        return exact(self._wide(low))

    # -- what is followed

    def binary_op(self, lhs: TensorHandle, rhs: TensorHandle, op: Untyped) -> TensorHandle:
        """Elementwise on two operands."""
        return self._followed(super().binary_op(lhs, rhs, op), (lhs, rhs), op)

    def create_idiv(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        """Rounded toward zero, as in C."""
        return self._followed(super().create_idiv(lhs, rhs), (lhs, rhs), towards_zero)

    def create_ashr(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        """Arithmetic shift."""
        return self._followed(super().create_ashr(lhs, rhs), (lhs, rhs), np.right_shift)

    def create_addptr(self, ptr: TensorHandle, offset: TensorHandle) -> TensorHandle:
        """Pointer plus element offset."""
        made = super().create_addptr(ptr, offset)
        spans = span_of(ptr), span_of(offset)
        if not any_varies(ptr, offset) or None in spans or not self.coverage.following:
            return with_spread(made, UNKNOWN) if any_varies(ptr, offset) else made
        width = max(1, ptr.get_element_ty().primitive_bitwidth // 8)
        base, moved = spans[0], spans[1]
        return with_spread(made, _added(base, moved, width))

    def cast_impl(self, src: TensorHandle, dst_type: Untyped) -> TensorHandle:
        """A conversion."""
        made = super().cast_impl(src, dst_type)
        spread = spread_of(src)
        if not isinstance(spread, Span):
            return self.lost(made, (src,))
        lifted = self.lifted(TracedBuilder.cast_impl, made, (src, dst_type), {})
        if lifted is not None or made.dtype.scalar == tl.bfloat16:
            return self.lost(made, (src,)) if lifted is None else with_spread(made, lifted)
        dtype = made.data.dtype
        ends = Span(spread.low.astype(dtype), spread.high.astype(dtype), spread.loose)
        return with_spread(made, ends)

    def create_select(self, cond: TensorHandle, lhs: TensorHandle, rhs: TensorHandle) -> Untyped:
        """`where`."""
        made = super().create_select(cond, lhs, rhs)
        if not any_varies(cond, lhs, rhs):
            return made
        spans = [span_of(one) for one in (cond, lhs, rhs)]
        if None in spans or not self.coverage.following:
            return self.lost(made, (lhs, rhs), spoiled=True)
        which, yes, no = (span for span in spans if span is not None)
        low = np.where(
            which.low, yes.low, np.where(which.high, np.minimum(yes.low, no.low), no.low)
        )
        if which.exact and yes.exact and no.exact:
            return with_spread(made, exact(self._wide(low)))
        most = np.maximum(yes.high, no.high)
        high = np.where(which.low, yes.high, np.where(which.high, most, no.high))
        loose = any(span.loose for span in spans if span is not None)
        loose |= not which.exact and not (yes.exact and no.exact)
        return with_spread(made, Span(self._wide(low), self._wide(high), loose))

    # -- memory

    def create_masked_load(
        self, ptrs: TensorHandle, mask: Untyped, other: Untyped, *rest: Untyped, **named: Untyped
    ) -> TensorHandle:
        """A loaded value is data."""
        address = self._address(ptrs)
        self.coverage.accessed(address)
        made = super().create_masked_load(ptrs, mask, other, *rest, **named)
        spread = self._read(address, ptrs, made)
        # Integers are made of ids more often than numbers are: a table, what a kernel left.
        self.coverage.blind |= spread is UNKNOWN and made.dtype.scalar.is_int()
        return with_spread(made, spread)

    def _read(self, address: Spread, ptrs: TensorHandle, made: TensorHandle) -> Spread:
        """One scalar per program, from memory that no kernel writes: an index or a length."""
        region = region_of(ptrs.dtype)
        if not isinstance(address, Span) or not address.exact or made.data.size > 1:
            return UNKNOWN
        if region is None or not self.watch.given(region.low):
            return UNKNOWN
        width = made.data.dtype.itemsize
        places = (address.low.astype(np.int64) - region.low) // width
        raw = (ctypes.c_uint8 * region.nbytes).from_address(region.low)
        held = np.frombuffer(memoryview(raw), dtype=made.data.dtype, count=region.nbytes // width)
        numbers = held[np.clip(places, 0, held.size - 1)]
        return exact(self._wide(widened(numbers, made.dtype)))

    def create_masked_store(
        self, ptrs: TensorHandle, value: TensorHandle, mask: Untyped, *rest: Untyped
    ) -> TensorHandle | None:
        """Where a program stores is part of its path."""
        self.coverage.accessed(self._address(ptrs), _lanes(ptrs, mask), _place(ptrs))
        self._kept(value)
        return super().create_masked_store(ptrs, value, mask, *rest)

    def _kept(self, value: TensorHandle) -> None:
        """A stored value that depends on the program is part of its path, and may be read again."""
        spread = spread_of(value)
        if isinstance(spread, Span):
            self.coverage.split_by_few(spread)
            self.coverage.blind = True

    def create_atomic_rmw(
        self, op: Untyped, ptr: TensorHandle, val: TensorHandle, mask: Untyped, *rest: Untyped
    ) -> TensorHandle:
        """Like a store; the returned value is data."""
        self.coverage.accessed(self._address(ptr), _lanes(ptr, mask), _place(ptr))
        self._kept(val)
        return with_spread(super().create_atomic_rmw(op, ptr, val, mask, *rest), UNKNOWN)

    def create_atomic_cas(self, ptr: TensorHandle, *rest: Untyped) -> TensorHandle:
        """Like a store."""
        lanes = np.ones(ptr.data.shape, dtype=np.bool_)
        self.coverage.accessed(self._address(ptr), lanes, _place(ptr))
        return with_spread(super().create_atomic_cas(ptr, *rest), UNKNOWN)

    _through: Spread = None
    """The address that a descriptor's indices compute, while the descriptor is in use."""
    _indirect = False

    def _address(self, ptrs: TensorHandle) -> Spread:
        """How a pointer varies over programs; descriptors and block pointers hold plain arrays."""
        return self._through if self._indirect else spread_of(ptrs)

    def indirect(self, access: Untyped, args: Untyped, named: Untyped) -> Untyped:
        """An access through a descriptor or a block pointer."""
        before = self._indirect, self._through
        self._indirect, self._through = True, self._described(args)
        try:
            return access(self, *args, **named)
        finally:
            self._indirect, self._through = before

    def _described(self, args: Untyped) -> Spread:
        """How the address of a descriptor access varies, relative to the tensor's base.

        UNKNOWN where the indices do not tell. Programs of which another part of the block lies
        inside the tensor take another path.
        """
        described = [one for one in args if isinstance(one, TensorDescHandle)]
        indices = [one for one in args if isinstance(one, list | tuple)]
        if len(described) != 1 or len(indices) != 1:
            return UNKNOWN
        block = described[0]
        width = max(1, block.base.get_element_ty().primitive_bitwidth // 8)
        handles = [*indices[0], *block.shape, *block.strides, block.base]
        spans = [span_of(one) if isinstance(one, TensorHandle) else None for one in handles]
        known = [span.low.astype(np.int64) for span in spans if span is not None and span.exact]
        if len(known) < len(handles):
            return UNKNOWN
        count = len(block.shape)
        place: Array = known[-1]
        for axis, lanes in enumerate(block.block_shape):
            at, size, stride = known[axis], known[count + axis], known[2 * count + axis]
            self.coverage.split_by(self._wide(np.clip(size - at, 0, int(lanes))))
            self.coverage.split_by(self._wide(np.clip(at, -int(lanes), 0)))
            place = place + width * at * stride
        return exact(self._wide(place)) if place.size > 1 else None

    # -- the rules

    def lifted(self, operation: Untyped, made: Untyped, args: Untyped, named: Untyped) -> Spread:
        """An operation applied to every program's value; None where an operand has none."""
        spreads = [spread_of(one) for one in handles_in(args)]
        if not isinstance(made, TensorHandle) or UNKNOWN in spreads or not any(spreads):
            return None
        if not all(span is not None and span.exact for span in map(span_of, handles_in(args))):
            return None
        if not self.coverage.following:
            return None
        watch, self.watch = self.watch, _UNWATCHED
        try:
            every = operation(self, *self._in_all(args), **named)
        except (TypeError, ValueError, ArithmeticError, NotImplementedError):
            return None
        finally:
            self.watch = watch
        numbers = every.data.reshape(-1)
        if numbers.shape != self.coverage.axes[0].shape:
            return None
        return exact(widened(numbers, every.dtype))

    def _in_all(self, args: Untyped) -> list[Untyped]:
        """Operands with one lane per program."""
        given: list[Untyped] = []
        for arg in args:
            if isinstance(arg, list | tuple):
                given.append(self._in_all(arg))
            elif not isinstance(arg, TensorHandle):
                given.append(arg)
            else:
                span = span_of(arg)
                numbers = self._wide(arg.data.reshape(-1)[:1] if span is None else span.low)
                if arg.dtype.scalar == tl.bfloat16:
                    numbers = narrow(numbers.astype(np.float32))
                given.append(TensorHandle(numbers.astype(arg.data.dtype), arg.dtype))
        return given

    def reduced(self, combine: str, inputs: Untyped, results: Untyped) -> None:
        """Sums and extremes of values that depend on program ids alone; all else is data."""
        handles = [tensor.handle for tensor in inputs]
        if not any_varies(*handles):
            return
        span = span_of(handles[0])
        if span is None or len(results) > 1 or combine not in _REDUCTIONS:
            for result in results:
                self.lost(result.handle, handles)
            return
        self.coverage.split_by_few(span)
        # Exact for evenly spaced lanes; for others at least different between programs.
        self.coverage.blind |= span.loose or not (span.exact or combine != "_sum_combine")
        lanes = handles[0].data.size // max(results[0].handle.data.size, 1)
        values = _REDUCTIONS[combine](span, lanes)
        with_spread(results[0].handle, exact(self._wide(values)))

    def _followed(
        self, made: TensorHandle, operands: tuple[TensorHandle, TensorHandle], op: Untyped
    ) -> TensorHandle:
        if not any_varies(*operands):
            return made
        if UNKNOWN in (spread_of(operands[0]), spread_of(operands[1])):
            return self.lost(made, operands)
        left, right = (span_of(one) for one in operands)
        rule = INTERVALS.get(op)
        if left is None or right is None or not self.coverage.following:
            return self.lost(made, operands)
        if left.exact and right.exact:
            span = self._exactly(made, left, right, op)
        elif op in COMPARISONS:
            span = compared(left, right, op)
        elif rule is not None and (found := rule(left, right)) is not None:
            span = structs.replace(found, loose=found.loose or left.loose or right.loose)
        else:
            return self.lost(made, operands)
        if op in COMPARISONS:
            sides = [Span(self._wide(s.low), self._wide(s.high), s.loose) for s in (left, right)]
            self.coverage.compared(sides[0], sides[1], span)
        elif op in _CHOICES and left.exact and right.exact:
            self.coverage.chosen(left.low, right.low)
        return with_spread(made, span)

    def _exactly(self, made: TensorHandle, left: Span, right: Span, op: Untyped) -> Span:
        """An operation applied to every program's value, in the operands' own width."""
        with np.errstate(all="ignore"):
            values = self._wide(np.asarray(op(left.low, right.low)))
        if values.dtype == np.bool_:
            return exact(values)
        if made.dtype.scalar == tl.bfloat16:
            return exact(widen(narrow(values.astype(np.float32))))
        return exact(values.astype(made.data.dtype))

    def _wide(self, values: Array) -> Array:
        return np.broadcast_to(values, self.coverage.axes[0].shape)

    def lost(self, made: Untyped, operands: Untyped, *, spoiled: bool = False) -> Untyped:
        """Combined with data a value becomes data; programs that combine another value take another
        path.
        """
        of_ids = [isinstance(spread_of(operand), Span) for operand in operands]
        self.coverage.blind |= any(of_ids)
        for operand in operands:
            spread = spread_of(operand)
            if isinstance(spread, Span):
                self.coverage.split_by_few(spread)
                spoiled = True
            spoiled |= spread is UNKNOWN
        return with_spread(made, UNKNOWN) if spoiled else made


def _place(ptrs: TensorHandle) -> int:
    """Address of the storage that a pointer points into; 0 if unknown."""
    region = region_of(ptrs.dtype)
    return 0 if region is None else int(region.low)


def _lanes(ptrs: TensorHandle, mask: Untyped) -> Array:
    return np.broadcast_to(mask_of(mask), ptrs.data.shape)


def _added(base: Span | None, moved: Span | None, width: int) -> Spread:
    if base is None or moved is None:
        return UNKNOWN
    low = signed(base.low) + width * signed(moved.low)
    if base.exact and moved.exact:
        return exact(low)
    return Span(low, signed(base.high) + width * signed(moved.high))


_REDUCTIONS: dict[str, Untyped] = {
    "_sum_combine": lambda span, lanes: (signed(span.low) + signed(span.high)) * lanes // 2,
    "_elementwise_max": lambda span, _: span.high,
    "_elementwise_min": lambda span, _: span.low,
}
_UNWATCHED = LaunchWatch("", [], line=0, counting=False, raising=False)
"""A watch for operations that are repeated for other programs: counts nothing."""
