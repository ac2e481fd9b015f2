"""Conditions: what may be written, and that unknown is never mistaken for yes or no."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.kernels.facts_catalogue import CATALOGUE, FactSpec
from workbench.kernels.records import Fact
from workbench.skills.conditions import (
    ConditionFault,
    Unknown,
    check,
    evaluate,
    evaluate_value,
    parse,
    parse_value,
    render,
)
from workbench.skills.conditions_terms import (
    All,
    Any,
    Arithmetic,
    Choice,
    Comparison,
    Constant,
    FactName,
    Negative,
    Not,
)
from workbench.skills.records import Truth


def facts(**values):
    """Facts of the catalogue; a double underscore stands for the dot."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    return {
        name: Fact(name=name, value=value, source=CATALOGUE[name].source, says="")
        for name, value in named.items()
    }


def answer(text, **values):
    return evaluate(parse(text), facts(**values))


def test_a_comparison_shows_the_values_and_the_answer():
    got = answer("static.registers < 104", static__registers=96)
    assert (got.truth, got.because) == (Truth.YES, "96 < 104 -> yes")
    got = answer("loop.trip_count >= 3 and device.cc >= 80", loop__trip_count=2, device__cc=90)
    assert (got.truth, got.because) == (Truth.NO, "2 >= 3 -> no")


def test_an_unknown_fact_is_named_and_gives_unknown():
    got = answer("static.registers < 104")
    assert (got.truth, got.because) == (Truth.UNKNOWN, "static.registers unknown")


def test_a_decided_side_outweighs_an_unknown_one():
    assert answer("static.registers < 9 and device.cc >= 90", device__cc=80).truth is Truth.NO
    assert answer("static.registers < 9 or device.cc >= 90", device__cc=90).truth is Truth.YES
    assert answer("static.registers < 9 and device.cc >= 90", device__cc=90).truth is Truth.UNKNOWN
    assert answer("not static.registers < 9").truth is Truth.UNKNOWN


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("10 / device.sms > 1", "device.sms is 0 in 10 / device.sms"),
        ("10 % device.sms > 1", "device.sms is 0 in 10 % device.sms"),
        ("10 // device.sms > 1", "device.sms is 0 in 10 // device.sms"),
    ],
)
def test_division_by_zero_is_unknown_with_its_reason(text, because):
    got = answer(text, device__sms=0)
    assert (got.truth, got.because) == (Truth.UNKNOWN, because)


def test_a_fact_of_the_wrong_type_is_unknown_with_its_reason():
    got = answer("static.registers < 9", static__registers="many")
    assert got.truth is Truth.UNKNOWN
    assert got.because == "static.registers is 'many', not a number"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_not_finite_is_unknown(value):
    assert answer("profile.efficiency > 0.5", profile__efficiency=value).truth is Truth.UNKNOWN


def test_membership_in_constants_and_in_a_set_of_names():
    assert (
        answer('problem.family in ("gemm", "attention")', problem__family="gemm").because
        == "gemm in ('gemm', 'attention') -> yes"
    )
    assert answer("launch.num_warps not in (4, 8)", launch__num_warps=4).truth is Truth.NO
    tried = answer('"warps" in history.tried', history__tried=("tile", "warps"))
    assert (tried.truth, tried.because) == (Truth.YES, "warps in (tile, warps) -> yes")


def test_an_empty_fact_set_is_known():
    assert answer('"warps" in history.tried', history__tried=()).truth is Truth.NO


def test_a_chain_of_comparisons_holds_when_every_link_holds():
    assert answer("1 < launch.waves <= 2", launch__waves=1.5).truth is Truth.YES
    assert answer("1 < launch.waves <= 2", launch__waves=3.0).because == "3 <= 2 -> no"


def test_a_check_carries_the_words_and_the_expression():
    got = check("few registers", parse("static.registers < 104"), facts(), "storage")
    assert (got.says, got.when, got.category) == (
        "few registers",
        "static.registers < 104",
        "storage",
    )


