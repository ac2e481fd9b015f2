"""The pure rules of a timing: order of turns, warmth, clocks that agree, floors, steadiness."""

# ruff: noqa: N802 -- a recorded NVML has NVML's names

import itertools
import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from workbench.gate.correctness.protocol import Reading
from workbench.gate.timing.turns import Empty, Turn, disagreement, implausible
from workbench.kernels.target import target
from workbench.measure.floor import Demand, floor, peak_tflops
from workbench.measure.gpuwatch import GpuState, NvmlWatch, unsteady
from workbench.measure.pairs import PairRule
from workbench.measure.rounds import BLOCK, FIRST_BARE, Warmth, affordable, rounds
from workbench.problems.records import Precision, WorkFloor

H200 = target("sm90")
SEEDS = st.integers(0, 2**63 - 1)


def some_rounds(seed: int, count: int, *, sides: int = 2, swapped: bool = False):
    made = rounds(seed, sides, checkable=range(sides), swapped=swapped)
    return list(itertools.islice(made, count))


def turn(device, *, wall=None, host=30.0, ahead=0.0, beside=2000.0) -> Turn:
    wall = ahead + device + 5.0 if wall is None else wall
    reading = Reading(device_us=device, host_us=host, wall_us=wall, ahead_us=ahead)
    return Turn(reading=reading, judge_us=wall + ahead + beside)


# -- rounds ---------------------------------------------------------------------------------------


@given(SEEDS)
def test_pairs_go_a_b_b_a_whatever_is_bare(seed):
    pairs = [r.order for r in some_rounds(seed, 200) if not r.bare]
    assert pairs[:4] == [(0, 1), (1, 0), (0, 1), (1, 0)]
    assert pairs == list(itertools.islice(itertools.cycle([(0, 1), (1, 0)]), len(pairs)))


def test_the_swapped_run_begins_with_the_other_side():
    assert some_rounds(1, 1, swapped=True)[0].order == (1, 0)


@given(SEEDS)
def test_a_third_side_never_parts_the_first_two(seed):
    for one in some_rounds(seed, 60, sides=3):
        assert one.order in {(0, 1, 2), (2, 1, 0)}


@given(SEEDS)
def test_each_side_is_checked_closely_in_the_first_block_and_each_block_has_bare_rounds(seed):
    made = some_rounds(seed, 10 * BLOCK)
    assert frozenset().union(*(r.closely for r in made[:BLOCK])) == {0, 1}
    for block in range(10):
        bare = sum(r.bare for r in made[block * BLOCK : (block + 1) * BLOCK])
        assert bare == (FIRST_BARE if block == 0 else 1)


@given(SEEDS)
def test_only_what_is_checked_is_checked_closely(seed):
    assert all(r.closely <= r.checked for r in some_rounds(seed, 100))


def test_a_third_of_the_turns_is_checked_and_no_one_knows_which():
    checked = Counter(s for r in some_rounds(7, 3000) for s in r.checked)
    assert all(0.3 < checked[side] / 3000 < 0.37 for side in (0, 1))
    closely = Counter(s for r in some_rounds(7, 3000) for s in r.closely)
    assert all(0.08 < closely[side] / checked[side] < 0.17 for side in (0, 1))
    assert some_rounds(7, 100) == some_rounds(7, 100)
    assert some_rounds(7, 100) != some_rounds(8, 100)


def test_a_side_that_cannot_be_wrong_is_never_checked():
    made = itertools.islice(rounds(3, 3, checkable=[0, 1]), 200)
    assert all(2 not in r.checked for r in made)


# -- warmth ---------------------------------------------------------------------------------------


def fed(times, seconds=0.05) -> Warmth:
    warmth = Warmth()
    for us in times:
        warmth.feed(us, seconds)
    return warmth


def test_a_steady_side_is_warm_after_ten_calls_that_count():
    assert not fed([9e6] + [100.0] * 9).warm
    assert fed([9e6] + [100.0] * 10).warm


