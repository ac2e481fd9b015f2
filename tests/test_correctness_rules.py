"""The bound that an answer is held to, and the answer itself, rule by rule."""

import math

import pytest
import torch
from torch import nn

from workbench.gate.correctness.compare import (
    Rule,
    Slack,
    measure,
    measure_special,
    rule_for,
)
from workbench.gate.correctness.gold import in_fp64, widened
from workbench.gate.correctness.numbers import check_numbers
from workbench.gate.correctness.protocol import (
    Compared,
    Measured,
)
from workbench.gate.problem.counting import Counting, whole
from workbench.problems.records import Tolerance

FP32 = Rule(64.0, 2.0**-23)


def of(value, gold, native=None, rule=FP32):
    gold = torch.tensor(gold, dtype=torch.float64)
    got = torch.tensor(value, dtype=torch.float32)
    own = gold.float() if native is None else torch.tensor(native, dtype=torch.float32)
    return measure("output 0", got, gold, own, rule)


def test_the_bound_grows_with_the_element_and_the_rms_of_the_whole():
    gold = [3.0, -4.0]  # rms sqrt(12.5)
    bound = 64 * 2**-23 * (3.0 + math.sqrt(12.5))
    within = of([3.0 + 0.98 * bound, -4.0], gold)
    assert within.ratio == pytest.approx(0.98, rel=0.02)
    assert within.right
    beyond = of([3.0 + 1.05 * bound, -4.0], gold)
    assert not beyond.right
    assert (beyond.index, beyond.gold) == ((0,), 3.0)
    assert beyond.bound == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize(
    ("dtype", "spacings", "digits"),
    [
        (torch.float64, 64, 52),
        (torch.float32, 64, 23),
        (torch.float16, 4, 10),
        (torch.bfloat16, 4, 7),
        (torch.float8_e4m3fn, 2, 3),
        (torch.float8_e5m2, 2, 2),
    ],
)
def test_each_dtype_is_held_to_its_own_count_of_spacings(dtype, spacings, digits):
    """The gate protocol's table, of which a README's reader is told."""
    gold = torch.full((64,), 1.0, dtype=torch.float64)
    bound = spacings * 2.0**-digits * 2
    off = 1.0 + bound * torch.tensor([0.95, 1.3], dtype=torch.float64)
    rule = rule_for(dtype, {}, tf32=False)
    for value, right in zip(off, (True, False), strict=True):
        got = gold.clone()
        got[7] = value
        found = measure("output 0", got, gold, gold.to(dtype), rule)
        assert found.right is right
        assert found.ratio == pytest.approx(float(value - 1) / bound)


def test_a_reference_that_is_inexact_itself_lends_four_times_its_error():
    own = [1.0 + 1e-3, 2.0]
    assert of([1.0 + 3.9e-3, 2.0], [1.0, 2.0], own).right
    assert not of([1.0 + 4.2e-3, 2.0], [1.0, 2.0], own).right


@pytest.mark.parametrize(
    ("value", "gold", "native", "wrong"),
    [
        (math.nan, 1.0, 1.0, True),
        (math.inf, 1.0, 1.0, True),
        (1e38, 1e39, math.inf, True),
        (math.inf, 1e39, math.inf, False),
        (math.nan, 1e39, math.inf, False),
        (-math.inf, -math.inf, -math.inf, False),
        (math.inf, -math.inf, -math.inf, True),
        (0.0, -math.inf, -math.inf, True),
        (5.0, math.nan, math.nan, False),
        (5.0, 1.0, math.nan, False),
        (3.4e38, 3.41e38, math.inf, False),
    ],
)
def test_what_is_not_finite_is_asked_for_only_where_the_reference_can_say(
    value, gold, native, wrong
):
    measured = of([value, 1.0], [gold, 1.0], [native, 1.0])
    assert bool(measured.wrong_finite) is wrong
    assert measured.elements == 1 + (math.isfinite(native) and abs(gold) < 3e38)


def test_a_signal_on_an_offset_is_held_to_its_own_spread():
    signal = torch.linspace(-1, 1, 100, dtype=torch.float64)
    gold = 1.0 + 2e-5 * signal
    loose = Rule(64.0, 2.0**-23)
    constant = measure("output 0", torch.ones(100), gold, gold.float(), loose)
    assert constant.low_variance > 1
    exact = measure("output 0", gold.float(), gold, gold.float(), loose)
    assert exact.right
    # Off by 15 % of its amplitude: within the rounding of the offset, and beyond 5 % of its spread.
    stretched = (1.0 + 1.15 * (gold - 1.0)).float()
    assert measure("output 0", stretched, gold, gold.float(), loose).low_variance > 1


@pytest.mark.parametrize(
    ("value", "gold", "native", "wrong"),
    [
        (1.0, math.nan, math.nan, 1),
        (math.nan, math.nan, math.nan, 0),
        (math.inf, 1.0, 1.0, 1),
        (-math.inf, math.inf, math.inf, 1),
        (1.0, math.nan, 1.0, 0),
        (1.0, 2.0, 2.0, 0),
    ],
)
def test_of_special_values_only_their_places_are_compared(value, gold, native, wrong):
    got, wide, own = (torch.tensor([one, 1.0]) for one in (value, gold, native))
    assert measure_special("output 0", got, wide.double(), own).wrong_finite == wrong


