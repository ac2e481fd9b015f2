"""Which ways that rest on loaded numbers a kernel went: of one never gone, nothing was compared.

Conditions on program ids and sizes are the launch's; those on what floating-point tensors hold are
the data's, and a kernel may be right for all data that it was tried with and for no other.
"""

import contextlib
import functools
import inspect
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import TensorHandle

from workbench.kernels.faults import CannotJudge
from workbench.kernels.interpret_builder import TracedBuilder
from workbench.kernels.interpret_everywhere import COMPARISONS, handles_in
from workbench.kernels.records import Way
from workbench.kernels.trace_launch import candidate_line
from workbench.kernels.untyped import Untyped


class Ways:
    """What conditions on loaded numbers came out as, by their place, over any number of calls."""

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[str, int, bool], set[bool]] = defaultdict(set)

    def note(self, kernel: str, *truths: bool, branch: bool) -> None:
        """A condition at the line that runs came out so."""
        self._seen[kernel, candidate_line(), branch].update(truths)

    def one_sided(self) -> tuple[Way, ...]:
        """Those that came out one way only; of a branch its comparison is not told again."""
        branches = {(kernel, line) for kernel, line, branch in self._seen if branch}
        return tuple(
            Way(kernel=kernel, line=line, truth=next(iter(truths)), branch=branch)
            for (kernel, line, branch), truths in sorted(self._seen.items())
            if len(truths) == 1 and (branch or (kernel, line) not in branches)
        )


class _HeedingBuilder(TracedBuilder):
    """The builder while it is told apart what rests on loaded numbers."""

    ways: Ways

    def decided(self, handle: TensorHandle) -> None:
        """Python takes a truth."""
        if _loaded(handle) and handle.data.dtype.kind in "bf":
            self.ways.note(self.watch.kernel, bool(handle.data.reshape(-1)[0]), branch=True)

    def binary_op(self, lhs: TensorHandle, rhs: TensorHandle, op: Untyped) -> TensorHandle:
        """Elementwise on two operands; comparisons are noted."""
        made = _passed_on(super().binary_op(lhs, rhs, op), (lhs, rhs))
        if op in COMPARISONS and getattr(made, "rounded", False) and not _loaded(made):
            what = "a condition on what a GPU rounds in its own way (of no data)"
            raise CannotJudge(what, kernel=self.watch.kernel, line=candidate_line())
        if op in COMPARISONS and _loaded(made):
            truths = [truth for truth in (True, False) if np.any(made.data == truth)]
            self.ways.note(self.watch.kernel, *truths, branch=False)
        return made

    def create_masked_load(self, ptrs: TensorHandle, *rest: Untyped, **named: Untyped) -> Untyped:
        """Floating-point numbers are the judge's to choose; integers name places and lengths."""
        made = super().create_masked_load(ptrs, *rest, **named)
        made.loaded = ptrs.get_element_ty().is_floating()
        return made

    def reduced(self, combine: str, inputs: Untyped, results: Untyped) -> None:
        """A sum of loaded numbers is one."""
        super().reduced(combine, inputs, results)
        for result in results:
            _passed_on(result.handle, [tensor.handle for tensor in inputs])


def _loaded(handle: object) -> bool:
    return bool(getattr(handle, "loaded", False))


def _passed_on(made: Any, operands: Untyped) -> Any:  # noqa: ANN401 - whatever was made
    if isinstance(made, TensorHandle):
        if any(map(_loaded, operands)):
            made.loaded = True
        if any(getattr(one, "rounded", False) for one in operands):
            made.rounded = True
    return made


def _passing_on(name: str) -> Untyped:
    original = getattr(TracedBuilder, name)

    @functools.wraps(original)
    def passing(self: Untyped, *args: Untyped, **named: Untyped) -> Untyped:
        made = original(self, *args, **named)
        operands = list(handles_in(args))
        for one in made if isinstance(made, tuple) else (made,):
            _passed_on(one, operands)
            if name in _ROUNDED and isinstance(one, TensorHandle):
                one.rounded = True
        return made

    return passing


_ROUNDED = frozenset(
    f"create_{name}"
    for name in ("cos", "erf", "exp", "exp2", "extern_elementwise", "log", "log2", "rsqrt", "sin")
)
"""Operations whose last bits a GPU's units choose; a kernel could tell them from numpy's."""
_OTHERS = ("cast_impl", "ternary_op", "unary_op")
_NOT_LOADED = ("create_atomic_cas", "create_atomic_rmw")
"""What updates give back are tickets and flags."""


def _rules() -> dict[str, Untyped]:
    return {
        name: _passing_on(name)
        for name, _ in inspect.getmembers(TracedBuilder, inspect.isfunction)
        if (name.startswith("create_") or name in _OTHERS)
        and name not in vars(_HeedingBuilder)
        and name not in _NOT_LOADED
    }


HeedingBuilder: type[_HeedingBuilder] = type("HeedingBuilder", (_HeedingBuilder,), _rules())
"""The builder with a rule for every operation."""


@contextlib.contextmanager
def heeding(ways: Ways | None) -> Iterator[None]:
    """Note in `ways` what conditions on loaded numbers come out as; None: nothing is noted."""
    if ways is None:
        yield
        return
    builder = triton_interpreter.interpreter_builder
    before = builder.__class__
    builder.__class__, builder.ways = HeedingBuilder, ways
    try:
        yield
    finally:
        builder.__class__ = before
