"""Interval arithmetic on the least and the largest lane of a block, for many programs at once."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[Any]


class Span(Struct, frozen=True):
    """The range of a value in every tracked program: its least and its largest lane."""

    low: Array
    high: Array
    loose: bool = False
    """What lies between the ends is not spread as in other programs whose ends are as far apart."""

    @property
    def exact(self) -> bool:
        """Whether all lanes agree, in every program."""
        return self.low is self.high


def exact(values: Array) -> Span:
    """A value whose lanes agree in every program."""
    return Span(values, values)


def signed(values: Array) -> Array:
    """int64 or wider, so that a sum of interval ends does not wrap."""
    return values if values.dtype.kind == "f" else values.astype(np.int64)


def towards_zero(left: Array, right: Array) -> Array:
    """Quotients rounded toward zero, as in C."""
    result: Array = (left - np.fmod(left, right)) // right
    return result


def compared(left: Span, right: Span, op: Callable[..., Array]) -> Span:
    """Whether a comparison is true in all lanes (`low`), and whether it may be in any (`high`)."""
    apart = (left.high < right.low) | (left.low > right.high)
    same = (left.low == left.high) & (right.low == right.high) & (left.low == right.low)
    if op is np.equal:
        return Span(same, ~apart)
    if op is np.not_equal:
        return Span(apart, ~same)
    if op in (np.greater, np.greater_equal):
        left, right = right, left
        op = np.less if op is np.greater else np.less_equal
    return Span(op(left.high, right.low), op(left.low, right.high))


def _sum(left: Span, right: Span) -> Span:
    return Span(signed(left.low) + signed(right.low), signed(left.high) + signed(right.high))


def _difference(left: Span, right: Span) -> Span:
    return Span(signed(left.low) - signed(right.high), signed(left.high) - signed(right.low))


def _product(left: Span, right: Span) -> Span:
    ends = [signed(a) * signed(b) for a in (left.low, left.high) for b in (right.low, right.high)]
    loose = not (left.exact or right.exact)
    return Span(functools.reduce(np.minimum, ends), functools.reduce(np.maximum, ends), loose)


def _shifted(left: Span, right: Span) -> Span | None:
    return Span(left.low << right.low, left.high << right.low) if right.exact else None


def _halved(left: Span, right: Span) -> Span | None:
    return _stepped(left.low >> right.low, left.high >> right.low) if right.exact else None


def _quotient(left: Span, right: Span) -> Span | None:
    if not right.exact or np.any(right.low <= 0) or left.low.dtype.kind == "f":
        return None
    return _stepped(towards_zero(left.low, right.low), towards_zero(left.high, right.low))


def _stepped(low: Array, high: Array) -> Span:
    """Quotients: which lane begins the next one depends on the program."""
    return Span(low, high, bool((low != high).any()))


def _remainder(left: Span, right: Span) -> Span | None:
    if not right.exact or np.any(right.low <= 0) or np.any(left.low < 0):
        return None
    inside = left.low // right.low == left.high // right.low
    low = np.where(inside, np.fmod(left.low, right.low), 0)
    high = np.where(inside, np.fmod(left.high, right.low), right.low - 1)
    return Span(low, high, not bool(inside.all()))


def _least(left: Span, right: Span) -> Span:
    loose = not (left.exact or right.exact)
    return Span(np.minimum(left.low, right.low), np.minimum(left.high, right.high), loose)


def _most(left: Span, right: Span) -> Span:
    loose = not (left.exact or right.exact)
    return Span(np.maximum(left.low, right.low), np.maximum(left.high, right.high), loose)


def _both(left: Span, right: Span) -> Span | None:
    truths = left.low.dtype == np.bool_ and right.low.dtype == np.bool_
    return Span(left.low & right.low, left.high & right.high) if truths else None


def _any(left: Span, right: Span) -> Span | None:
    truths = left.low.dtype == np.bool_ and right.low.dtype == np.bool_
    return Span(left.low | right.low, left.high | right.high) if truths else None


INTERVALS: dict[Any, Callable[[Span, Span], Span | None]] = {
    np.add: _sum,
    np.subtract: _difference,
    np.multiply: _product,
    np.left_shift: _shifted,
    np.right_shift: _halved,
    towards_zero: _quotient,
    np.fmod: _remainder,
    np.minimum: _least,
    np.maximum: _most,
    np.bitwise_and: _both,
    np.bitwise_or: _any,
}
"""By the numpy function that is applied lane by lane; None where the ends do not tell."""
