"""How a candidate's launches are carried out: as they are, in another order, or not at all.

Runs in candidate workers only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.gate.correctness.protocol import Mode


@contextmanager
def carried_out(
    mode: Mode = Mode.PLAIN, *, interpreted: bool, target: str, order_seed: int = 0
) -> Iterator[list[Any]]:
    """Run the body's launches in `mode`; yields the list that interpreted launches are noted in.

    The interpreter checks every access against the tensor that its pointer came from and raises
    the faults of `workbench.kernels.faults`; `target` is the GPU that host code believes in.
    """
    if interpreted:
        from workbench.gate.correctness.apart import ApartWatch, PatientWatch
        from workbench.kernels.interpret import tracing
        from workbench.kernels.target import target as known

        apart = mode is Mode.APART
        with tracing(
            count=False,
            shuffle=order_seed if apart else None,
            ghost=mode is Mode.GHOST,
            stands_for=known(target),
            watch=ApartWatch if apart else PatientWatch,
        ) as trace:
            yield trace.launches
    elif mode is Mode.GHOST:
        with _nothing_runs():
            yield []
    else:
        yield []


@contextmanager
def _nothing_runs() -> Iterator[None]:
    """Make every launch of a compiled kernel a no-op."""
    from triton.runtime.jit import JITFunction

    before = JITFunction.run
    JITFunction.run = _skip
    try:
        yield
    finally:
        JITFunction.run = before


def _skip(*_arguments: object, **_options: object) -> None:
    """Stand in for a launch."""
