"""What the interpreter finds at the full shape while a GPU compares and times."""

import threading
from pathlib import Path

import pytest
from gate_kit import CANDIDATE, shared

from workbench.errors import WorkbenchError
from workbench.gate import compile as compiling
from workbench.gate.aside import Aside, looking_aside
from workbench.gate.background import Background, Workers
from workbench.gate.candidate import candidate_of
from workbench.gate.correctness.full.looks import Setting
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Blame, Outcome, Stage, StageReport
from workbench.isolation.outcome import WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.kernels.requests import Traced
from workbench.problems.load import load_problem
from workbench.problems.records import Problem

CORPUS = Path(__file__).parent / "corpus"
TARGET = "sm90"


def looked(case: str, reference: str, *, compared: bool = True) -> Aside:
    text = (CORPUS / f"{case}.py").read_text()
    return looked_at(text, load_problem(str(CORPUS / "refs" / f"{reference}.py")), compared)


def looked_at(source: str, problem: Problem, compared: bool = True, shop=None) -> Aside:
    candidate = candidate_of(source)
    facts = inspect_problem(problem, shared())
    compiled = compiling.run(candidate, facts.full, TARGET, shared())
    setting = Setting(target=TARGET, launches=compiled.recorded.launches, seed=bytes(16))
    where = shop or shared()
    aside = looking_aside(candidate, problem, facts, compiled, setting, where, compared=compared)
    with aside:
        return aside.result()


class Counted:
    """The shared workshop, and which workers it was asked for."""

    def __init__(self):
        self.flavors = []

    def worker(self, flavor, limits):
        self.flavors.append(flavor)
        return shared().worker(flavor, limits)


def test_what_only_other_orders_of_programs_show_leaves_a_comparison_unproven():
    found = looked("own/exploits/full_ticket_short_by_one", "squares_sized")
    (doubt,) = found.doubts
    assert doubt.blame is Blame.MACHINE
    assert "right on the GPU" in doubt.says
    report = found.on(
        StageReport(stage=Stage.CORRECTNESS, outcome=Outcome.PASSED, says="right at all shapes")
    )
    assert report.outcome is Outcome.UNPROVEN
    assert report.findings == found.doubts


def test_a_right_kernel_is_traced_and_not_doubted():
    found = looked("own/honest/sized_linear_last_arriver", "linear_sized")
    assert not found.doubts
    assert found.traces
    report = StageReport(stage=Stage.CORRECTNESS, outcome=Outcome.PASSED, says="right")
    assert found.on(report) is report


def test_what_a_sample_left_is_read_before_another_call_puts_memory_back():
    """Two kernels in a row, whose outputs are small: what the first sample stored, and what the
    programs left that ran so that nothing was missing."""
    problem = load_problem("top_k")
    state = problem.seed.parent / "states" / "select_then_order.py"
    found = looked_at(state.read_text(), problem)
    assert not found.doubts
    assert found.traces


READS_PAST_THE_END = (
    CANDIDATE
    + """
@triton.jit
def last(x, o, n):
    tl.store(o, tl.load(x + n))


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty((), device=x.device)
        last[(1,)](x, o, x.numel())
        return o
"""
)


def test_launches_that_cannot_be_traced_are_tried_once():
    problem, shop = load_problem(str(CORPUS / "refs" / "squares_sized.py")), Counted()
    found = looked_at(READS_PAST_THE_END, problem, shop=shop)
    assert isinstance(found.traced, Traced)
    assert found.traced.fault is not None
    assert not found.traces
    assert shop.flavors.count(Flavor.INTERPRET) == 1


def test_without_a_comparison_it_is_only_traced():
    found = looked("own/exploits/full_ticket_short_by_one", "squares_sized", compared=False)
    assert not found.doubts
    assert found.traces


def test_a_look_that_nobody_waits_for_is_ended_and_starts_no_more_workers():
    began, faults = threading.Event(), []

    def look(shop: Workers) -> None:
        with shop.worker(Flavor.BARE, Limits(wall_seconds=60)) as worker:
            began.set()
            try:
                worker.call("isolation_jobs:sleep_on", {})
            except WorkerFault as fault:
                faults.append(fault)
        shop.worker(Flavor.BARE)

    with Background(shared(), look) as aside:
        assert began.wait(60)
    assert faults
    with pytest.raises(WorkbenchError, match="was ended"):
        aside.result()
