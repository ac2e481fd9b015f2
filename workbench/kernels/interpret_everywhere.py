"""The interpreter's operations, followed for every program of a launch at once."""

import contextlib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import TensorDescHandle, TensorHandle

from workbench.kernels.everywhere import UNKNOWN, Everywhere, Spread
from workbench.kernels.interpret_builder import TracedBuilder, mask_of
from workbench.kernels.intervals import INTERVALS, Span, compared, exact, signed, towards_zero
from workbench.kernels.untyped import Untyped

Array = NDArray[Any]

_COMPARISONS = {
    *(np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal),
}


def spread_of(handle: object) -> Spread:
    """How a value differs between programs."""
    return getattr(handle, "spread", None)


class EverywhereBuilder(TracedBuilder):
    """The builder while programs of a launch are told apart."""

    everywhere: Everywhere

    def create_get_program_id(self, axis: int) -> TensorHandle:
        """Where programs begin to differ."""
        made = super().create_get_program_id(axis)
        return _with(made, exact(self.everywhere.axes[axis].astype(np.int32)))

    def decided(self, handle: TensorHandle) -> None:
        """Python takes a value: programs with another one part."""
        spread = spread_of(handle)
        if isinstance(spread, Span):
            self.everywhere.part(spread.low)

    def trips(self, start: Untyped, stop: Untyped, step: Untyped) -> Span | None:
        """A loop's number of trips parts programs; its variable's first value everywhere.

        None where the loop is the same in every program, or rests on data.
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
        """Towards zero, as C divides."""
        return self._followed(super().create_idiv(lhs, rhs), (lhs, rhs), towards_zero)

    def create_ashr(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        """Arithmetic shift."""
        return self._followed(super().create_ashr(lhs, rhs), (lhs, rhs), np.right_shift)

    def create_addptr(self, ptr: TensorHandle, offset: TensorHandle) -> TensorHandle:
        """A pointer moved by so many elements."""
        made = super().create_addptr(ptr, offset)
        spans = _span(ptr), _span(offset)
        if not _either(ptr, offset) or None in spans or not self.everywhere.following:
            return _with(made, UNKNOWN) if _either(ptr, offset) else made
        width = max(1, ptr.get_element_ty().primitive_bitwidth // 8)
        base, moved = spans[0], spans[1]
        return _with(made, _added(base, moved, width))

    def cast_impl(self, src: TensorHandle, dst_type: Untyped) -> TensorHandle:
        """A conversion."""
        made = super().cast_impl(src, dst_type)
        spread = spread_of(src)
        if isinstance(spread, Span) and made.dtype != tl.bfloat16:
            low = spread.low.astype(made.data.dtype)
            span = exact(low) if spread.exact else Span(low, spread.high.astype(made.data.dtype))
            return _with(made, span)
        return self._lost(made, (src,))

    def create_select(self, cond: TensorHandle, lhs: TensorHandle, rhs: TensorHandle) -> Untyped:
        """`where`."""
        made = super().create_select(cond, lhs, rhs)
        if not _either(cond, lhs, rhs):
            return made
        spans = [_span(one) for one in (cond, lhs, rhs)]
        if None in spans or not self.everywhere.following:
            return self._lost(made, (lhs, rhs), spoiled=True)
        which, yes, no = (span for span in spans if span is not None)
        low = np.where(
            which.low, yes.low, np.where(which.high, np.minimum(yes.low, no.low), no.low)
        )
        if which.exact and yes.exact and no.exact:
            return _with(made, exact(self._wide(low)))
        most = np.maximum(yes.high, no.high)
        high = np.where(which.low, yes.high, np.where(which.high, most, no.high))
        return _with(made, Span(self._wide(low), self._wide(high)))

    # -- memory

    def create_masked_load(
        self, ptrs: TensorHandle, mask: Untyped, other: Untyped, *rest: Untyped, **named: Untyped
    ) -> TensorHandle:
        """What is loaded is data."""
        self.everywhere.accessed(self._address(ptrs))
        made = super().create_masked_load(ptrs, mask, other, *rest, **named)
        return _with(made, UNKNOWN)

    def create_masked_store(
        self, ptrs: TensorHandle, value: TensorHandle, mask: Untyped, *rest: Untyped
    ) -> TensorHandle | None:
        """A number that is stored decides what an output holds."""
        self.everywhere.accessed(self._address(ptrs), _lanes(ptrs, mask))
        spread = spread_of(value)
        if isinstance(spread, Span):
            self.everywhere.part_by(spread)
        return super().create_masked_store(ptrs, value, mask, *rest)

    def create_atomic_rmw(
        self, op: Untyped, ptr: TensorHandle, val: TensorHandle, mask: Untyped, *rest: Untyped
    ) -> TensorHandle:
        """As a store; what it gives back is data."""
        self.everywhere.accessed(self._address(ptr), _lanes(ptr, mask))
        return _with(super().create_atomic_rmw(op, ptr, val, mask, *rest), UNKNOWN)

    def create_atomic_cas(self, ptr: TensorHandle, *rest: Untyped) -> TensorHandle:
        """As a store."""
        self.everywhere.accessed(self._address(ptr), np.ones(ptr.data.shape, dtype=np.bool_))
        return _with(super().create_atomic_cas(ptr, *rest), UNKNOWN)

    _through: Spread = None
    """The address that a descriptor's indices make, while it is being used."""
    _indirect = False

    def _address(self, ptrs: TensorHandle) -> Spread:
        """A pointer's spread; what descriptors and block pointers move are plain arrays."""
        return self._through if self._indirect else spread_of(ptrs)

    def indirect(self, access: Untyped, args: Untyped, named: Untyped) -> Untyped:
        """An access through a descriptor or a block pointer."""
        before = self._indirect, self._through
        self._indirect, self._through = True, _described(args)
        try:
            return access(self, *args, **named)
        finally:
            self._indirect, self._through = before

    # -- the rules

    def _followed(
        self, made: TensorHandle, operands: tuple[TensorHandle, TensorHandle], op: Untyped
    ) -> TensorHandle:
        if not _either(*operands):
            return made
        if UNKNOWN in (spread_of(operands[0]), spread_of(operands[1])):
            return self._lost(made, operands)
        left, right = (_span(one) for one in operands)
        rule = INTERVALS.get(op)
        if left is None or right is None or not self.everywhere.following:
            return self._lost(made, operands)
        if left.exact and right.exact:
            span = self._exactly(made, left, right, op)
        elif op in _COMPARISONS:
            span = compared(left, right, op)
        elif rule is not None and (found := rule(left, right)) is not None:
            span = found
        else:
            return self._lost(made, operands)
        if op in _COMPARISONS:
            sides = [Span(self._wide(s.low), self._wide(s.high)) for s in (left, right)]
            self.everywhere.compared(sides[0], sides[1], span)
        elif op in (np.minimum, np.maximum, np.fmin, np.fmax):
            self._chosen(left, right)
        return _with(made, span)

    def _exactly(self, made: TensorHandle, left: Span, right: Span, op: Untyped) -> Span:
        """The same operation on every program's number, in the operands' own width."""
        with np.errstate(all="ignore"):
            values = self._wide(np.asarray(op(left.low, right.low)))
        return exact(values if values.dtype == np.bool_ else values.astype(made.data.dtype))

    def _chosen(self, left: Span, right: Span) -> None:
        """Which of two numbers is the smaller one decides like a comparison."""
        if left.exact and right.exact:
            self.everywhere.part(self._wide(np.asarray(left.low < right.low)))

    def _wide(self, values: Array) -> Array:
        return np.broadcast_to(values, self.everywhere.axes[0].shape)

    def _lost(self, made: Untyped, operands: Untyped, *, spoiled: bool = False) -> Untyped:
        """What meets data is data; a program's number that it meets decides what comes out."""
        for operand in operands:
            spread = spread_of(operand)
            if isinstance(spread, Span):
                self.everywhere.part_by(spread)
                spoiled = True
            spoiled |= spread is UNKNOWN
        return _with(made, UNKNOWN) if spoiled else made


