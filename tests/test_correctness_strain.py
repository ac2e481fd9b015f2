"""Numbers that strain a reference: what may be asked of a kernel there, and what only moves."""

import pytest
import torch

from workbench.gate.correctness.cases import SHRUNK, Case
from workbench.gate.correctness.choices import Choice, Operator, as_right
from workbench.gate.correctness.compare import moved, rule_for
from workbench.gate.correctness.comparing import Answered, Comparison, Kind, Plain
from workbench.gate.correctness.gold import nudged
from workbench.gate.correctness.nest import Branch, TensorLeaf
from workbench.gate.correctness.oracle import Oracle
from workbench.gate.correctness.values import FACTORS, apply_case
from workbench.problems.records import Precision

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return {answer}

def get_inputs():
    return [torch.randn(8, 64)]

def get_init_inputs():
    return []
"""
NEST = Branch("list", (TensorLeaf(0),))


def fp32(dtype):
    return rule_for(dtype, {}, tf32=False)


def compared(answer, case, candidate, kind=Kind.STRAINED):
    """What the candidate's answer to such inputs measures."""
    source = PROBLEM.format(answer=answer)
    oracle = Oracle(source, {}, seed=1, precision=Precision.IEEE, device="cpu")
    drawn = oracle.draw(3)[1]
    inputs = apply_case(case, drawn, None, 3)
    native = oracle.native(NEST, inputs)
    gold = oracle.gold(NEST, inputs, native)
    plain = Plain(drawn, FACTORS[case]) if case in SHRUNK else None
    case_of = Answered(NEST, inputs, native, gold, kind, plain)
    comparison = Comparison(case_of, rule=fp32, selections=(), oracle=oracle)
    (found,) = comparison.measured([candidate(inputs[0])])
    return found


def one_pass(x):
    return (x * x).mean(-1) - x.mean(-1) ** 2


def two_passes(x):
    total = torch.zeros(x.shape[0])
    for column in x.unbind(-1):
        total = total + column
    centred = x - (total / x.shape[1])[:, None]
    return (centred * centred).mean(-1)


@pytest.mark.parametrize("case", [Case.BELOW, Case.APART])
def test_a_variance_in_one_pass_is_noise_on_an_offset_and_two_passes_are_not(case):
    stable = "x.var(-1, unbiased=False)"
    assert not compared(stable, case, one_pass).right
    found = compared(stable, case, two_passes)
    assert found.right
    assert found.elements == 8


def test_of_an_unstable_reference_nothing_is_asked_on_an_offset():
    unstable = "(x * x).mean(-1) - x.mean(-1) ** 2"
    for candidate in (two_passes, one_pass, lambda x: x.mean(-1) * torch.nan):
        assert compared(unstable, Case.BELOW, candidate).right


def test_what_rounding_decides_on_an_offset_is_not_held_against_a_kernel():
    """The error of a sum of many numbers is more than a spacing of one of them."""
    oracle = Oracle(PROBLEM.format(answer="x"), {}, seed=1, precision=Precision.IEEE, device="cpu")
    (x,) = apply_case(Case.BELOW, oracle.draw(3)[1], None, 3)
    edge = float(x[0].double().sum()) * (1 + 2e-7)
    answer = f"torch.where(x.double().sum(-1) > {edge!r}, 1.0, -1.0).float()"

    def rounds(x):
        return torch.where(x.double().sum(-1) * (1 + 4e-7) > edge, 1.0, -1.0)

    assert not torch.equal(rounds(x), torch.where(x.double().sum(-1) > edge, 1.0, -1.0))
    assert compared(answer, Case.BELOW, rounds).right


def test_what_the_reference_itself_decides_by_rounding_is_not_asked():
    """Its own run may be right by luck, and inputs that are a little off may change nothing."""

    def below(x):
        return torch.full_like(x[:, :1], -1.0)

    lucky = "torch.where((x[:, :1] * 0 + 1) / 3 * 3 >= 1, 1.0, -1.0)"
    found = compared(lucky, Case.BELOW, below)
    assert found.right
    assert not found.elements
    certain = "torch.where((x[:, :1] * 0 + 1) / 3 * 3 >= 0.5, 1.0, -1.0)"
    assert not compared(certain, Case.BELOW, below).right


def test_of_a_reference_that_is_not_finite_there_nothing_is_asked():
    assert compared("x.exp()", Case.APART, lambda x: x * 0).right
    assert compared("x.log()", Case.BELOW, lambda x: x * 0).right


