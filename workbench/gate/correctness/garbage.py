"""When a candidate's garbage is collected: where what it does as it goes can launch nothing.

A generator in a cycle of references runs its `finally` when Python happens to collect it: after the
clock has stopped and before the outputs are fetched, or when the next inputs are there already.
Runs in candidate workers only.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def collect_by_hand() -> None:
    """From now on Python collects nothing by itself; what is there now is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.disable()


def collect(*, interpreted: bool) -> None:
    """Collect what earlier calls left, without any launch; nothing where Python does it itself."""
    if not gc.isenabled():
        with _no_launches(interpreted=interpreted):
            gc.collect()


@contextmanager
def _no_launches(*, interpreted: bool) -> Iterator[None]:
    if interpreted:
        from triton.runtime.interpreter import GridExecutor

        launch = GridExecutor.__call__
        GridExecutor.__call__ = _skip
        try:
            yield
        finally:
            GridExecutor.__call__ = launch
        return
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction

    run, ahead = JITFunction.run, CompiledKernel.run
    JITFunction.run, CompiledKernel.run = _skip, property(lambda _kernel: _skip)
    try:
        yield
    finally:
        JITFunction.run, CompiledKernel.run = run, ahead


def _skip(*_arguments: object, **_options: object) -> None:
    """Replaces a launch."""
