"""How a candidate's launches are executed: normally, in another order, or not at all."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct

from workbench.gate.correctness.protocol import Mode
from workbench.kernels.records import Build

if TYPE_CHECKING:  # it needs triton, which a compiled candidate imports for itself
    from workbench.kernels.interpret_branches import BranchOutcomes


class Launched(Struct):
    """What was launched, as far as the interpreter saw it; filled in when the body is over."""

    count: int = 0
    configs: int = 1
    """The most configurations that an autotuned kernel had to choose from."""


def branch_outcomes() -> "BranchOutcomes":
    """A new record of the outcomes of branches on loaded values."""
    from workbench.kernels.interpret_branches import BranchOutcomes

    return BranchOutcomes()


@contextmanager
def carried_out(  # noqa: PLR0913 -- how launches are run, and what host code is shown
    mode: Mode = Mode.PLAIN,
    *,
    interpreted: bool,
    target: str,
    source: str,
    order_seed: int = 0,
    config: int = 0,
    branches: "BranchOutcomes | None" = None,
    builds: Sequence[Build] = (),
) -> Iterator[Launched]:
    """Run the body's launches in `mode`, autotuned kernels in configuration `config`.

    The interpreter checks every access against the tensor that its pointer came from and raises the
    faults of `workbench.kernels.faults`; `target` is the GPU that host code is shown, and `source`
    the candidate's file. `branches` records the outcomes of branches on loaded values;
    `builds` answer host code that compiles a kernel ahead of its launch.
    """
    how: AbstractContextManager[Launched]
    if interpreted:
        how = _interpreted(mode, target, source, order_seed, config, branches, builds)
    elif mode is Mode.GHOST:
        how = _nothing_runs()
    else:
        how = nullcontext(Launched())
    with how as launched:
        yield launched


@contextmanager
def _interpreted(
    mode: Mode,
    target: str,
    source: str,
    order_seed: int,
    config: int,
    branches: "BranchOutcomes | None",
    builds: Sequence[Build],
) -> Iterator[Launched]:
    """Run the body's launches in the interpreter."""
    from workbench.gate.correctness.apart import ApartWatch, PatientWatch
    from workbench.kernels.interpret import tracing
    from workbench.kernels.interpret_settings import TraceSettings
    from workbench.kernels.target import target as known

    apart = mode is Mode.APART
    settings = TraceSettings(
        count=False,
        shuffle=order_seed if apart else None,
        ghost=mode is Mode.GHOST,
        stands_for=known(target),
        config=config,
        builds=builds,
        watch=ApartWatch if apart else PatientWatch,
        source=source,
        branches=branches,
    )
    launched = Launched()
    with tracing(settings) as trace:
        yield launched
        launched.count = len(trace.launches)
        launched.configs = max(trace.choices.values(), default=1)


@contextmanager
def _nothing_runs() -> Iterator[Launched]:
    """Make every launch of a compiled kernel a no-op, whether Triton or host code compiled it.

    Host code gets the compiled kernel all the same, so that it cannot tell.
    """
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction

    run, ahead = JITFunction.run, CompiledKernel.run

    def compile_only(*arguments: object, **options: object) -> object:
        return run(*arguments, **{**options, "warmup": True})

    JITFunction.run = compile_only
    CompiledKernel.run = property(lambda _kernel: _skip)
    try:
        yield Launched()
    finally:
        JITFunction.run, CompiledKernel.run = run, ahead


def _skip(*_arguments: object, **_options: object) -> None:
    """Replaces a launch."""
