"""The inputs that a candidate meets: which cases in which plan, and what each does to a draw."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from workbench.gate.correctness.cases import (
    BESIDE,
    FAR_OUT,
    ORDERED,
    SPECIAL,
    Case,
    Effort,
    Poison,
    derive,
    plan,
)
from workbench.gate.correctness.layout import (
    copied,
    overlap,
)
from workbench.gate.correctness.values import CENTRE, apply_case, perturb_state

SECRET = bytes(range(16))


@given(st.binary(min_size=16, max_size=16))
@settings(max_examples=30)
def test_a_plan_has_every_case_and_half_of_each_poison(seed):
    calls = plan(seed, "tiny", Effort.ALL, floats=True)
    assert len(calls) == 11
    assert calls[0].case is Case.FRESH
    assert not calls[0].same_storage
    assert [call.case for call in calls[-3:]] == [Case.FRESH, Case.EDITED, Case.FRESH]
    assert {call.case for call in calls} == set(Case) - {*FAR_OUT, *BESIDE, *SPECIAL, Case.CROWDED}
    assert sum(call.poison is Poison.NAN for call in calls) in {5, 6}
    (built,) = (call.number for call in calls if call.as_built)
    assert [call.number for call in calls if call.perturb is not None] == [built + 1]
    assert calls[built].case in {Case.FRESH, Case.EDITED}
    assert len({call.seed for call in calls}) == 11
    assert all(call.same_storage for call in calls if call.case is Case.KEPT_ENDS)
    assert calls == plan(seed, "tiny", Effort.ALL, floats=True)


def test_seeds_and_shapes_give_plans_of_their_own():
    other = plan(SECRET[::-1], "tiny", Effort.ALL, floats=True)
    assert plan(SECRET, "tiny", Effort.ALL, floats=True) != other
    assert derive(SECRET, "a", "b") != derive(SECRET, "a/b", "c")
    whole_numbers = plan(SECRET, "tiny", Effort.ALL, floats=False)
    assert {call.case for call in whole_numbers} == {Case.FRESH, Case.KEPT_ENDS}


@pytest.mark.parametrize("case", list(Case))
def test_a_case_keeps_layout_and_leaves_integers_alone(case):
    base = torch.randn(6, 8)
    inputs = [base.t(), base[:, :1].expand(6, 5), torch.arange(4), torch.randn(3).half()]
    before = [copied(torch.randn(8, 6).t().t()), copied(inputs[1] * 0), torch.arange(4), inputs[3]]
    before[0] = copied(torch.randn(6, 8).t())
    made = apply_case(case, inputs, before, seed=5)
    for new, old in zip(made, inputs, strict=True):
        assert (new.shape, new.stride(), new.dtype) == (old.shape, old.stride(), old.dtype)
        assert not overlap(new, old)
    assert torch.equal(made[2], inputs[2])
    expected = {
        Case.FRESH: inputs[0],
        Case.CENTRED: (inputs[0].double() - CENTRE).float(),
        Case.LARGE: inputs[0] * 64,
        Case.TINY: inputs[0] * 2.0**-20,
        Case.HUGE: inputs[0] * 2.0**14,
        Case.VAST: inputs[0] * 2.0**40,
        Case.NEGATED: -inputs[0],
        Case.EQUAL: inputs[0][0, 0].expand(8, 6),
        Case.ZEROS: inputs[0] * 0,
    }
    if case in expected:
        assert torch.equal(made[0], expected[case])
    if case in ORDERED:
        rows = made[0].double() if case is Case.RISING else -made[0].double()
        assert (rows <= 0).all()
        assert (rows.diff(dim=-1) >= 0).all()
        assert torch.equal(made[0].abs().sort(-1).values, inputs[0].abs().sort(-1).values)
    if case is Case.ONES:
        assert set(made[0].unique().tolist()) == {0.0, 1.0}
    if case in SPECIAL:
        assert 1 <= sum(int((~torch.isfinite(one)).sum()) for one in made) <= 2
    if case is Case.OUTLIER:
        assert (made[0] != inputs[0]).sum() == 1
        assert made[0].max() == 300
    if case is Case.KEPT_ENDS:
        assert made[0][0, 0] == before[0][0, 0]
        assert made[0][-1, -1] == before[0][-1, -1]
        assert (made[0] == before[0]).sum() == 2
    if case is Case.EDITED:
        assert (made[0] != before[0]).sum() + (made[3] != before[3]).sum() <= 2


def test_an_outlier_is_never_what_a_variance_takes_as_its_shift():
    for seed in range(200):
        (made,) = apply_case(Case.OUTLIER, [torch.zeros(3, 1, 2)], None, seed=seed)
        place, along, last = made.nonzero()[0].tolist()
        assert place > 0
        assert (along, last) == (0, 1)


@pytest.mark.parametrize("case", [Case.BELOW, Case.APART, Case.GROWING, Case.FADING])
def test_a_straining_case_goes_far_from_zero_or_grows_along_both_dimensions(case):
    inputs = [torch.randn(8, 6), torch.randn(6, 1).expand(6, 5), torch.randn(3).half()]
    made = apply_case(case, inputs, None, seed=5)
    if case in (Case.BELOW, Case.APART):
        # Six tenths of the digits go to the offset: 2^14 spreads in fp32, 2^6 in fp16.
        above = -1 if case is Case.BELOW else 1
        moved = (made[0].double() - inputs[0].double()) / inputs[0].double().std(correction=0)
        assert torch.allclose(moved, torch.tensor(above * 16384.0).double(), rtol=1e-3)
        assert (made[1].max() < 0 < made[2].min()) == (case is Case.APART)
        return
    size = (made[0].double() / inputs[0].double()).abs()
    assert (made[0] >= 0).all()
    assert float(size[0, 0]) == pytest.approx(1 / 16 if case is Case.GROWING else 16)
    assert float(size[-1, -1]) == pytest.approx(16 if case is Case.GROWING else 1 / 16)
    assert (made[1] <= 0).all() == (case is Case.GROWING)


@given(st.integers(0, 2**60))
@settings(max_examples=20, deadline=None)
def test_an_edited_case_moves_one_short_stretch_of_some_float(seed):
    before = [torch.randn(40, 50), torch.arange(6), torch.randn(2000)]
    drawn = [torch.randn(40, 50), torch.arange(6), torch.randn(2000)]
    made = apply_case(Case.EDITED, drawn, before, seed)
    moved = [int((made[i] != before[i]).sum()) for i in (0, 2)]
    assert set(moved) in ({0, 31}, {31})


def test_weights_move_off_their_initial_values_and_variances_stay_positive():
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64))
    state = {name: t.clone() for name, t in model.state_dict().items()}
    before = {name: t.clone() for name, t in state.items()}
    perturb_state(state, 3)
    for name, tensor in state.items():
        assert torch.equal(tensor, before[name]) is (tensor.dtype is torch.int64), name
    assert state["1.running_var"].min() > 0
    # A deep network must not overflow: a matrix keeps its scale.
    assert state["0.weight"].square().mean() < 4 * before["0.weight"].square().mean()


def test_tied_weights_stay_tied():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    perturb_state(model.state_dict(), 3)
    assert torch.equal(model[0].weight, model[1].weight)


@given(st.integers(0, 2**60))
@settings(max_examples=20, deadline=None)
def test_a_crowd_is_of_one_number_that_was_there_and_keeps_ends_and_order(seed):
    drawn = [torch.randint(0, 9, (40, 50)), torch.arange(50), torch.arange(100) // 4]
    mixed, distinct, ordered = apply_case(Case.CROWDED, drawn, None, seed)
    counts = mixed.unique(return_counts=True)[1]
    assert 0.7 < int(counts.max()) / mixed.numel() < 0.85
    assert torch.isin(mixed, drawn[0]).all()
    assert (mixed[0, 0], mixed[-1, -1]) == (drawn[0][0, 0], drawn[0][-1, -1])
    assert torch.equal(distinct, drawn[1])
    assert (ordered.diff() >= 0).all()
    assert (ordered[0], ordered[-1]) == (0, 24)
