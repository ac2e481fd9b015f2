"""The paired rule on samples whose truth is known: its error rates, look after look."""

import itertools
import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
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
from workbench.measure.sequential import looks, rank_at, spent

RULE = PairRule()
JITTERS = [0.003, 0.014, 0.03]
"""Of one side. On an H200 pairs of a 38 us kernel scatter by 2 %: 0.014 a side."""


class Noise:
    """Two kernels taking turns A B, B A: drift that both share, jitter, two in a hundred late."""

    def __init__(self, seed: str, jitter: float) -> None:
        self._rng = random.Random(seed)
        self._jitter = jitter
        self._drift = self._rng.gauss(0, 0.03)
        self._swapped = False

    def pairs(self, gain: float, count: int) -> tuple[list[float], list[float]]:
        old, new = [], []
        for _ in range(count):
            turns = [self._turn(), self._turn()]
            first, second = turns[::-1] if self._swapped else turns
            old.append(100 * first)
            new.append(100 / gain * second)
            self._swapped = not self._swapped
        return old, new

    def _turn(self) -> float:
        rng = self._rng
        self._drift = 0.98 * self._drift + rng.gauss(0, 0.03 * math.sqrt(1 - 0.98**2))
        late = rng.expovariate(1 / 0.3) if rng.random() < 0.02 else 0.0
        return math.exp(self._drift + rng.gauss(0, self._jitter) + late)


def decided(gain: float, jitter: float, seed: int, rule: PairRule = RULE):
    """The answer and the summary it rests on, as a run would come to them."""
    noise = Noise(f"{seed} {gain} {jitter}", jitter)
    old, new, summary = [], [], None
    while (wanted := next_look(len(old), rule)) is not None:
        more = noise.pairs(gain, wanted - len(old))
        old, new = old + more[0], new + more[1]
        summary = summarize(old, new, rule)
        if answer(summary, rule) is not Answer.UNDECIDED:
            break
    return answer(summary, rule), summary


# -- the error rates ------------------------------------------------------------------------------


@pytest.mark.parametrize("jitter", JITTERS)
def test_an_equal_kernel_is_never_called_faster_however_often_one_looks(jitter):
    answers = Counter(decided(1.0, jitter, seed)[0] for seed in range(200))
    assert answers == {Answer.NO_GAIN: 200}


@pytest.mark.parametrize("jitter", JITTERS)
def test_a_gain_of_two_percent_is_found(jitter):
    answers = Counter(decided(1.02, jitter, seed)[0] for seed in range(60))
    assert answers[Answer.FASTER] >= 59


def test_a_gain_at_the_threshold_itself_is_rarely_called_faster():
    rule = PairRule(cap=300)
    answers = Counter(decided(1.01, 0.014, seed, rule)[0] for seed in range(400))
    # 0.5 % are expected at most; 8 of 400 or more would happen once in a thousand such tests.
    assert answers[Answer.FASTER] < 8
    assert answers[Answer.NO_GAIN] < 0.05 * 400


def test_the_interval_at_the_look_that_stopped_covers_as_often_as_it_says():
    for gain in (1.0, 1.02):
        covered = 0
        for seed in range(200):
            summary = decided(gain, 0.014, seed)[1]
            covered += summary.low <= gain <= summary.high
        # 99 % at least are promised.
        assert covered >= 195


def test_the_uncorrected_rule_would_err_far_more_often():
    """What the bounds are for: the same looks with the plain 99.5 % bound at each."""
    rng, wrong, tries = random.Random(4), 0, 300
    for _ in range(tries):
        coins = [rng.random() < 0.5 for _ in range(960)]
        wrong += any(
            sum(coins[:n]) > n / 2 + 2.58 * math.sqrt(n) / 2 for n in looks(RULE.first, RULE.cap)
        )
    assert wrong / tries > 3 * RULE.error


