"""What few inputs bring about: ways that no ordinary data goes, NaN, references that waver."""

import pytest
import torch
from gate_kit import ADD_RELU, ADD_RELU_KERNEL, REFERENCE, judged, model, workshop

from workbench.gate.correctness.cases import SPECIAL
from workbench.gate.correctness.compare import rule_for
from workbench.gate.correctness.comparing import Answered, Comparison
from workbench.gate.correctness.oracle import Oracle
from workbench.gate.records import Outcome
from workbench.problems.records import Precision

__all__ = ["workshop"]

FORWARD = model("return launch(inputs[0], inputs[1], torch.empty_like(inputs[0]))")
SUM = "tl.store(o_ptr + offs, tl.maximum(x + y, 0.0), mask=mask)"


def with_condition(condition: str) -> str:
    """The kernel of the kit, which halves a block where a condition on its sums holds."""
    return (
        ADD_RELU_KERNEL.replace(
            SUM,
            f"s = tl.maximum(x + y, 0.0)\n    {condition}\n        s = s * 0.5\n"
            "    tl.store(o_ptr + offs, s, mask=mask)",
        )
        + FORWARD
    )


def codes(report):
    return [finding.code for finding in report.findings]


@pytest.mark.parametrize("limit", ["5000.0", "1e9"])
def test_a_way_that_only_large_numbers_go_is_tried_and_is_a_doubt(workshop, limit):
    source = with_condition(f"if tl.max(tl.where(mask, s, 0.0), axis=0) > {limit}:")
    report = judged(workshop, ADD_RELU, source)
    assert report.outcome is Outcome.UNPROVEN
    assert codes(report)[0] == "correctness.wrong-where-rare"
    assert "if tl.max" in source.splitlines()[report.findings[0].line - 6]


def test_a_guard_that_nothing_meets_is_told_and_held_against_nobody(workshop):
    source = with_condition("if tl.min(tl.where(mask, s, 0.0), axis=0) < 0.0:")
    report = judged(workshop, ADD_RELU, source)
    assert report.outcome is Outcome.PASSED, report.says
    told = next(f for f in report.findings if f.code == "correctness.way-not-taken")
    assert "never true" in told.says
    assert told.evidence["branches"] == 1


def test_a_condition_that_ordinary_data_turns_is_not_told(workshop):
    source = with_condition("if tl.max(tl.where(mask, s, 0.0), axis=0) < -1.0:")
    taken = source.replace("< -1.0", "== 0.0").replace("s * 0.5", "s * 1.0")
    report = judged(workshop, ADD_RELU, taken)
    assert report.outcome is Outcome.PASSED, report.says
    assert "correctness.way-not-taken" not in codes(report)


def test_nan_that_a_kernel_drops_is_told_and_held_against_nobody(workshop):
    report = judged(workshop, ADD_RELU, ADD_RELU_KERNEL + FORWARD)
    assert report.outcome is Outcome.PASSED
    told = [f for f in report.findings if f.code == "correctness.special-values"]
    assert [f.evidence["case"] for f in told] == [str(SPECIAL[0])]
    assert told[0].evidence["gold"] == "nan"
    keeping = ADD_RELU_KERNEL.replace("tl.maximum(x + y, 0.0)", "tl.where(x + y < 0.0, 0.0, x + y)")
    report = judged(workshop, ADD_RELU, keeping + FORWARD)
    assert report.outcome is Outcome.PASSED
    assert "correctness.special-values" not in codes(report)


WAVERING = """
class Model(nn.Module):
    def forward(self, x):
        order = torch.randperm(x.shape[1])
        total = torch.zeros(x.shape[0], dtype=torch.float16)
        for place in order.tolist():
            total = total + x[:, place]
        return total

def get_inputs():
    return [torch.randn(4, 400).half() * 8]

def get_init_inputs():
    return []
"""


def compared(source: str, off: float, seed: int):
    """What a sum that is so far off measures, against a reference in half precision."""
    oracle = Oracle(REFERENCE + source, {}, seed=3, precision=Precision.IEEE, device="cpu")
    nest, inputs = oracle.draw(5)
    torch.manual_seed(seed)
    native = oracle.native(nest, inputs)
    gold = oracle.gold(nest, inputs, native)
    case = Answered(nest, inputs, native, gold)
    comparison = Comparison(
        case, rule=lambda dtype: rule_for(dtype, {}, tf32=False), selections=(), oracle=oracle
    )
    return comparison.measured([(gold.outputs[0] + off).half()])[0]


def accepted_beyond_one_run(source: str) -> int:
    """Of eight first runs, after how many an error just above that run's bound is right."""
    bounds = [compared(source, 0.0, seed).bound for seed in range(8)]
    return sum(compared(source, 1.05 * b, seed).right for seed, b in enumerate(bounds))


def test_a_kernel_may_be_as_far_off_as_any_run_of_a_reference_that_wavers():
    steady = WAVERING.replace("torch.randperm(x.shape[1])", "torch.arange(x.shape[1])")
    assert accepted_beyond_one_run(steady) == 0
    assert accepted_beyond_one_run(WAVERING) >= 3
    assert not compared(WAVERING, 1000.0, 0).right
