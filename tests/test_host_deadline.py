"""Host code that never ends is refused long before the compiler's deadline, and says where."""

import contextlib
import time
from textwrap import dedent

import pytest
from gate_kit import CANDIDATE, SCALE, SCALE_KERNEL, model, problem

from workbench.gate import compile as compiling
from workbench.gate.candidate import candidate_of
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Outcome
from workbench.isolation.workshop import Workshop
from workbench.kernels.host_deadline import HostHangs, host_deadline
from workbench.kernels.static import registers_and_spills

QUICK = {"cpu_seconds": 0.05, "tick_seconds": 0.02}


def spin(seconds: float = float("inf")) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def stubborn() -> None:
    """Goes on, whatever it is told."""
    while True:
        with contextlib.suppress(Exception):
            spin()


def sleeps() -> None:
    while True:
        time.sleep(0.01)


def test_host_code_that_runs_on_is_ended_also_within_a_try():
    with pytest.raises(HostHangs), host_deadline(**QUICK):
        stubborn()


def test_host_code_that_sleeps_is_ended_by_the_wall():
    with pytest.raises(HostHangs), host_deadline(wall_seconds=0.05, tick_seconds=0.02):
        sleeps()


@pytest.mark.parametrize("module", ["triton.compiler.compiler", registers_and_spills.__module__])
def test_what_is_compiled_and_disassembled_is_not_counted(module):
    compiler = {"__name__": module, "spin": spin}
    exec("def compiled(): spin(0.2)", compiler)  # noqa: S102  # a frame of that module
    with host_deadline(**QUICK):
        compiler["compiled"]()


def test_nothing_is_left_behind():
    with pytest.raises(HostHangs), host_deadline(**QUICK):
        spin()
    spin(0.1)


def test_a_module_that_never_ends_is_refused_at_compile_with_its_line():
    task = problem(SCALE)
    text = "try:\n    while 1:\n        pass\nfinally:\n    pass\n"
    init = "self.weight = nn.Parameter(torch.ones(n))"
    forward = "return launch(inputs[0], self.weight, torch.empty_like(inputs[0]))"
    right = CANDIDATE + dedent(SCALE_KERNEL) + model(forward, init, "self, n")
    with Workshop(preload=compiling.JOB_MODULES) as shop:
        full = inspect_problem(task, shop).full
        report = compiling.run(candidate_of(text + right), full, "sm90", shop).report
    assert report.outcome is Outcome.FAILED
    finding = report.findings[0]
    assert finding.code == "compile.host-hangs"
    assert finding.line in (2, 3)
    assert "not compiling" in finding.says
