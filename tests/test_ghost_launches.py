"""The replay in which no compiled kernel runs, as a GPU's candidate meets it: no GPU is needed."""

from types import SimpleNamespace

import pytest

pytest.importorskip("triton")

from triton.compiler.compiler import CompiledKernel
from triton.runtime.jit import JITFunction

from workbench.gate.correctness.launching import carried_out
from workbench.gate.correctness.protocol import Mode


@pytest.fixture
def ran(monkeypatch):
    """What reached Triton's own launch and compile functions."""
    seen = []
    monkeypatch.setattr(JITFunction, "run", lambda *_, **options: seen.append(options))
    return seen


def ghost():
    return carried_out(Mode.GHOST, interpreted=False, target="sm90", source="")


def compiled_ahead(ran) -> CompiledKernel:
    """A kernel as `warmup` returns it, which launches into `ran`."""
    kernel = CompiledKernel.__new__(CompiledKernel)
    kernel.module = kernel.function = kernel.packed_metadata = None
    kernel.metadata = SimpleNamespace()
    kernel._init_handles = lambda: None
    kernel.launch_metadata = lambda *_: None
    kernel._run = lambda *_: ran.append("launched")
    return kernel


def test_a_kernel_that_host_code_compiled_ahead_does_not_run_either(ran):
    kernel = compiled_ahead(ran)
    with ghost():
        kernel[(4, 1, 1)](1, 2, stream=0)
    assert ran == []
    kernel[(4, 1, 1)](1, 2, stream=0)
    assert ran == ["launched"]


def test_a_launch_only_compiles_so_that_host_code_gets_its_kernel_as_ever(ran):
    with ghost():
        JITFunction.run(None, grid=(1,), warmup=False)
        JITFunction.run(None, grid=(1,), warmup=True)
    assert ran == [{"grid": (1,), "warmup": True}] * 2
    JITFunction.run(None, grid=(1,), warmup=False)
    assert ran[2:] == [{"grid": (1,), "warmup": False}]
