"""The rules of the correctness stage, one by one: bound, masks, spread, cases, structure."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from workbench.gate.correctness.cases import (
    FAR_OUT,
    ORDERED,
    SPECIAL,
    Case,
    Effort,
    Poison,
    derive,
    plan,
)
from workbench.gate.correctness.compare import Rule, measure, rule_for
from workbench.gate.correctness.gold import in_fp64, widened
from workbench.gate.correctness.layout import (
    copied,
    guards_hold,
    inside,
    overlap,
    raise_guards,
    same_bits,
)
from workbench.gate.correctness.layout import entry as entry_of
from workbench.gate.correctness.nest import (
    ForeignLeaf,
    aligned,
    difference,
    flatten,
    rebuild,
    tensor_paths,
)
from workbench.gate.correctness.numbers import check_numbers
from workbench.gate.correctness.protocol import (
    Compared,
    Expected,
    Made,
    Measured,
    OutputFacts,
    Returned,
    TensorEntry,
    decode,
    encode,
)
from workbench.gate.correctness.structure import check_state, check_structure
from workbench.gate.correctness.values import CENTRE, apply_case, perturb_state
from workbench.gate.problem.counting import Counting, whole
from workbench.isolation.wire import Blob
from workbench.problems.records import Tolerance

FP32 = Rule(64.0, 2.0**-23)
SECRET = bytes(range(16))


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


# -- cases ---------------------------------------------------------------------------------------


@given(st.binary(min_size=16, max_size=16))
@settings(max_examples=30)
def test_a_plan_has_every_case_and_half_of_each_poison(seed):
    calls = plan(seed, "tiny", Effort.ALL, floats=True)
    assert len(calls) == 11
    assert calls[0].case is Case.FRESH
    assert not calls[0].same_storage
    assert [call.case for call in calls[-3:]] == [Case.FRESH, Case.EDITED, Case.FRESH]
    assert {call.case for call in calls} == set(Case) - {*FAR_OUT, *ORDERED, *SPECIAL}
    assert sum(call.poison is Poison.NAN for call in calls) in {5, 6}
    assert [call.perturb is not None for call in calls[-3:]].count(True) == 1
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


# -- answers -------------------------------------------------------------------------------------


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


# -- structure -----------------------------------------------------------------------------------


def described(*shape: int, dtype: str = "float32", name: str = "") -> TensorEntry:
    size = 4 * math.prod(shape)
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return TensorEntry(name=name, dtype=dtype, shape=shape, strides=strides, bytes=size)


def returned(*entries: TensorEntry, storage: int = 1 << 20, overlaps: tuple[str, ...] = ()):
    value = tuple(torch.empty(0) for _ in entries) if len(entries) != 1 else torch.empty(0)
    facts = [
        OutputFacts(
            entry=one, device="cpu", storage_bytes=storage, offset_bytes=0, overlaps=overlaps
        )
        for one in entries
    ]
    return Returned(outputs=flatten(value, lambda _: "")[0], facts=tuple(facts))


def blobs(*entries: TensorEntry) -> list[Blob]:
    return [
        Blob(dtype=e.dtype, shape=e.shape, strides=e.strides, data=bytes(e.bytes)) for e in entries
    ]


def made(*entries: TensorEntry, aliased: bool = False) -> Made:
    value = tuple(torch.empty(0) for _ in entries) if len(entries) != 1 else torch.empty(0)
    nest = flatten(value, lambda _: "")[0]
    expected = tuple(Expected(entry=e, aliased=aliased) for e in entries)
    return Made(
        inputs=nest, entries=(), outputs=nest, expected=expected, changes_state=False, fp64=True
    )


def codes(*arguments) -> list[str]:
    return [f.code.removeprefix("correctness.") for f in check_structure(*arguments, "cpu")]


def test_structure_is_read_from_the_blobs_not_from_the_workers_word():
    want, small = described(4, 4), described(2, 2)
    honest = returned(want)
    assert codes(made(want), honest, blobs(want)) == []
    assert codes(made(want), honest, blobs(small)) == ["wrong-shape"]
    assert codes(made(want), honest, blobs(described(4, 4, dtype="int32"))) == ["wrong-dtype"]
    assert codes(made(want), honest, []) == ["wrong-structure"]
    assert codes(made(want), Returned(), []) == ["wrong-structure"]
    assert codes(made(want, want), honest, blobs(want)) == ["wrong-structure"]


def test_an_output_belongs_where_the_inputs_are():
    want = described(4, 4)
    (finding,) = check_structure(made(want), returned(want), blobs(want), "cuda:0")
    assert finding.code == "correctness.wrong-device"


def test_an_output_must_lie_in_memory_of_its_own():
    want = described(4, 4)
    assert codes(made(want), returned(want, storage=60), blobs(want)) == ["wrong-structure"]
    for owner, code in {
        "input 0": "aliases-input",
        "the state's weight": "aliases-state",
        "an output of an earlier call": "aliases-earlier-output",
    }.items():
        assert codes(made(want), returned(want, overlaps=(owner,)), blobs(want)) == [code]
        aliased = made(want, aliased=True)
        assert codes(aliased, returned(want, overlaps=(owner,)), blobs(want)) == []


def test_state_needs_the_references_names_shapes_and_dtypes_and_may_have_more():
    want = [described(3, name="weight")]
    assert check_state(want, [*want, described(9, name="scratch")]) == []
    for wrong in ([], [described(4, name="weight")], [described(3, name="weight", dtype="int8")]):
        assert check_state(want, wrong)[0].code == "correctness.state-dict-differs"


NESTS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.just(torch.float16),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(NESTS)
@settings(max_examples=60)
def test_a_nesting_crosses_the_border_and_comes_back(value):
    nest, tensors = flatten(value, lambda leaf: f"a {type(leaf).__name__}")
    message = Returned(outputs=nest)
    again = decode(encode(message), Returned).outputs
    assert again == nest
    assert rebuild(again, tensors) == value


def test_tensors_keep_their_order_whatever_the_order_of_keys():
    x, y = torch.ones(1), torch.zeros(1)
    want, _ = flatten({"a": x, "b": [y]}, lambda _: "")
    got, _ = flatten({"b": (y,), "a": x}, lambda _: "")
    assert tensor_paths(want) == ("a", "b.0")
    assert difference(want, got) == ""
    assert aligned(want, got) == [1, 0]


@pytest.mark.parametrize(
    ("got", "says"),
    [
        ([1.0], "a list of 1 instead of a list of 2"),
        ({"a": 1.0, "b": 2.0}, "a dict of 2 instead of a list of 2"),
        ([1.0, [2.0]], "a list of 1 at `1` instead of the float 2.0"),
        ([1.0, object()], "an object at `1` instead of the float 2.0"),
        ([1.0, {1: 2.0}], "a dict with keys that are not text at `1` instead of the float 2.0"),
    ],
)
def test_a_difference_in_nesting_is_told_with_its_place(got, says):
    want, _ = flatten([1.0, 2.0], lambda _: "an object")
    found, _ = flatten(got, lambda _: "an object")
    assert difference(want, found) == says


def test_what_cannot_cross_is_never_rebuilt():
    with pytest.raises(ValueError, match="a thread"):
        rebuild(ForeignLeaf("a thread"), [])


def test_guards_notice_a_byte_on_either_side():
    tensor = torch.randn(5, 3).t()
    place = entry_of("", tensor)
    for at in (0, 4095, -1, -4096):
        buffer = torch.empty(place.bytes + 2 * 4096, dtype=torch.uint8)
        raise_guards(buffer)
        inside(buffer, place).copy_(tensor)
        assert guards_hold(buffer)
        assert same_bits(inside(buffer, place), tensor)
        buffer[at] += 1
        assert not guards_hold(buffer)


def test_bits_tell_zeros_apart_and_nans_together():
    zeros, negative = torch.zeros(2), -torch.zeros(2)
    assert not same_bits(zeros, negative)
    assert same_bits(torch.full((2,), math.nan), torch.full((2,), math.nan))
    assert same_bits(torch.ones(2, 3).t(), torch.ones(3, 2))
    assert not same_bits(torch.ones(2), torch.ones(2).double())