@pytest.mark.parametrize(
    ("first", "cap", "error"), [(14, 960, 0.005), (14, 200, 0.025), (9, 60, 0.01)]
)
def test_no_more_error_is_spent_than_there_is(first, cap, error):
    """The coins' walk, by another way than the module's: from the cap back to the start."""
    at = {n: rank_at(n, first=first, cap=cap, error=error) for n in looks(first, cap)}
    # chance[k]: of ever crossing, from k coins on the other side.
    chance = [0.0] * (cap + 2)
    for n in range(cap, -1, -1):
        rank = at.get(n)
        chance = [
            1.0
            if rank is not None and k <= rank
            else 0.5 * (chance[k] + chance[k + 1])
            if n < cap
            else 0.0
            for k in range(n + 1)
        ] + [0.0, 0.0]
    assert 0.8 * error < chance[0] <= error


SHARES = st.integers(0, 960).map(lambda pairs: pairs / 960)


@settings(deadline=None)
@given(SHARES, SHARES)
def test_error_is_spent_as_time_goes_on_and_all_of_it_at_the_end(one, other):
    assert (spent(one, 0.01) <= spent(other, 0.01)) == (one <= other) or one == other
    assert spent(1.0, 0.01) == pytest.approx(0.01)


# -- the looks ------------------------------------------------------------------------------------


def test_a_large_effect_stops_at_the_first_look_either_way():
    for seed in range(20):
        assert decided(2.0, 0.014, seed)[1].pairs <= 18
        found, summary = decided(0.5, 0.014, seed)
        assert found is Answer.SLOWER
        assert summary.pairs <= 18


def test_looks_grow_by_a_quarter_up_to_the_cap_with_both_orders_equally_often():
    found, pairs = [], 0
    while (look := next_look(pairs, RULE)) is not None:
        found.append(look)
        pairs = look
    assert (found[0], found[-1]) == (14, 960)
    assert all(n % 2 == 0 for n in found)
    assert all(a < b <= 1.4 * a for a, b in itertools.pairwise(found))
    assert next_look(0, PairRule(first=30, cap=30)) == 30
    assert next_look(30, PairRule(first=30, cap=30)) is None


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(2, 200))
def test_an_interval_between_two_looks_is_as_honest_as_at_one(pairs, cap):
    rank = rank_at(pairs, first=min(14, cap), cap=cap, error=0.005)
    fixed = rank_at(pairs, first=pairs, cap=pairs, error=0.005)
    assert rank is None or (fixed is not None and rank <= fixed)


# -- a summary ------------------------------------------------------------------------------------


def samples(gain: float, pairs: int, seed: int, jitter: float = 0.01):
    return Noise(str(seed), jitter).pairs(gain, pairs)


def test_a_loss_is_called_slower_and_not_no_gain():
    assert answer(summarize(*samples(0.9, 60, 1), RULE), RULE) is Answer.SLOWER


def shorter(us: float, gain: float, jitter: float, seed: int):
    """As `decided`, of a kernel that takes so long."""
    noise = Noise(f"{seed} {us} {gain}", jitter)
    old, new = noise.pairs(gain, RULE.cap)
    scaled = [us / 100 * t for t in old], [us / 100 * t for t in new]
    for look in looks(RULE.first, RULE.cap):
        summary = summarize(scaled[0][:look], scaled[1][:look], RULE)
        if (found := answer(summary, RULE)) is not Answer.UNDECIDED:
            return found, summary
    return Answer.UNDECIDED, summary


def test_what_two_processes_of_one_kernel_differ_by_is_no_gain():
    """Seen on an H200: 5.8 us, 1.0275x between two workers of the same source, in every pair."""
    for seed in range(60):
        found, summary = shorter(5.8, 1.0275, 0.02, seed)
        assert found is Answer.NO_GAIN
        assert summary.low < 1 < summary.high
    assert {shorter(5.8, 1 / 1.0275, 0.02, seed)[0] for seed in range(60)} == {Answer.NO_GAIN}


