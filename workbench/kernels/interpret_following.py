"""The rest of the interpreter's operations while programs are told apart, and how that begins."""

import contextlib
import functools
import inspect
from collections.abc import Iterator

from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import TensorHandle

from workbench.kernels.everywhere import Everywhere, Spread
from workbench.kernels.interpret_builder import TracedBuilder
from workbench.kernels.interpret_everywhere import (
    EverywhereBuilder,
    handles_in,
    spread_of,
    with_spread,
)
from workbench.kernels.trace_launch import Grid, LaunchWatch
from workbench.kernels.untyped import Untyped

_MOST_WAYS = 24
"""Programs that run beside a sample because none of it goes their way (ours)."""
_WAYS_WORK = 0.5
"""Of the work that a launch may cost, how much they may add (ours)."""
_LANEWISE = frozenset(
    {"bitcast", "ceil", "clampf", "cos", "erf", "exp", "exp2", "extern_elementwise", "fabs"}
    | {"floor", "fma", "fneg", "fp_to_fp", "iabs", "log", "log2", "precise_sqrt", "rsqrt", "sin"}
    | {"sqrt", "umulhi"}
)
"""Operations on each lane by itself that have no rule of their own."""

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
    lanewise = name.removeprefix("create_") in _LANEWISE

    @functools.wraps(original)
    def lost(self: EverywhereBuilder, *args: Untyped, **named: Untyped) -> Untyped:
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
    def accessed(self: EverywhereBuilder, *args: Untyped, **named: Untyped) -> Untyped:
        return self.indirect(original, args, named)

    return accessed


def _spreads(args: Untyped) -> Iterator[Spread]:
    return (spread_of(one) for one in handles_in(args) if spread_of(one) is not None)


def _rules() -> dict[str, Untyped]:
    """Every operation that has no rule of its own passes on that it met a program's number."""
    rules = {}
    for name, _ in inspect.getmembers(TracedBuilder, inspect.isfunction):
        if not name.startswith("create_") or name in vars(EverywhereBuilder):
            continue
        make = _moving if name.removeprefix("create_") in _SAME_LANES else _other
        make = _indirectly if name in _INDIRECT else make
        rules[name] = make(name)
    return rules


FollowingBuilder: type[EverywhereBuilder] = type("FollowingBuilder", (EverywhereBuilder,), _rules())
"""The builder with a rule for every operation."""


@contextlib.contextmanager
def following(everywhere: Everywhere) -> Iterator[None]:
    """Tell the programs that run in the body from all others of their launch."""
    builder = triton_interpreter.interpreter_builder
    before = builder.__class__
    builder.__class__, builder.everywhere = FollowingBuilder, everywhere
    try:
        yield
    finally:
        builder.__class__ = before


@contextlib.contextmanager
def unfollowed() -> Iterator[None]:
    """Programs that run in the body say nothing about others."""
    builder = triton_interpreter.interpreter_builder
    before = builder.__class__
    builder.__class__ = TracedBuilder
    try:
        yield
    finally:
        builder.__class__ = before


@contextlib.contextmanager
def told_apart(builder: Untyped, program: Grid) -> Iterator[None]:
    """One program, with all others that go its way, where programs are told apart."""
    if not isinstance(builder, EverywhereBuilder):
        yield
        return
    builder.everywhere.begin(program)
    yield
    builder.everywhere.end(program)


def most_beside(watch: LaunchWatch, ran: int, work: int | None) -> int:
    """How many programs may run beside a sample, to see every way through a kernel."""
    if work is None:
        return _MOST_WAYS
    return min(_MOST_WAYS, int(work * _WAYS_WORK / max(watch.work / max(ran, 1), 1)))
