"""Which outcomes of branches on loaded values occurred: a path never taken was never compared.

Branches on program ids and sizes depend on the launch only. Branches on loaded floating-point
values depend on the data: a kernel may be right for all data that was tried, and for no other.
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
from workbench.kernels.interpret_intervals import COMPARISONS
from workbench.kernels.records import Way
from workbench.kernels.trace_launch import candidate_line
from workbench.kernels.untyped import Untyped


class BranchOutcomes:
    """Outcomes of conditions on loaded values, by source line, over any number of calls."""

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[str, int, bool], set[bool]] = defaultdict(set)

    def note(self, kernel: str, *truths: bool, branch: bool) -> None:
        """Record an outcome of a condition at the current line."""
        self._seen[kernel, candidate_line(), branch].update(truths)

    def one_sided(self) -> tuple[Way, ...]:
        """Conditions that had one outcome only; a branch's own comparison is not listed again."""
        branches = {(kernel, line) for kernel, line, branch in self._seen if branch}
        return tuple(
            Way(kernel=kernel, line=line, truth=next(iter(truths)), branch=branch)
            for (kernel, line, branch), truths in sorted(self._seen.items())
            if len(truths) == 1 and (branch or (kernel, line) not in branches)
        )


class _BranchBuilder(TracedBuilder):
    """The builder that also tracks which values depend on loaded ones."""

    outcomes: BranchOutcomes

    def decided(self, handle: TensorHandle) -> None:
        """Python asks for a truth value: a branch on it, if it depends on loaded values."""
        if _loaded(handle) and handle.data.dtype.kind in "bf":
            self.outcomes.note(self.watch.kernel, bool(handle.data.reshape(-1)[0]), branch=True)

    def binary_op(self, lhs: TensorHandle, rhs: TensorHandle, op: Untyped) -> TensorHandle:
        """Elementwise on two operands; outcomes of comparisons are recorded."""
        made = _passed_on(super().binary_op(lhs, rhs, op), (lhs, rhs))
        if op in COMPARISONS and getattr(made, "rounded", False) and not _loaded(made):
            what = "a condition on what a GPU rounds in its own way (of no data)"
            raise CannotJudge(what, kernel=self.watch.kernel, line=candidate_line())
        if op in COMPARISONS and _loaded(made):
            truths = [truth for truth in (True, False) if np.any(made.data == truth)]
            self.outcomes.note(self.watch.kernel, *truths, branch=False)
        return made

    def create_masked_load(self, ptrs: TensorHandle, *rest: Untyped, **named: Untyped) -> Untyped:
        """Floating-point values are the judge's to choose; integers are indices and lengths."""
        made = super().create_masked_load(ptrs, *rest, **named)
        made.loaded = ptrs.get_element_ty().is_floating()
        return made

    def reduced(self, combine: str, inputs: Untyped, results: Untyped) -> None:
        """A reduction of loaded values counts as loaded."""
        super().reduced(combine, inputs, results)
        for result in results:
            _passed_on(result.handle, [tensor.handle for tensor in inputs])


def _loaded(handle: object) -> bool:
    return bool(getattr(handle, "loaded", False))


def _marks(values: Untyped) -> tuple[bool, bool]:
    """Whether any value among an operation's arguments is loaded, and whether any is rounded."""
    loaded = rounded = False
    for value in values:
        if isinstance(value, TensorHandle):
            marks = vars(value)
            loaded = loaded or marks.get("loaded", False)
            rounded = rounded or marks.get("rounded", False)
        elif isinstance(value, _SEVERAL):
            within = _marks(value)
            loaded, rounded = loaded or within[0], rounded or within[1]
    return loaded, rounded


_SEVERAL = (list, tuple)


def _passed_on(made: Any, operands: Untyped, *, rounds: bool = False) -> Any:  # noqa: ANN401 -- whatever was made
    loaded, rounded = _marks(operands)
    if loaded or rounded or rounds:
        for one in made if isinstance(made, tuple) else (made,):
            if isinstance(one, TensorHandle):
                one.loaded = loaded or _loaded(one)
                one.rounded = rounded or rounds or getattr(one, "rounded", False)
    return made


def _passing_on(name: str) -> Untyped:
    original = getattr(TracedBuilder, name)
    rounds = name in _ROUNDED

    @functools.wraps(original)
    def passing(self: Untyped, *args: Untyped, **named: Untyped) -> Untyped:
        return _passed_on(original(self, *args, **named), args, rounds=rounds)

    return passing


_ROUNDED = frozenset(
    f"create_{name}"
    for name in ("cos", "erf", "exp", "exp2", "extern_elementwise", "log", "log2", "rsqrt", "sin")
)
"""Operations whose last bits differ between GPU and numpy, so that a kernel can tell them apart."""
_OTHERS = ("cast_impl", "ternary_op", "unary_op")
_NOT_LOADED = ("create_atomic_cas", "create_atomic_rmw")
"""Operations whose results are not data: atomics return tickets and flags."""


def _rules() -> dict[str, Untyped]:
    return {
        name: _passing_on(name)
        for name, _ in inspect.getmembers(TracedBuilder, inspect.isfunction)
        if (name.startswith("create_") or name in _OTHERS)
        and name not in vars(_BranchBuilder)
        and name not in _NOT_LOADED
    }


BranchBuilder: type[_BranchBuilder] = type("BranchBuilder", (_BranchBuilder,), _rules())
"""The builder with a rule for every operation."""


@contextlib.contextmanager
def recording_branches(outcomes: BranchOutcomes | None) -> Iterator[None]:
    """Record in `outcomes` the outcomes of conditions on loaded values; None records nothing."""
    if outcomes is None:
        yield
        return
    builder = triton_interpreter.interpreter_builder
    before = builder.__class__
    builder.__class__, builder.outcomes = BranchBuilder, outcomes
    try:
        yield
    finally:
        builder.__class__ = before