def test_an_expression_of_numbers_can_be_valued():
    value = parse_value("2 * device.sms")
    assert evaluate_value(value, facts(device__sms=132)) == 264
    assert evaluate_value(value, {}) == Unknown("device.sms unknown")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("static.register < 9", "the nearest is `static.registers`"),
        ("loop.trips > 1", "the nearest is `loop.trip_count`"),
        ("static.registers", "is a number, not a yes or no"),
        ("static.registers < 'x'", "compares a number with a text"),
        ("code.has_mask < code.rereads_input", "orders a yes or no"),
        ("static.registers and code.has_mask", "is a number where a yes or no is wanted"),
        ("problem.family + 1 > 2", "is a text where a number is wanted"),
        ("launch.num_warps in history.tried", "looks for a text in a set of names"),
        ("launch.num_warps in ()", "is empty"),
        ("launch.num_warps in (4, 'x')", "must hold constants, each a number"),
        ("code.has_mask is True", "compares with `is`"),
        ("history.tried == history.accepted", "compares a set of names with a set of names"),
        ("len(history.tried) > 1", "is not allowed in a condition"),
        ("static.registers ** 2 > 4", "is not allowed in a condition"),
        ("[x for x in history.tried] == 1", "is not allowed in a condition"),
        ("(lambda: 1)() > 0", "is not allowed in a condition"),
        ("__import__('os').system('true') > 0", "is not allowed in a condition"),
        ("f'{device.cc}' == 'x'", "is not allowed in a condition"),
        ("None == None", "is not allowed in a condition"),
        ("(device.cc := 4) > 1", "is not an expression"),
        ("device.cc >", "is not an expression"),
        ("", "is not an expression"),
        ("1e999 > device.cc", "is too large"),
        ("device.cc > " + "1 + " * 400 + "1", "longer than"),
        ("not " * 240 + "code.has_mask", "nested too deeply"),
    ],
)
def test_what_is_not_a_condition_is_refused_with_the_reason(text, says):
    with pytest.raises(ConditionFault) as caught:
        parse(text)
    assert says in str(caught.value)


def test_the_catalogue_states_a_lawful_spec_for_every_fact():
    import msgspec

    for name, spec in CATALOGUE.items():
        assert msgspec.convert(msgspec.to_builtins(spec), FactSpec) == spec
        assert name == spec.name
        assert spec.says


# Generated conditions, over a catalogue of their own.
SPECS = {
    **{f"n.{x}": FactSpec(f"n.{x}", "number", "", "code", "a number") for x in "abc"},
    **{f"f.{x}": FactSpec(f"f.{x}", "flag", "", "code", "a flag") for x in "abc"},
    "t.a": FactSpec("t.a", "text", "", "code", "a text"),
    "s.a": FactSpec("s.a", "names", "", "code", "a set"),
}
VALUES = {
    "number": st.integers(-3, 3) | st.floats(allow_nan=True, allow_infinity=True),
    "flag": st.booleans(),
    "text": st.sampled_from(["x", "y"]),
    "names": st.sampled_from([(), ("x",), ("x", "y")]),
}


def made(kind):
    return st.sampled_from(
        [FactName(name, spec.type) for name, spec in SPECS.items() if spec.type == kind]
    )


