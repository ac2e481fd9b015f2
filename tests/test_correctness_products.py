"""Sums of products: how long a reference makes them, and what a bound allows tensor cores there."""

import pytest
import torch
from torch.nn import functional

from workbench.gate.correctness.compare import measure, rule_for
from workbench.gate.correctness.products import Products, cut

FP32 = rule_for(torch.float32, {}, tf32=False)


def ones(*shape):
    return torch.ones(shape)


@pytest.mark.parametrize(
    ("terms", "reference"),
    [
        (7, lambda: ones(3, 7) @ ones(7, 5)),
        (7, lambda: ones(2, 3, 7) @ ones(2, 7, 5)),
        (7, lambda: functional.linear(ones(2, 3, 7), ones(5, 7), ones(5))),
        (7, lambda: torch.baddbmm(ones(2, 3, 5), ones(2, 3, 7), ones(2, 7, 5))),
        (7, lambda: ones(3, 7) @ ones(7)),
        (7, lambda: ones(7) @ ones(7)),
        (7, lambda: torch.einsum("bik,bjk->bij", ones(2, 3, 7), ones(2, 5, 7))),
        (3 * 9, lambda: functional.conv2d(ones(1, 6, 8, 8), ones(4, 3, 3, 3), groups=2)),
        (3 * 5, lambda: functional.conv_transpose1d(ones(1, 6, 9), ones(6, 2, 5), groups=2)),
        (64, lambda: functional.scaled_dot_product_attention(*[ones(1, 2, 64, 16)] * 3)),
        (40, lambda: (ones(3, 40) @ ones(40, 7)) @ ones(7, 2)),
        (0, lambda: ones(3, 7).sum(-1)),
    ],
)
def test_the_longest_sum_of_products_is_seen(terms, reference):
    with torch.no_grad(), Products() as products:
        reference()
    assert products.longest == terms


def test_only_long_sums_in_fp32_are_allowed_more():
    assert cut(FP32, torch.float32, 1024) == FP32
    assert cut(FP32, torch.float32, 7168).factor == 448
    tf32 = rule_for(torch.float32, {}, tf32=True)
    assert cut(tf32, torch.float32, 7168) == tf32
    half = rule_for(torch.bfloat16, {}, tf32=False)
    assert cut(half, torch.bfloat16, 7168) == half


def cut_to(x, bits):
    """fp32 numbers without their last bits, as a tensor core cuts its sums where that is none."""
    return (x.double().view(torch.int64) & -(1 << (29 + bits))).view(torch.float64)


@pytest.mark.parametrize("terms", [4096, 7168, 16384])
def test_sums_that_are_cut_are_right_and_coarser_factors_are_not(terms):
    torch.manual_seed(0)
    x, w = torch.randn(32, terms), torch.randn(32, terms) * terms**-0.5
    gold, native = x.double() @ w.double().T, x @ w.T
    rule = cut(FP32, torch.float32, terms)

    def found(made):
        return measure("output 0", made, gold, native, rule)

    total = torch.zeros(32, 32, dtype=torch.float64)
    for step in range(0, terms, 16):
        part = slice(step, step + 16)
        total = cut_to(total + x[:, part].double() @ w[:, part].double().T, 0)
    assert found(total.float()).right
    for bits in (13, 16):  # TF32, bf16
        coarse = cut_to(x, bits) @ cut_to(w, bits).T
        assert found(coarse.float()).ratio > 2