def test_a_maximum_that_begins_at_zero_has_no_softmax_far_below():
    def from_zero(x):
        e = (x - x.amax(-1, keepdim=True).clamp(min=0)).exp()
        return e / e.sum(-1, keepdim=True)

    assert compared("x.softmax(-1)", Case.BELOW, from_zero).wrong_finite
    assert compared("x.softmax(-1)", Case.BELOW, lambda x: x.softmax(-1)).right


@pytest.mark.parametrize(
    ("moves", "function"),
    [
        (True, lambda x: x.sort(-1).values),
        (True, lambda x: x.amax(-1)),
        (True, torch.relu),
        (True, lambda x: x.bfloat16() if x.dtype is torch.float32 else x),
        (True, lambda x: x.T.contiguous()),
        (False, lambda x: x * 2),
        (False, lambda x: x.softmax(-1)),
        (False, lambda x: x.sum(-1)),
        (False, torch.sign),
        (False, torch.zeros_like),
    ],
)
def test_what_only_moves_numbers_is_told_from_what_computes(moves, function):
    x = torch.randn(30, 40)
    assert moved(function(x.double()), function(x), [x]) is moves


def test_numbers_that_are_moved_must_arrive_as_they_were():
    def off(x):
        return x.sort(-1).values * (1 + 2.0**-22)

    sorted_ = "x.sort(-1).values"
    assert compared(sorted_, Case.FRESH, off, Kind.DRAWN).wrong_exact
    assert compared(sorted_, Case.FRESH, lambda x: x.sort(-1).values, Kind.DRAWN).right


def test_what_is_computed_beside_numbers_that_are_moved_may_round_in_its_own_way():
    leaky = "torch.where(x > -1, x, x * 0.75)"

    def times(slope, kept=1.0):
        return lambda x: torch.where(x > -1, x * kept, x * slope)

    def judged(candidate):
        return compared(leaky, Case.FRESH, candidate, Kind.DRAWN)

    assert judged(times(0.75 * (1 + 2.0**-22))).right
    assert judged(times(0.75, kept=1 + 2.0**-22)).wrong_exact
    assert judged(times(0.7501)).ratio > 1


def tiny(answer, candidate):
    return compared(answer, Case.TINY, candidate, Kind.CHANGED)


@pytest.mark.parametrize(
    ("answer", "candidate"),
    [
        ("torch.nn.functional.elu(x)", lambda x: torch.where(x > 0, x, x.exp() - 1)),
        ("x.tanh()", lambda x: 2 * (2 * x).sigmoid() - 1),
        ("x.log1p()", lambda x: (1 + x).log()),
    ],
)
def test_a_small_answer_may_have_come_of_numbers_near_one(answer, candidate):
    assert tiny(answer, candidate).right
    assert not tiny(answer, lambda x: candidate(x) * 0).right
    assert not tiny(answer, lambda x: candidate(x) * 2).right


def test_of_a_reference_that_only_scales_small_answers_are_asked_in_full():
    assert not tiny("x * 0.5", lambda x: ((1 + x) - 1) * 0.5).right
    assert not tiny("x @ x.T", lambda x: (1e-6 + x @ x.T) - 1e-6).right
    assert tiny("x @ x.T", lambda x: (x.double() @ x.double().T).float()).right


def test_a_maximum_that_leaves_out_either_end_of_a_row_overflows_where_that_is_a_peak():
    def without(part):
        def softmax(x):
            e = (x - x[:, part].amax(-1, keepdim=True)).exp()
            return e / e.sum(-1, keepdim=True)

        return softmax

    for part in (slice(1, None), slice(None, -1)):
        assert compared("x.softmax(-1)", Case.PEAKED, without(part)).wrong_finite
    assert compared("x.softmax(-1)", Case.PEAKED, without(slice(None))).right


@pytest.mark.parametrize("below", [9.0, 12.0])
def test_what_is_small_in_itself_is_missed_in_a_sum_of_many(below):
    def cut(x):
        apart = x - x.amax(-1, keepdim=True)
        e = apart.exp() * (apart > -below)
        return e / e.sum(-1, keepdim=True)

    assert compared("x.softmax(-1)", Case.PLATEAU, cut).ratio > 1
    assert compared("x.softmax(-1)", Case.PLATEAU, lambda x: x.softmax(-1)).right