def _lanes(ptrs: TensorHandle, mask: Untyped) -> Array:
    return np.broadcast_to(mask_of(mask), ptrs.data.shape)


def _added(base: Span | None, moved: Span | None, width: int) -> Spread:
    if base is None or moved is None:
        return UNKNOWN
    low = signed(base.low) + width * signed(moved.low)
    if base.exact and moved.exact:
        return exact(low)
    return Span(low, signed(base.high) + width * signed(moved.high))


def _described(args: Untyped) -> Spread:
    """The place, in elements, that a descriptor's indices name; UNKNOWN where they do not tell."""
    described = [one for one in args if isinstance(one, TensorDescHandle)]
    indices = [one for one in args if isinstance(one, list | tuple)]
    if len(described) != 1 or len(indices) != 1:
        return UNKNOWN
    place: Array = np.zeros(1, dtype=np.int64)
    for index, stride in zip(indices[0], described[0].strides, strict=True):
        span = _span(index) if isinstance(index, TensorHandle) else None
        if span is None or not span.exact:
            return UNKNOWN
        place = place + span.low.astype(np.int64) * int(stride.data.reshape(-1)[0])
    return exact(place) if place.size > 1 else None


def _handle_of(value: Untyped) -> Untyped:
    if isinstance(value, tl.tensor):
        return value.handle
    number = value.value if isinstance(value, tl.constexpr) else value
    return TensorHandle(np.array([number], dtype=np.int64), tl.int64)