@pytest.mark.parametrize(("old", "new"), [(6.0, 5.8), (5.8, 6.0), (5.8, 11.6), (11.6, 5.8)])
def test_what_processes_differ_by_counts_against_the_shorter_time_of_both(old, new):
    found = summarize([old] * 240, [new] * 240, RULE)
    assert found.apart == pytest.approx(0.3 / 5.8)
    assert found.low == pytest.approx(old / new / (1 + 0.3 / 5.8))
    # 0.2 us are less than what two processes of one kernel differ by: no gain, and no loss.
    kind = {6.0 / 5.8: Answer.NO_GAIN, 5.8 / 6.0: Answer.NO_GAIN, 0.5: Answer.SLOWER}
    assert answer(found, RULE) is kind.get(old / new, Answer.FASTER)


def test_a_gain_beyond_that_is_found_in_a_short_kernel_and_a_small_one_in_a_long_one():
    assert {shorter(5.8, 1.15, 0.02, seed)[0] for seed in range(40)} == {Answer.FASTER}
    assert {shorter(131.0, 1.02, 0.006, seed)[0] for seed in range(40)} == {Answer.FASTER}
    _, summary = shorter(131.0, 1.02, 0.006, 1)
    assert summary.low > 1


def test_a_floor_takes_an_equal_and_refuses_a_slower_one():
    """What walks back from an expert asks: no slower than 0.99 of what there was."""
    floor = PairRule(threshold=0.99)
    equal = Counter(decided(1.0, 0.014, seed, floor)[0] for seed in range(60))
    assert equal[Answer.FASTER] >= 57
    assert equal[Answer.SLOWER] == 0
    slower = Counter(decided(0.96, 0.014, seed, floor)[0] for seed in range(60))
    assert slower[Answer.FASTER] == 0


def test_a_narrow_interval_below_the_threshold_is_no_gain():
    a, b = samples(1.0, 240, 3, jitter=0.001)
    assert answer(summarize(a, b, RULE), RULE) is Answer.NO_GAIN


def test_wide_noise_is_undecided_rather_than_a_guess():
    a, b = samples(1.02, 60, 5, jitter=0.2)
    assert answer(summarize(a, b, RULE), RULE) is Answer.UNDECIDED


def test_too_few_pairs_have_no_interval_and_decide_nothing():
    summary = summarize([200.0] * 5, [100.0] * 5, RULE)
    assert (summary.low, summary.high, summary.most) == (0.0, math.inf, math.inf)
    assert answer(summary, RULE) is Answer.UNDECIDED
    told = speed(summary, RULE, 0.1)
    assert (told.ratio, told.low, told.high, told.confidence) == (2.0, None, None, None)


@settings(deadline=None)
@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=50), st.floats(0.1, 10))
def test_ratio_lies_in_its_interval_and_scales_with_the_incumbent(times, factor):
    s = summarize([factor * x for x in times], times, RULE)
    assert s.low <= s.ratio * (1 + 1e-9)
    assert s.ratio <= s.high * (1 + 1e-9)
    assert s.most <= s.high
    assert s.ratio == pytest.approx(factor)


def test_a_failed_launch_cannot_pass_as_a_time():
    with pytest.raises(ValueError, match="positive"):
        summarize([1.0, 0.0], [1.0, 1.0], RULE)
    with pytest.raises(ValueError, match="two samples"):
        summarize([1.0], [1.0, 2.0], RULE)
    with pytest.raises(ValueError, match="samples"):
        measured_time([], RULE, "gpu")


def test_records_say_measured_with_interval_and_confidence():
    s = speed(summarize(*samples(1.5, 60, 2), RULE), RULE, 0.25)
    assert s.kind is Kind.MEASURED
    assert s.confidence == pytest.approx(0.99)
    assert s.low < 1.5 < s.high
    assert s.says().endswith("measured")
    assert s.in_full().endswith("], 99 %, 60 pairs, 0.2 GPU-s")