def test_a_side_that_still_gets_faster_is_not_warm():
    assert not fed([9e6] + [100 * 0.9**n for n in range(30)]).warm


def test_quick_calls_must_also_last_for_two_tenths_of_a_second():
    assert not fed([1.0] + [100.0] * 30, seconds=0.001).warm


def test_compiling_is_no_warming_up_and_three_seconds_are_enough():
    compiled = Warmth()
    compiled.feed(60e6, 60.0)
    assert not compiled.warm
    assert fed([1.0] + [100 * 0.9**n for n in range(70)]).warm


# -- pairs that can be afforded -------------------------------------------------------------------


def test_quick_rounds_keep_the_rule_and_slow_ones_get_fewer_pairs():
    rule = PairRule()
    assert affordable(rule, 0.01) == rule
    slow = affordable(rule, 1.0)
    assert (slow.first, slow.cap) == (14, 30)
    assert (affordable(rule, 2.5).first, affordable(rule, 2.5).cap) == (12, 12)
    assert affordable(rule, 100.0).cap == 10
    assert affordable(PairRule(first=9, cap=9), 100.0).cap == 9


# -- clocks ---------------------------------------------------------------------------------------


NOBODY_KNOWS = Empty()
PROMPT = Empty(held=(turn(2.0, ahead=150.0),) * 7, bare=(turn(2.0, host=10.0, wall=17.0),) * 7)
LATE = Empty(
    held=(turn(2.0, ahead=150.0, wall=550.0),) * 7, bare=(turn(2.0, host=10.0, wall=410.0),) * 7
)
ASIDE = turn(5.0, ahead=150.0, wall=150.0 + 400.0)
BARE_ASIDE = turn(5.0, host=20.0, wall=420.0)


@pytest.mark.parametrize("empty", [NOBODY_KNOWS, PROMPT])
def test_honest_turns_agree_held_or_bare(empty):
    held = [turn(40.0, ahead=150.0)] * 9
    bare = [turn(95.0, host=60.0)] * 3
    assert disagreement(held, bare, empty) is None


@pytest.mark.parametrize(("held", "bare"), [([ASIDE] * 9, []), ([], [BARE_ASIDE] * 3)])
def test_work_that_outlasts_the_events_is_hidden_where_the_machine_is_prompt(held, bare):
    found = disagreement(held, bare, PROMPT)
    assert found.hides
    assert "another stream" in found.says
    assert (found.events_us, found.seen_us) == (5.0, 400.0)


@pytest.mark.parametrize("empty", [NOBODY_KNOWS, LATE])
def test_where_the_machine_is_late_or_unknown_nobody_is_convicted(empty):
    assert not disagreement([ASIDE] * 9, [], empty).hides


def test_one_late_wake_up_is_no_lie():
    late = turn(40.0, ahead=150.0, wall=2000.0)
    assert disagreement([late] + [turn(40.0, ahead=150.0)] * 9, [], PROMPT) is None
    assert disagreement([], [BARE_ASIDE] * 2, PROMPT) is None


def test_a_judge_who_waited_longer_than_an_empty_worker_explains_does_not_believe_it():
    held = [turn(40.0, ahead=150.0, beside=4000.0)] * 5
    found = disagreement(held, [], PROMPT)
    assert "longer" in found.says
    assert not found.hides
    assert disagreement(held, [], NOBODY_KNOWS) is None
    assert disagreement(held, [], structs.replace(PROMPT, alike=False)) is None
    assert disagreement([turn(40.0, beside=50_000.0)] * 5, [], NOBODY_KNOWS) is not None


@pytest.mark.parametrize(
    "bad",
    [
        turn(0.0),
        turn(-1.0),
        turn(float("nan")),
        turn(float("inf"), wall=10.0),
        turn(40.0, ahead=1e9),
        Turn(reading=Reading(device_us=40.0, host_us=1.0, wall_us=9000.0), judge_us=100.0),
    ],
)
def test_readings_that_cannot_be_are_refused(bad):
    assert implausible(bad)
    assert not implausible(turn(40.0, ahead=100.0))


