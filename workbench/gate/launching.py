"""How a candidate's launches are carried out: as they are, in another order, or not at all.

Runs in candidate workers only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.gate.protocol import Mode


@contextmanager
def carried_out(mode: Mode, device: str, order_seed: int) -> Iterator[list[Any]]:
    """Run the body's launches in `mode`; yields the list that its launches are noted in."""
    launches: list[Any] = []
    if mode is Mode.GHOST:
        with _nothing_runs():
            yield launches
    else:
        yield launches


@contextmanager
def _nothing_runs() -> Iterator[None]:
    """Make every launch a no-op, compiled or interpreted."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    before = [(kind, kind.run) for kind in (JITFunction, InterpretedFunction)]
    for kind, _ in before:
        kind.run = _skip
    try:
        yield
    finally:
        for kind, run in before:
            kind.run = run


def _skip(*_arguments: object, **_options: object) -> None:
    """Stand in for a launch."""