CONSTANTS = (st.integers(-3, 3) | st.floats(-4, 4)).map(Constant)
NUMBERS = st.recursive(
    CONSTANTS | made("number"),
    lambda inner: (
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner, inner)
        | st.builds(Negative, made("number"))
    ),
    max_leaves=4,
)
TEXTS = st.sampled_from(["x", "y"]).map(Constant) | made("text")
COMPARISONS = (
    st.builds(Comparison, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), NUMBERS, NUMBERS)
    | st.builds(Comparison, st.sampled_from(["==", "!="]), TEXTS, TEXTS)
    | st.builds(Comparison, st.sampled_from(["in", "not in"]), TEXTS, made("names"))
    | st.builds(
        Comparison,
        st.sampled_from(["in", "not in"]),
        NUMBERS,
        st.lists(CONSTANTS, min_size=1, max_size=3).map(lambda x: Choice(tuple(x))),
    )
)
FLAGS = st.recursive(
    COMPARISONS | made("flag") | st.booleans().map(Constant),
    lambda inner: (
        st.builds(Not, inner)
        | st.lists(inner, min_size=2, max_size=3).map(lambda x: All(tuple(x)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda x: Any(tuple(x)))
    ),
    max_leaves=6,
)
KNOWN = st.fixed_dictionaries({name: st.none() | VALUES[spec.type] for name, spec in SPECS.items()})


def stated(values):
    return {n: Fact(name=n, value=v, source="code", says="") for n, v in values.items()}


def truth(term, values):
    return evaluate(parse(render(term), SPECS), stated(values)).truth


@given(FLAGS)
def test_a_condition_survives_being_written_and_read(term):
    text = render(term)
    assert render(parse(text, SPECS).term) == text


@given(FLAGS, FLAGS, KNOWN)
def test_de_morgan_holds_with_unknowns(a, b, values):
    assert truth(Not(All((a, b))), values) is truth(Any((Not(a), Not(b))), values)
    assert truth(Not(Any((a, b))), values) is truth(All((Not(a), Not(b))), values)


@given(FLAGS, KNOWN)
def test_a_double_negation_changes_nothing(term, values):
    assert truth(Not(Not(term)), values) is truth(term, values)


@given(FLAGS, KNOWN, st.data())
def test_learning_an_unknown_never_overturns_an_answer(term, values, data):
    before = truth(term, values)
    learned = {
        name: data.draw(VALUES[SPECS[name].type]) if value is None else value
        for name, value in values.items()
    }
    if before is not Truth.UNKNOWN:
        assert truth(term, learned) is before


@given(FLAGS, KNOWN)
def test_every_answer_says_why(term, values):
    got = evaluate(parse(render(term), SPECS), stated(values))
    assert got.because
    if got.truth is Truth.UNKNOWN:
        assert any(word in got.because for word in ("unknown", " is ", "too large"))


ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=4)
    | st.lists(st.text(max_size=2), max_size=2).map(tuple)
)


@given(FLAGS, st.dictionaries(st.sampled_from(sorted(SPECS)), ODD))
def test_facts_of_any_type_give_an_answer_and_never_an_exception(term, values):
    odd = {n: Fact(name=n, value=v, source="code", says="") for n, v in values.items()}
    assert evaluate(parse(render(term), SPECS), odd).truth in set(Truth)


@given(FLAGS, KNOWN)
def test_only_facts_that_a_condition_names_decide_it(term, values):
    condition = parse(render(term), SPECS)
    named = {n: v for n, v in values.items() if n in condition.facts}
    assert evaluate(condition, stated(named)) == evaluate(condition, stated(values))


@given(FLAGS, FLAGS, KNOWN)
def test_and_and_or_do_not_depend_on_the_order_of_their_sides(a, b, values):
    assert truth(All((a, b)), values) is truth(All((b, a)), values)
    assert truth(Any((a, b)), values) is truth(Any((b, a)), values)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(ConditionFault):
        parse(text)


def test_near_numbers_that_differ_are_told_with_all_their_digits():
    name = "trace.sector_efficiency"
    known = {name: Fact(name=name, value=0.1 + 0.2, source="trace", says="")}
    answer = evaluate(parse(f"{name} == 0.3"), known)
    assert (answer.truth, answer.because) == (Truth.NO, "0.30000000000000004 == 0.3 -> no")
    assert evaluate(parse(f"{name} < 0.31"), known).because == "0.3 < 0.31 -> yes"


def test_a_very_long_number_is_told_by_its_first_digits():
    assert len(evaluate(parse(f"1{'0' * 400} > 1"), {}).because) < 30


def test_a_condition_may_go_over_several_lines():
    text = "\ncode.loop_count > 1  # passes\nand device.cc >= 80\n"
    read = parse(text)
    assert read.facts == ("code.loop_count", "device.cc")
    assert read.text == "code.loop_count > 1 and device.cc >= 80"
    for wrong in ("code.loop_count > 1) or (\ncode.loop_count > 2", "code.loop_count > 1\nor"):
        with pytest.raises(ConditionFault, match="is not an expression"):
            parse(wrong)