# -- the floor ------------------------------------------------------------------------------------


def least(work, *, counted=False, dtypes=("float32",), precision=Precision.IEEE, **device):
    demand = work and Demand(work=work, dtypes=dtypes, precision=precision, counted=counted)
    return floor(demand, H200, **device).us


def test_bytes_beyond_l2_take_their_time_at_the_peak():
    assert least(WorkFloor(flops=0, bytes=4.8e9)) == pytest.approx(1000.0)
    assert least(WorkFloor(flops=0, bytes=1e6)) == 0.0
    assert least(WorkFloor(flops=0, bytes=100e6), l2_bytes=200_000_000) == 0.0


def test_counted_arithmetic_may_be_avoided_but_declared_may_not():
    work = WorkFloor(flops=1e12, bytes=0)
    assert least(work, counted=True) == 0.0
    assert least(work, dtypes=["bfloat16"]) == pytest.approx(1e6 / H200.tensor_tflops["bfloat16"])


def test_fp32_may_be_split_over_the_tensor_cores():
    ieee = peak_tflops(["float32"], Precision.IEEE, H200)
    assert ieee > H200.tensor_tflops["tf32"] / 3 > H200.fp32_tflops
    assert peak_tflops(["float32"], Precision.TF32, H200) > ieee


def test_the_fastest_dtype_counts_and_a_larger_device_has_a_lower_floor():
    work = WorkFloor(flops=1e12, bytes=0)
    assert least(work, dtypes=["float32", "float16"]) == least(work, dtypes=["float16"])
    assert least(work, sms=2 * H200.sms) == pytest.approx(least(work) / 2)
    assert least(work, sms=1) == least(work)
    assert least(None) == 0.0


# -- the GPU's state ------------------------------------------------------------------------------


def test_clocks_may_move_by_two_percent_and_idling_is_no_throttling():
    assert unsteady([GpuState(sm_clock_mhz=1980), GpuState(sm_clock_mhz=1950)]) == ""
    assert "1980" in unsteady([GpuState(sm_clock_mhz=1980), GpuState(sm_clock_mhz=1800)])
    assert unsteady([GpuState(throttle_reasons=0x1 | 0x2 | 0x100)]) == ""
    assert "power cap" in unsteady([GpuState(throttle_reasons=0x4 | 0x1)])
    assert unsteady([GpuState(), GpuState(sm_clock_mhz=1980)]) == ""


class RecordedNvml:
    """NVML's answers, at the edge of the process."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception): ...

    def __init__(self, pids=(), deny=()):
        self._pids, self._deny = pids, deny

    def nvmlDeviceGetClockInfo(self, _handle, kind):
        assert kind == self.NVML_CLOCK_SM
        return self._answer("clock", 1980)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle):
        return self._answer("reasons", 4)

    def nvmlDeviceGetComputeRunningProcesses(self, _handle):
        return self._answer("processes", [type("P", (), {"pid": p})() for p in self._pids])

    def _answer(self, what, value):
        if what in self._deny:
            raise self.NVMLError(what)
        return value


def test_a_watch_reads_what_the_driver_tells_and_nothing_else():
    assert NvmlWatch(RecordedNvml(), None).state() == GpuState(
        sm_clock_mhz=1980, throttle_reasons=4
    )
    silent = NvmlWatch(RecordedNvml(deny=("clock", "reasons", "processes")), None)
    assert silent.state() == GpuState()
    assert silent.strangers() == ()


def test_strangers_are_all_but_ourselves_and_our_children():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        seen = NvmlWatch(RecordedNvml(pids=(os.getpid(), child.pid, 1)), None).strangers()
    finally:
        child.communicate(b"\n")
    assert len(seen) == 1
    assert "1" in seen[0]
