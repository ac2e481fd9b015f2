"""Checks compiler hints such as `tl.multiple_of` and `tl.assume` against the actual values.

The compiler widens accesses where `tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy`
allow it. Where a hint is false the compiled kernel does something else than the interpreter.
"""

from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as triton_interpreter

from workbench.kernels.faults import CannotJudge
from workbench.kernels.trace_launch import candidate_line
from workbench.kernels.untyped import Untyped

Array = NDArray[Any]


def patch(scope: Untyped, module: Untyped) -> None:
    """Install the checks in a module of triton's; `scope` undoes it."""
    for name, (attribute, holds) in _HINTS.items():
        scope.set_attr(module, name, _checked(name, getattr(module, name), attribute, holds))


def _checked(name: str, hint: Untyped, attribute: str, holds: Untyped) -> Untyped:
    def checked(value: Untyped, values: Untyped, **_: object) -> Untyped:
        hinted = hint(value, values)
        # For pointers the hint is in bytes, and our addresses are not a GPU's.
        if not isinstance(value, tl.tensor) or value.dtype.is_ptr():
            return hinted
        numbers = value.handle.data
        told = [int(one) for one in value.handle.attr[attribute]]
        for axis, one in enumerate(told if numbers.size > 1 else told[:1]):
            along = np.moveaxis(numbers, axis, 0).astype(np.int64) if numbers.ndim else numbers
            if one > 1 and not holds(along.reshape(len(along), -1) if numbers.ndim else along, one):
                watch = triton_interpreter.interpreter_builder.watch
                what = f"a false tl.{name}, on which the compiled kernel relies"
                line = candidate_line()
                raise CannotJudge(what, kernel=watch.kernel, line=line, doubt="false-hint")
        return hinted

    return checked


def _multiples(numbers: Array, multiple: int) -> bool:
    """Whether every run of consecutive values starts at a multiple of `multiple`."""
    if numbers.ndim == 0 or len(numbers) == 1:
        return not bool((numbers.astype(np.int64) % multiple).any())
    begins = np.concatenate([np.ones_like(numbers[:1]), np.diff(numbers, axis=0) != 1])
    return not bool((numbers[begins.astype(np.bool_)] % multiple).any())


def _contiguous(numbers: Array, length: int) -> bool:
    """Whether groups of `length` lanes are consecutive; after a modulo they may restart."""
    steps = _steps(numbers, length)
    return bool(((steps == 1) | (steps < 0)).all())


def _constant(numbers: Array, length: int) -> bool:
    """Whether groups of `length` lanes are equal."""
    return not bool(_steps(numbers, length).any())


def _steps(numbers: Array, length: int) -> Array:
    """Differences between neighbours within groups of `length` along the first axis."""
    if numbers.ndim == 0 or len(numbers) < 2:
        return np.zeros(0, dtype=np.int64)
    length = min(length, len(numbers))
    groups = numbers[: len(numbers) // length * length].reshape(-1, length, numbers.shape[1])
    return np.diff(groups, axis=1)


_HINTS = {
    "multiple_of": ("tt.divisibility", _multiples),
    "max_contiguous": ("tt.contiguity", _contiguous),
    "max_constancy": ("tt.constancy", _constant),
}