@pytest.mark.parametrize(("bounds_apart", "right"), [(3.0, False), (20.0, True)])
def test_only_where_roundings_jump_may_an_answer_lie_anywhere_between(bounds_apart, right):
    gold = torch.tensor([1.0, 1.0], dtype=torch.float64)
    bound = 64 * 2**-23 * 2
    far = torch.tensor([1.0 + bounds_apart * bound, 1.0], dtype=torch.float64)
    got = (gold + far) / 2
    seen = Slack(seen=(gold, far))
    assert measure("output 0", got.float(), gold, gold.float(), FP32, seen).right is right


def test_the_spread_rule_leaves_the_rounding_of_a_large_value_alone():
    # One outlier of 300 among bf16 values: rounding it alone is a third of the spread.
    gold = torch.zeros(10_000, dtype=torch.float64)
    gold[3] = 301.0
    got = gold.bfloat16()
    assert measure("output 0", got, gold, got, Rule(4.0, 2.0**-7)).right


def test_the_end_of_the_range_is_no_lack_of_precision():
    gold = torch.tensor([1e-9], dtype=torch.float64)
    assert measure("output 0", torch.zeros(1).half(), gold, gold.half(), Rule(4.0, 2.0**-10)).right


def test_integers_are_exact_and_the_first_that_differs_is_told():
    native = torch.arange(12).reshape(3, 4)
    got = native.clone()
    got[1, 2] = 99
    measured = measure("output 0", got, native, native, FP32)
    assert (measured.wrong_exact, measured.index, measured.value) == (1, (1, 2), 99.0)


def test_complex_numbers_are_compared_part_by_part():
    gold = torch.tensor([1 + 2j], dtype=torch.complex128)
    native = gold.to(torch.complex64)
    assert measure("output 0", native, gold, native, FP32).right
    assert not measure("output 0", native + 0.1j, gold, native, FP32).right


def test_constants_come_from_the_problem_then_tf32_then_the_dtype():
    own = {"float32": Tolerance(factor=3.0, eps=0.5)}
    assert rule_for(torch.float32, own, tf32=True) == Rule(3.0, 0.5)
    assert rule_for(torch.float32, {}, tf32=True) == Rule(4.0, 2.0**-10)
    assert rule_for(torch.bfloat16, {}, tf32=True) == Rule(4.0, 2.0**-7)


@pytest.mark.parametrize(
    ("measured", "code"),
    [
        (Measured(what="output 0", dtype="float32", ratio=1.5), "error-above-bound"),
        (Measured(what="output 0", dtype="float32", low_variance=2.0), "low-variance-error"),
        (Measured(what="output 0", dtype="float32", wrong_finite=1), "non-finite"),
        (Measured(what="output 0", dtype="int64", wrong_exact=1), "error-above-bound"),
        (Measured(what="input 0 after the call", dtype="int64", kept=True), "input-modified"),
        (Measured(what="w after the call", dtype="float32", kept=True), "state-modified"),
        (
            Measured(what="m after the call", dtype="float32", ratio=9.0, untouched=True),
            "side-effect-missing",
        ),
    ],
)
def test_a_measurement_names_its_fault(measured, code):
    (finding,) = check_numbers(Compared(measured=(measured,)))
    assert finding.code == f"correctness.{code}"


def test_bytes_written_around_an_input_are_out_of_bounds():
    (finding,) = check_numbers(Compared(measured=(), overrun=(1,)))
    assert finding.code == "correctness.out-of-bounds"


def test_the_fp64_answer_does_not_round_where_the_reference_casts():
    class Casting(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.full((3,), 1 / 3)

        def forward(self, x):
            low = (x.half() * self.table).bfloat16()
            return low.float() + torch.zeros(3) + torch.tensor(0.1)

    model = Casting()
    with in_fp64():
        out = widened(model)(torch.full((3,), 1 / 7, dtype=torch.float64))
    table = float(torch.full((1,), 1 / 3))
    assert out.dtype is torch.float64
    assert out[0] == pytest.approx(table / 7 + 0.1, rel=1e-15)
    assert torch.get_default_dtype() is torch.float32


def test_work_is_counted_per_operator_and_attention_as_one():
    q = torch.randn(2, 3, 64, 16, device="meta")
    table = torch.randn(1000, 8, device="meta")
    rows = torch.zeros(5, dtype=torch.int64, device="meta")
    counting = Counting()
    with whole(counting):
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
        table[rows]
        (q.transpose(-1, -2) @ q).relu()
    by_name = {one.name: one for one in counting.operators}
    assert by_name["aten.scaled_dot_product_attention"].matrix_flops == 4 * q.numel() * 64
    assert by_name["aten.scaled_dot_product_attention"].bytes == 2 * 4 * q.numel()
    assert by_name["aten.bmm"].matrix_flops == 2 * 6 * 16 * 16 * 64
    assert by_name["aten.index"].bytes == 2 * 4 * 5 * 8 + 8 * 5
    assert counting.read_of([table]) == 4 * 5 * 8
    assert counting.read_of([q]) == 4 * q.numel()
