"""How a value of the interpreter varies over the programs of a launch, kept beside the value."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime.interpreter import TensorHandle

from workbench.kernels.interpret_numbers import widen
from workbench.kernels.intervals import Span, exact
from workbench.kernels.path_coverage import Spread
from workbench.kernels.untyped import Untyped

Array = NDArray[Any]


def spread_of(handle: object) -> Spread:
    """How a value varies over the programs of the launch."""
    return getattr(handle, "spread", None)


def with_spread(handle: Untyped, spread: Spread) -> Untyped:
    """The value together with how it varies over the programs."""
    handle.spread = spread
    return handle


def widened(data: Array, kind: Untyped) -> Array:
    """Values in the type they are computed in: bfloat16 is held as bit patterns."""
    return widen(data) if kind.scalar == tl.bfloat16 and data.dtype == np.uint16 else data


def handle_of(value: Untyped) -> Untyped:
    """The interpreter's value of a tensor, a constant or a Python integer."""
    if isinstance(value, tl.tensor):
        return value.handle
    number = value.value if isinstance(value, tl.constexpr) else value
    return TensorHandle(np.array([number], dtype=np.int64), tl.int64)


def any_varies(*handles: TensorHandle) -> bool:
    """Whether one of the values differs between programs, or may."""
    return any(spread_of(one) is not None for one in handles)


def span_of(handle: TensorHandle) -> Span | None:
    """The range of a value in every program, also of one that is the same in all; None for data."""
    spread = spread_of(handle)
    if isinstance(spread, Span):
        return spread
    data = handle.data
    if spread is not None or not data.size:
        return None
    data = widened(data, handle.dtype)
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


def handles_in(args: Untyped) -> Iterator[TensorHandle]:
    """The interpreter values among an operation's arguments."""
    for arg in args:
        if isinstance(arg, TensorHandle):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from handles_in(arg)