def _with(handle: Untyped, spread: Spread) -> Untyped:
    handle.spread = spread
    return handle


def _either(*handles: TensorHandle) -> bool:
    return any(spread_of(one) is not None for one in handles)


def _span(handle: TensorHandle) -> Span | None:
    """A value's span, of one that is the same everywhere too; None for data."""
    spread = spread_of(handle)
    if isinstance(spread, Span):
        return spread
    data = handle.data
    if spread is not None or not data.size or handle.dtype.scalar == tl.bfloat16:
        return None
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


_SAME_LANES = ("splat", "broadcast", "expand_dims", "reshape", "trans", "unsplat")
"""Operations that move or repeat lanes."""


def _moving(name: str) -> Untyped:
    original = getattr(TracedBuilder, name)

    @functools.wraps(original)
    def moved(self: Untyped, *args: Untyped, **named: Untyped) -> Untyped:
        made = original(self, *args, **named)
        for spread in _spreads(args):
            made.spread = spread
        return made

    return moved


def _other(name: str) -> Untyped:
    original = getattr(TracedBuilder, name)

    @functools.wraps(original)
    def lost(self: EverywhereBuilder, *args: Untyped, **named: Untyped) -> Untyped:
        made = original(self, *args, **named)
        several = made if isinstance(made, tuple) else (made,)
        known = [one for one in several if isinstance(one, TensorHandle)]
        if known and spread_of(known[0]) is None:
            for one in known:
                self._lost(one, list(_handles(args)))
        return made

    return lost


_INDIRECT = frozenset(
    f"create_{kind}"
    for kind in (
        *("descriptor_load", "descriptor_store", "descriptor_gather", "descriptor_scatter"),
        *("tensor_pointer_load", "tensor_pointer_store"),
    )
)


def _indirectly(name: str) -> Untyped:
    original = getattr(TracedBuilder, name)

    @functools.wraps(original)
    def accessed(self: EverywhereBuilder, *args: Untyped, **named: Untyped) -> Untyped:
        return self.indirect(original, args, named)

    return accessed


def _handles(args: Untyped) -> Iterator[TensorHandle]:
    for arg in args:
        if isinstance(arg, TensorHandle):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from _handles(arg)


def _spreads(args: Untyped) -> Iterator[Spread]:
    return (spread_of(one) for one in _handles(args) if spread_of(one) is not None)


def _complete() -> None:
    """Every operation that has no rule above passes on that it was met by a program's number."""
    for name, _ in inspect.getmembers(TracedBuilder, inspect.isfunction):
        if not name.startswith("create_") or name in vars(EverywhereBuilder):
            continue
        make = _moving if name.removeprefix("create_") in _SAME_LANES else _other
        make = _indirectly if name in _INDIRECT else make
        setattr(EverywhereBuilder, name, make(name))


_complete()


@contextlib.contextmanager
def following(everywhere: Everywhere) -> Iterator[None]:
    """Tell the programs that run in the body from all others of their launch."""
    builder = triton_interpreter.interpreter_builder
    before = builder.__class__
    builder.__class__, builder.everywhere = EverywhereBuilder, everywhere
    try:
        yield
    finally:
        builder.__class__ = before
