"""More of the interpreter's operations on all programs at once, and how that mode is entered."""

import contextlib
import functools
import inspect
from collections.abc import Iterator

from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import TensorHandle

from workbench.kernels.interpret_builder import TracedBuilder
from workbench.kernels.interpret_intervals import IntervalBuilder
from workbench.kernels.interpret_spreads import handles_in, spread_of, with_spread
from workbench.kernels.path_coverage import PathCoverage, Spread
from workbench.kernels.trace_launch import Grid, LaunchWatch
from workbench.kernels.untyped import Untyped

_MOST_PATHS = 24
"""Most programs that run in addition to a sample because it did not take their path (ours)."""
_PATHS_WORK = 0.5
"""The share of a launch's work limit that these may add (ours)."""
_LANEWISE = frozenset(
    {"bitcast", "ceil", "clampf", "cos", "erf", "exp", "exp2", "extern_elementwise", "fabs"}
    | {"floor", "fma", "fneg", "fp_to_fp", "iabs", "log", "log2", "precise_sqrt", "rsqrt", "sin"}
    | {"sqrt", "umulhi"}
)
"""Elementwise operations that need no rule of their own."""

_SAME_LANES = ("splat", "broadcast", "expand_dims", "reshape", "trans", "unsplat")
"""Operations that move or repeat lanes."""


def _moving(name: str) -> Untyped:
    original = getattr(TracedBuilder, name)

    @functools.wraps(original)
    def moved(self: Untyped, *args: Untyped, **named: Untyped) -> Untyped:
        made = original(self, *args, **named)
        if name == "create_reshape" and args[-1]:  # in another order
            self.lost(made, list(handles_in(args)))
            return made
        for spread in _spreads(args):
            made.spread = spread
        return made

    return moved


def _other(name: str) -> Untyped:
    original = getattr(TracedBuilder, name)
    lanewise = name.removeprefix("create_") in _LANEWISE

    @functools.wraps(original)
    def lost(self: IntervalBuilder, *args: Untyped, **named: Untyped) -> Untyped:
        made = original(self, *args, **named)
        several = made if isinstance(made, tuple) else (made,)
        known = [one for one in several if isinstance(one, TensorHandle)]
        if not known or spread_of(known[0]) is not None:
            return made
        alike = self.lifted(original, made, args, named) if lanewise else None
        if alike is not None:
            return with_spread(made, alike)
        for one in known:
            self.lost(one, list(handles_in(args)))
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
    def accessed(self: IntervalBuilder, *args: Untyped, **named: Untyped) -> Untyped:
        return self.indirect(original, args, named)

    return accessed


def _spreads(args: Untyped) -> Iterator[Spread]:
    return (spread_of(one) for one in handles_in(args) if spread_of(one) is not None)


def _rules() -> dict[str, Untyped]:
    """A default for every operation without a rule of its own: program numbers decide the path.

    What it computes from them is no longer tracked.
    """
    rules = {}
    for name, _ in inspect.getmembers(TracedBuilder, inspect.isfunction):
        if not name.startswith("create_") or name in vars(IntervalBuilder):
            continue
        make = _moving if name.removeprefix("create_") in _SAME_LANES else _other
        make = _indirectly if name in _INDIRECT else make
        rules[name] = make(name)
    return rules


FollowingBuilder: type[IntervalBuilder] = type("FollowingBuilder", (IntervalBuilder,), _rules())
"""The builder with a rule for every operation."""


@contextlib.contextmanager
def following(coverage: PathCoverage) -> Iterator[None]:
    """Track which programs of the launch take the same path as those that run in the body."""
    builder = triton_interpreter.interpreter_builder
    before = builder.__class__
    builder.__class__, builder.coverage = FollowingBuilder, coverage
    try:
        yield
    finally:
        builder.__class__ = before


@contextlib.contextmanager
def unfollowed() -> Iterator[None]:
    """Do not track programs that run in the body."""
    builder = triton_interpreter.interpreter_builder
    before = builder.__class__
    builder.__class__ = TracedBuilder
    try:
        yield
    finally:
        builder.__class__ = before


@contextlib.contextmanager
def tracked(builder: Untyped, program: Grid) -> Iterator[None]:
    """Run one program, tracking all others that take the same path, if a launch is tracked."""
    if not isinstance(builder, IntervalBuilder):
        yield
        return
    builder.coverage.begin(program)
    yield
    builder.coverage.end(program)


def most_beside(watch: LaunchWatch, ran: int, work: int | None) -> int:
    """How many programs may run in addition to a sample, so that every path is taken once."""
    if work is None:
        return _MOST_PATHS
    return min(_MOST_PATHS, int(work * _PATHS_WORK / max(watch.work / max(ran, 1), 1)))
