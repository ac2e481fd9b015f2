"""The quick look at a timed output: what is right passes, what is not is never let pass."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.gate.correctness.compare import rule_for
from workbench.gate.correctness.comparing import Answered
from workbench.gate.correctness.gold import Answer
from workbench.gate.correctness.nest import Branch
from workbench.gate.timing.screen import Screen

NEST = Branch("list", ())


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def drawn(seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(16, 64, generator=generator).to(dtype)


def answer(outputs, inputs) -> Answer:
    return Answer(NEST, outputs, inputs, {}, [False] * len(outputs), [], [])


def screen(x, native, gold, *, after=None, returns_only=True) -> Screen:
    after = x if after is None else after
    known = Answered(NEST, [x], answer(native, [after]), answer(gold, [x.double()]), True)
    return Screen(known, lambda dtype: rule_for(dtype, {}, tf32=False), returns_only=returns_only)


def of(dtype=torch.float32) -> Screen:
    x = drawn(0, dtype)
    return screen(x, [softmax(x)], [softmax(x.double())])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@settings(deadline=None)
@given(seed=st.integers(1, 10**6))
def test_the_same_work_in_another_order_passes(dtype, seed):
    x = drawn(seed, dtype)
    otherwise = softmax(x.double().flip(-1)).flip(-1).to(dtype)
    assert of(dtype).passes([otherwise], [softmax(x)])


@settings(deadline=None)
@given(seed=st.integers(1, 10**6), where=st.integers(0, 16 * 64 - 1))
def test_one_wrong_element_does_not_pass(seed, where):
    x = drawn(seed)
    right = softmax(x)
    wrong = right.clone()
    wrong.view(-1)[where] += 0.01
    assert not of().passes([wrong], [right])


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_a_thousandth_off_does_not_pass(factor):
    right = softmax(drawn(3))
    assert not of().passes([right * factor], [right])


@pytest.mark.parametrize(
    ("dtype", "spacings", "digits"), [(torch.float32, 64, 23), (torch.half, 4, 10)]
)
def test_what_is_as_near_as_two_right_answers_passes_and_nothing_farther(dtype, spacings, digits):
    """Eager and a right kernel may lie on either side of the answer, each within the bound."""
    eager = torch.full((64,), 0.5, dtype=dtype)
    exact = screen(eager, [eager], [eager.double()])
    bound = spacings * 2.0**-digits * (0.5 + 0.5)
    for apart, passes in ((1.9, True), (2.2, False)):
        got = eager.clone()
        got[9] += apart * bound
        assert exact.passes([got], [eager]) is passes


def test_the_answer_to_other_contents_does_not_pass():
    assert not of().passes([softmax(drawn(3))], [softmax(drawn(4))])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_left_to_the_closer_look(bad):
    right = softmax(drawn(3))
    wrong = right.clone()
    wrong[2, 5] = bad
    assert not of().passes([wrong], [right])
    assert not of().passes([wrong], [wrong])


def test_integers_pass_where_they_are_equal():
    x = drawn(1)
    places = x.argmax(-1)
    look = screen(x, [places], [places])
    assert look.passes([places.clone()], [places])
    assert not look.passes([places + 1], [places])


def test_another_shape_dtype_or_number_of_outputs_does_not_pass():
    right = softmax(drawn(3))
    assert not of().passes([right[:4]], [right])
    assert not of().passes([right.double()], [right])
    assert not of().passes([right, right], [right])
    assert of().passes([right], [right])


def test_where_the_reference_changes_inputs_or_state_outputs_are_not_enough():
    x = drawn(1)
    right = softmax(x)
    arguments = x, [right], [softmax(x.double())]
    assert not screen(*arguments, after=x + 1).passes([right], [right])
    assert not screen(*arguments, returns_only=False).passes([right], [right])
