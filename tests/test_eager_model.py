"""The eager model against counts done by hand, and against what an H200 measured."""

import pytest

from workbench.kernels.target import target
from workbench.measure.eager import OperatorWork, modeled_eager
from workbench.measure.records import Kind
from workbench.problems.load import load_problem

SM90 = target("sm90")


def counted(name: str, shape: str) -> list[OperatorWork]:
    """One call of the reference, on meta tensors."""
    import torch

    from workbench.gate.problem.counting import Counting, whole
    from workbench.problems.module import bind, build_model, make_inputs

    problem = load_problem(name)
    module = bind(problem.source, problem.shape(shape).values)
    with torch.device("meta"):
        model = build_model(module, seed=0)
    inputs = make_inputs(module, seed=0, device="meta")
    counting = Counting()
    with torch.no_grad(), whole(counting):
        model(*inputs)
    return counting.operators


def test_a_matrix_product_counts_two_flops_a_multiply_add_and_each_operand_once():
    (product,) = counted("gemm", "full")
    assert product.name == "aten.mm"
    assert product.matrix_flops == 2 * 4096**3
    assert product.bytes == 3 * 2 * 4096**2
    assert product.elements == 0


def test_every_operator_of_a_fused_chain_pays_its_own_traffic():
    work = counted("linear_relu_div", "full")
    assert [w.name for w in work] == ["aten.addmm", "aten.relu", "aten.div"]
    assert work[1].bytes == 2 * 4 * 1024 * 8192


# Medians of eager PyTorch on an H200 at the full shapes, microseconds.
@pytest.mark.parametrize(
    ("name", "measured"),
    [("gemm", 175.7), ("linear_relu_div", 2720.8), ("matvec", 541.4), ("rmsnorm", 2861.6)],
)
def test_the_model_is_near_what_was_measured_where_eager_is_near_its_roofline(name, measured):
    problem = load_problem(name)
    time = modeled_eager(counted(name, "full"), SM90, tf32=problem.precision == "tf32")
    assert time.kind is Kind.MODELED
    assert time.microseconds == pytest.approx(measured, rel=0.25)


def test_tf32_is_faster_only_where_the_reference_may_use_it():
    work = counted("linear_relu_div", "full")
    assert (
        modeled_eager(work, SM90, tf32=True).microseconds
        < 0.3 * modeled_eager(work, SM90, tf32=False).microseconds
    )


def test_a_reference_without_operators_has_no_time():
    with pytest.raises(ValueError, match="no time"):
        modeled_eager([], SM90, tf32=False)