@pytest.mark.parametrize("least", [1e-2, 1e-4])
def test_a_block_that_is_small_beside_the_largest_is_missed(least):
    def blocks(x, least):
        scale = x.view(8, 8, 8).abs().amax(-1, keepdim=True)
        kept = scale >= least * scale.amax((0, 1), keepdim=True)
        return (x.view(8, 8, 8) * kept).view(8, 64).sum(-1)

    assert compared("x.sum(-1)", Case.STEEP, lambda x: blocks(x, least)).ratio > 1
    assert compared("x.sum(-1)", Case.STEEP, lambda x: blocks(x, 0.0)).right


def test_a_short_series_is_told_between_drawn_numbers_and_tiny_ones():
    def series(x):
        return torch.where(x.abs().amax() < 0.05, x * 0.5, torch.nn.functional.gelu(x))

    gelu = "torch.nn.functional.gelu(x)"
    assert compared(gelu, Case.TINY, series, Kind.CHANGED).right
    assert compared(gelu, Case.SMALL, series, Kind.CHANGED).ratio > 1


def test_what_a_reference_magnifies_is_excused_as_far_as_its_own_roundings_go():
    """`sin(10,000 x)`: a few spacings of the product are 0.01 of the answer, and no more."""
    wild = "(x * 1e4).sin()"
    for apart, right in ((2.0**-23, True), (5e-6, False)):
        found = compared(wild, Case.FRESH, lambda x, a=apart: (x * (1 + a) * 1e4).sin(), Kind.DRAWN)
        assert found.right is right


@pytest.mark.parametrize(("column", "sign"), [(9, 1), (22, 1), (52, -1)])
def test_where_an_answer_jumps_another_rounding_may_jump_a_little_further(column, sign):
    """As attention does far from zero, where its softmax takes one key or another."""

    def nudged_first(x):
        (near,) = nudged([x.double()], sign * 64 * 2.0**-23, 0)
        return ((near[:, column] * 1e4).softmax(-1) @ near).float()

    found = compared(f"(x[:, {column}] * 1e4).softmax(-1) @ x", Case.BELOW, nudged_first)
    assert found.right
    assert found.elements == 64
    assert 0.4 < found.ratio < 0.6


def by_keys(bits):
    """The largest of each row, and where it is, by what is left of a number without such bits."""

    def largest(x):
        whole = x.view(torch.int32)
        keys = torch.where(whole < 0, whole ^ 0x7FFFFFFF, whole) >> bits
        return x.gather(-1, keys.argmax(-1, keepdim=True))

    return largest


@pytest.mark.parametrize("bits", [1, 6])
def test_numbers_that_are_selected_are_not_near_ones(bits):
    largest = "x.max(-1, keepdim=True).values"
    found = compared(largest, Case.CLOSE, by_keys(bits))
    assert found.wrong_exact
    assert compared(largest, Case.CLOSE, by_keys(0)).right
    assert compared(largest, Case.FRESH, by_keys(0), Kind.DRAWN).selected
    assert not compared("(2 * x).max(-1).values", Case.FRESH, lambda x: x[:, 0]).selected


def test_places_of_near_numbers_are_asked_for_where_no_rounding_is_on_the_way():
    def at(bits):
        return lambda x: (x == by_keys(bits)(x)).int().argmax(-1)

    assert compared("x.argmax(-1)", Case.CLOSE, at(6)).wrong_exact
    assert compared("x.argmax(-1)", Case.CLOSE, at(0)).right


@pytest.mark.parametrize(("whole", "right"), [(True, False), (False, True)])
def test_of_a_part_of_a_row_an_exchanged_tie_may_stand_beside_the_reference_s_own(whole, right):
    """Where a place is unknown, the reference's stands in for it; 1 and 2 hold equal numbers."""
    source = torch.tensor([[3.0, 2.0, 2.0, 1.0]])
    native = torch.tensor([[0, 1, 2]])
    operator = Operator(many=True, first=False, values=0, places=1)
    choice = Choice(operator, source, native, None, 1, sorted=True)

    def excused(*places):
        got = torch.tensor([places])
        return as_right(choice, source.double(), got, native, 0.0, whole=whole)[0].tolist()

    assert excused(0, 2, 2)[1] is right
    assert excused(0, 2, 1) == [True, True, True]
    assert excused(0, 3, 2)[1] is False
