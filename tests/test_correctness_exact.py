"""On zeros and ones a sum has one answer, whatever the order: nothing near it will do."""

import pytest
import torch
from gate_kit import ADD_RELU, ADD_RELU_KERNEL, judged, model, told, workshop

from workbench.gate.correctness.compare import exact, measure_equality
from workbench.gate.records import Outcome

__all__ = ["workshop"]

CALL = model("return launch(*inputs, torch.empty_like(inputs[0]))")


@pytest.mark.parametrize(
    ("dtype", "top"), [(torch.float32, 2**24), (torch.float16, 2**11), (torch.bfloat16, 2**8)]
)
def test_whole_numbers_are_exact_up_to_what_the_dtype_holds(dtype, top):
    gold = torch.tensor([0.0, 3.0, top], dtype=torch.float64)
    assert exact(gold, gold.to(dtype))
    assert not exact(gold + 2, (gold + 2).to(dtype))
    assert not exact(gold + 0.5, (gold + 0.5).to(dtype))
    assert not exact(gold * 0 + 1, (gold * 0 + 1).to(dtype))
    assert not exact(gold, (gold + 1).to(dtype))


def test_equality_means_every_bit_of_the_value():
    native = torch.tensor([1.0, 2.0, 0.0])
    assert measure_equality("output 0", -native * -1, native).right
    assert measure_equality("output 0", native + 2e-7, native).wrong_exact == 3


def test_a_kernel_that_is_near_everywhere_is_wrong_where_sums_are_exact(workshop):
    near = ADD_RELU_KERNEL.replace("tl.maximum(x + y, 0.0)", "tl.maximum(x + y, 0.0) * 1.000001")
    report = judged(workshop, ADD_RELU, near + CALL)
    assert report.outcome is Outcome.FAILED
    assert told(report).evidence["case"] == "zeros and ones"
    assert judged(workshop, ADD_RELU, ADD_RELU_KERNEL + CALL).outcome is Outcome.PASSED
