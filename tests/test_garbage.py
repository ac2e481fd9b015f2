"""What a candidate leaves behind is collected where it can launch nothing."""

import gc

import pytest

pytest.importorskip("triton")

from gate_kit import ADD_RELU, ADD_RELU_KERNEL, judged, model, workshop
from triton.compiler.compiler import CompiledKernel
from triton.runtime.interpreter import GridExecutor
from triton.runtime.jit import JITFunction

from workbench.gate.correctness.garbage import collect, collect_by_hand
from workbench.gate.records import Outcome

__all__ = ["workshop"]


@pytest.fixture
def by_hand():
    """Python's own habits come back after the test."""
    collect_by_hand()
    yield
    gc.enable()
    gc.unfreeze()


def left_behind(last):
    """A generator in a cycle, which calls `last` as it goes."""

    def late():
        try:
            yield
        finally:
            last()

    held = [late()]
    next(held[0])
    held.append(held)


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize("interpreted", [True, False])
def test_what_is_collected_runs_and_launches_nothing(monkeypatch, interpreted):
    ran = []
    monkeypatch.setattr(JITFunction, "run", lambda *_: ran.append("launched"))
    monkeypatch.setattr(CompiledKernel, "run", property(lambda _: ran.append))
    monkeypatch.setattr(GridExecutor, "__call__", lambda *_: ran.append("interpreted"))

    def last():
        ran.append("ended")
        if interpreted:
            GridExecutor.__call__(None)
        else:
            JITFunction.run(None)
            CompiledKernel.run.fget(None)("compiled ahead")

    left_behind(last)
    assert ran == [], "nothing is collected by itself"
    collect(interpreted=interpreted)
    assert ran == ["ended"]
    last()
    assert len(ran) > 2, "launches come back"


def test_nothing_is_collected_by_hand_where_python_does_it_itself():
    ran = []
    left_behind(lambda: ran.append("ended"))
    collect(interpreted=True)
    assert ran == []
    gc.collect()
    assert ran == ["ended"]


FORWARD = """
import gc
if gc.isenabled():
    raise RuntimeError("garbage may be collected at any time")
x, y = inputs
box = []
box.append(box)
return launch(x, y, torch.empty_like(x))
"""


def test_no_garbage_is_collected_while_a_candidate_is_called(workshop):
    report = judged(workshop, ADD_RELU, ADD_RELU_KERNEL + model(FORWARD))
    assert report.outcome is Outcome.PASSED, report.says
