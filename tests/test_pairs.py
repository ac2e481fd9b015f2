"""The paired rule on samples whose truth is known."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.measure.pairs import (
    Answer,
    PairRule,
    answer,
    measured_time,
    next_look,
    speed,
    summarize,
)
from workbench.measure.records import Kind

RULE = PairRule()


def drifting(gain: float, pairs: int, seed: int, jitter: float = 0.01) -> tuple[list, list]:
    """Pairs under slow drift that both sides share, with a candidate `gain` times faster."""
    rng = random.Random(seed)
    drift, a, b = 0.0, [], []
    for _ in range(pairs):
        drift = 0.95 * drift + rng.gauss(0, 0.01)
        a.append(100 * math.exp(drift + rng.gauss(0, jitter)))
        b.append(100 / gain * math.exp(drift + rng.gauss(0, jitter)))
    return a, b


def test_an_equal_kernel_is_never_called_faster():
    answers = [answer(summarize(*drifting(1.0, 60, seed), RULE), RULE) for seed in range(300)]
    assert Answer.FASTER not in answers
    assert Answer.SLOWER not in answers


def test_a_gain_well_above_the_threshold_is_found():
    answers = [answer(summarize(*drifting(1.05, 60, seed), RULE), RULE) for seed in range(100)]
    assert answers.count(Answer.FASTER) == 100


def test_a_loss_is_called_slower_and_not_no_gain():
    assert answer(summarize(*drifting(0.9, 60, 1), RULE), RULE) is Answer.SLOWER


def test_a_narrow_interval_below_the_threshold_is_no_gain():
    a, b = drifting(1.0, 240, 3, jitter=0.001)
    assert answer(summarize(a, b, RULE), RULE) is Answer.NO_GAIN


def test_wide_noise_is_undecided_rather_than_a_guess():
    a, b = drifting(1.02, 60, 5, jitter=0.2)
    assert answer(summarize(a, b, RULE), RULE) is Answer.UNDECIDED


def test_looks_double_up_to_the_cap():
    looks, pairs = [], 0
    while (look := next_look(pairs, RULE)) is not None:
        looks.append(look)
        pairs = look
    assert looks == [60, 120, 240]


def test_the_interval_covers_the_true_ratio_as_often_as_it_says():
    inside = 0
    for seed in range(400):
        s = summarize(*drifting(1.03, 60, seed), RULE)
        inside += s.low <= 1.03 <= s.high
    assert inside >= 0.98 * 400


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=50), st.floats(0.1, 10))
def test_ratio_lies_in_its_interval_and_scales_with_the_incumbent(samples, factor):
    s = summarize([factor * x for x in samples], samples, RULE)
    assert s.low <= s.ratio * (1 + 1e-9)
    assert s.ratio <= s.high * (1 + 1e-9)
    assert s.ratio == pytest.approx(factor)


def test_a_failed_launch_cannot_pass_as_a_time():
    with pytest.raises(ValueError, match="positive"):
        summarize([1.0, 0.0], [1.0, 1.0], RULE)
    with pytest.raises(ValueError, match="two samples"):
        summarize([1.0], [1.0, 2.0], RULE)
    with pytest.raises(ValueError, match="samples"):
        measured_time([], RULE, "gpu")


def test_records_say_measured_with_interval_and_confidence():
    s = speed(summarize(*drifting(1.5, 60, 2), RULE), RULE, 0.25)
    assert s.kind is Kind.MEASURED
    assert s.confidence == pytest.approx(0.990, abs=0.001)
    assert s.low < 1.5 < s.high
    assert s.says().endswith("measured")
