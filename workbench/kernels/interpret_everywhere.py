"""The interpreter's operations, evaluated on intervals for every program of a launch at once."""

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime.interpreter import TensorDescHandle, TensorHandle

from workbench.kernels.everywhere import UNKNOWN, Everywhere, Spread
from workbench.kernels.interpret_builder import TracedBuilder, mask_of
from workbench.kernels.interpret_numbers import narrow, widen
from workbench.kernels.intervals import INTERVALS, Span, compared, exact, signed, towards_zero
from workbench.kernels.trace_launch import LaunchWatch
from workbench.kernels.trace_memory import region_of
from workbench.kernels.untyped import Untyped

Array = NDArray[Any]

COMPARISONS = {
    *(np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal),
}
_CHOICES = {np.minimum, np.maximum, np.fmin, np.fmax}


def spread_of(handle: object) -> Spread:
    """How a value varies over the programs of the launch."""
    return getattr(handle, "spread", None)


class EverywhereBuilder(TracedBuilder):
    """The builder that also computes every value for all other programs of the launch."""

    everywhere: Everywhere

    def create_get_program_id(self, axis: int) -> TensorHandle:
        """Where programs begin to differ."""
        made = super().create_get_program_id(axis)
        return with_spread(made, exact(self.everywhere.axes[axis].astype(np.int32)))

    def decided(self, handle: TensorHandle) -> None:
        """Python asks for a value: programs with another value take another path."""
        spread = spread_of(handle)
        if isinstance(spread, Span):
            self.everywhere.part(spread.low)

    def trips(self, start: Untyped, stop: Untyped, step: Untyped) -> Span | None:
        """Programs whose loop has another trip count take another path; returns the loop variable's
        start.

        None where the loop is the same in every program, or depends on data.
        """
        handles = [_handle_of(value) for value in (start, stop, step)]
        spans = [_span(handle) for handle in handles]
        if not _either(*handles) or None in spans:
            return None
        low, high, by = (span.low.astype(np.int64) for span in spans if span is not None)
        if np.any(by == 0):
            return None
        self.everywhere.part(self._wide(np.maximum(-((low - high) // by), 0)))
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
        spans = _span(ptr), _span(offset)
        if not _either(ptr, offset) or None in spans or not self.everywhere.following:
            return with_spread(made, UNKNOWN) if _either(ptr, offset) else made
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
        return with_spread(made, Span(spread.low.astype(dtype), spread.high.astype(dtype)))

    def create_select(self, cond: TensorHandle, lhs: TensorHandle, rhs: TensorHandle) -> Untyped:
        """`where`."""
        made = super().create_select(cond, lhs, rhs)
        if not _either(cond, lhs, rhs):
            return made
        spans = [_span(one) for one in (cond, lhs, rhs)]
        if None in spans or not self.everywhere.following:
            return self.lost(made, (lhs, rhs), spoiled=True)
        which, yes, no = (span for span in spans if span is not None)
        low = np.where(
            which.low, yes.low, np.where(which.high, np.minimum(yes.low, no.low), no.low)
        )
        if which.exact and yes.exact and no.exact:
            return with_spread(made, exact(self._wide(low)))
        most = np.maximum(yes.high, no.high)
        high = np.where(which.low, yes.high, np.where(which.high, most, no.high))
        return with_spread(made, Span(self._wide(low), self._wide(high)))

    # -- memory

    def create_masked_load(
        self, ptrs: TensorHandle, mask: Untyped, other: Untyped, *rest: Untyped, **named: Untyped
    ) -> TensorHandle:
        """A loaded value is data."""
        address = self._address(ptrs)
        self.everywhere.accessed(address)
        made = super().create_masked_load(ptrs, mask, other, *rest, **named)
        return with_spread(made, self._read(address, ptrs, made))

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
        return exact(self._wide(_widened(numbers, made.dtype)))

    def create_masked_store(
        self, ptrs: TensorHandle, value: TensorHandle, mask: Untyped, *rest: Untyped
    ) -> TensorHandle | None:
        """A stored value, if it depends on the program only, is part of the path."""
        self.everywhere.accessed(self._address(ptrs), _lanes(ptrs, mask), _place(ptrs))
        spread = spread_of(value)
        if isinstance(spread, Span):
            self.everywhere.part_by(spread)
        return super().create_masked_store(ptrs, value, mask, *rest)

    def create_atomic_rmw(
        self, op: Untyped, ptr: TensorHandle, val: TensorHandle, mask: Untyped, *rest: Untyped
    ) -> TensorHandle:
        """Like a store; the returned value is data."""
        self.everywhere.accessed(self._address(ptr), _lanes(ptr, mask), _place(ptr))
        return with_spread(super().create_atomic_rmw(op, ptr, val, mask, *rest), UNKNOWN)

    def create_atomic_cas(self, ptr: TensorHandle, *rest: Untyped) -> TensorHandle:
        """Like a store."""
        lanes = np.ones(ptr.data.shape, dtype=np.bool_)
        self.everywhere.accessed(self._address(ptr), lanes, _place(ptr))
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
        spans = [_span(one) if isinstance(one, TensorHandle) else None for one in handles]
        known = [span.low.astype(np.int64) for span in spans if span is not None and span.exact]
        if len(known) < len(handles):
            return UNKNOWN
        count = len(block.shape)
        place: Array = known[-1]
        for axis, lanes in enumerate(block.block_shape):
            at, size, stride = known[axis], known[count + axis], known[2 * count + axis]
            self.everywhere.part(self._wide(np.clip(size - at, 0, int(lanes))))
            self.everywhere.part(self._wide(np.clip(at, -int(lanes), 0)))
            place = place + width * at * stride
        return exact(self._wide(place)) if place.size > 1 else None

    # -- the rules

    def lifted(self, operation: Untyped, made: Untyped, args: Untyped, named: Untyped) -> Spread:
        """An operation applied to every program's value; None where an operand has none."""
        spreads = [spread_of(one) for one in handles_in(args)]
        if not isinstance(made, TensorHandle) or UNKNOWN in spreads or not any(spreads):
            return None
        if not all(span is not None and span.exact for span in map(_span, handles_in(args))):
            return None
        if not self.everywhere.following:
            return None
        watch, self.watch = self.watch, _UNWATCHED
        try:
            every = operation(self, *self._in_all(args), **named)
        except (TypeError, ValueError, ArithmeticError, NotImplementedError):
            return None
        finally:
            self.watch = watch
        numbers = every.data.reshape(-1)
        if numbers.shape != self.everywhere.axes[0].shape:
            return None
        return exact(_widened(numbers, every.dtype))

    def _in_all(self, args: Untyped) -> list[Untyped]:
        """Operands with one lane per program."""
        given: list[Untyped] = []
        for arg in args:
            if isinstance(arg, list | tuple):
                given.append(self._in_all(arg))
            elif not isinstance(arg, TensorHandle):
                given.append(arg)
            else:
                span = _span(arg)
                numbers = self._wide(arg.data.reshape(-1)[:1] if span is None else span.low)
                if arg.dtype.scalar == tl.bfloat16:
                    numbers = narrow(numbers.astype(np.float32))
                given.append(TensorHandle(numbers.astype(arg.data.dtype), arg.dtype))
        return given

    def reduced(self, combine: str, inputs: Untyped, results: Untyped) -> None:
        """Sums and extremes of values that depend on program ids alone; all else is data."""
        handles = [tensor.handle for tensor in inputs]
        if not _either(*handles):
            return
        span = _span(handles[0])
        if span is None or len(results) > 1 or combine not in _REDUCTIONS:
            for result in results:
                self.lost(result.handle, handles)
            return
        self.everywhere.part_by(span)
        # Exact for evenly spaced lanes; for others at least different between programs.
        lanes = handles[0].data.size // max(results[0].handle.data.size, 1)
        values = _REDUCTIONS[combine](span, lanes)
        with_spread(results[0].handle, exact(self._wide(values)))

    def _followed(
        self, made: TensorHandle, operands: tuple[TensorHandle, TensorHandle], op: Untyped
    ) -> TensorHandle:
        if not _either(*operands):
            return made
        if UNKNOWN in (spread_of(operands[0]), spread_of(operands[1])):
            return self.lost(made, operands)
        left, right = (_span(one) for one in operands)
        rule = INTERVALS.get(op)
        if left is None or right is None or not self.everywhere.following:
            return self.lost(made, operands)
        if left.exact and right.exact:
            span = self._exactly(made, left, right, op)
        elif op in COMPARISONS:
            span = compared(left, right, op)
        elif rule is not None and (found := rule(left, right)) is not None:
            span = found
        else:
            return self.lost(made, operands)
        if op in COMPARISONS:
            sides = [Span(self._wide(s.low), self._wide(s.high)) for s in (left, right)]
            self.everywhere.compared(sides[0], sides[1], span)
        elif op in _CHOICES and left.exact and right.exact:
            self.everywhere.chosen(left.low, right.low)
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
        return np.broadcast_to(values, self.everywhere.axes[0].shape)

    def lost(self, made: Untyped, operands: Untyped, *, spoiled: bool = False) -> Untyped:
        """Combined with data a value becomes data; programs that combine another value take another
        path.
        """
        of_ids = [isinstance(spread_of(operand), Span) for operand in operands]
        data = spoiled or any(spread_of(operand) is UNKNOWN for operand in operands)
        self.everywhere.blind |= any(of_ids) and not data
        for operand in operands:
            spread = spread_of(operand)
            if isinstance(spread, Span):
                self.everywhere.part_by(spread)
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


def _widened(data: Array, kind: Untyped) -> Array:
    """Values in the type they are computed in: bfloat16 is held as bit patterns."""
    return widen(data) if kind.scalar == tl.bfloat16 and data.dtype == np.uint16 else data


def _handle_of(value: Untyped) -> Untyped:
    if isinstance(value, tl.tensor):
        return value.handle
    number = value.value if isinstance(value, tl.constexpr) else value
    return TensorHandle(np.array([number], dtype=np.int64), tl.int64)


def with_spread(handle: Untyped, spread: Spread) -> Untyped:
    """The value together with how it varies over the programs."""
    handle.spread = spread
    return handle


def _either(*handles: TensorHandle) -> bool:
    return any(spread_of(one) is not None for one in handles)


def _span(handle: TensorHandle) -> Span | None:
    """The range of a value in every program, also of one that is the same in all; None for data."""
    spread = spread_of(handle)
    if isinstance(spread, Span):
        return spread
    data = handle.data
    if spread is not None or not data.size:
        return None
    data = _widened(data, handle.dtype)
    if data.size == 1:
        return exact(data.reshape(-1))
    known: Span | None = getattr(handle, "lanes", None)
    if known is None:
        low, high = (
            ends.reshape(-1) for ends in (data.min(keepdims=True), data.max(keepdims=True))
        )
        known = exact(low) if low[0] == high[0] else Span(low, high)
        handle.lanes = known  # remembered: blocks are asked often
    return known


_REDUCTIONS: dict[str, Untyped] = {
    "_sum_combine": lambda span, lanes: (signed(span.low) + signed(span.high)) * lanes // 2,
    "_elementwise_max": lambda span, _: span.high,
    "_elementwise_min": lambda span, _: span.low,
}
_UNWATCHED = LaunchWatch("", [], line=0, counting=False, raising=False)
"""A watch for operations that are repeated for other programs: counts nothing."""


def handles_in(args: Untyped) -> Iterator[TensorHandle]:
    """The interpreter values among an operation's arguments."""
    for arg in args:
        if isinstance(arg, TensorHandle):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from handles_in(arg)
