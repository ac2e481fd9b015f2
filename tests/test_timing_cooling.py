"""The power cap of a GPU spoils no timing: the run rests, or times in the heat and says so."""

from timing_parts import OLD, Match, Watched, codes, noisy

from workbench.gate.records import Outcome
from workbench.gate.timing.cooling import PATIENCE, RESTS, Cooling
from workbench.gate.timing.sides import CANDIDATE
from workbench.measure.gpuwatch import GpuState, capped, unsteady

FINE = GpuState(sm_clock_mhz=1980, throttle_reasons=0)
CAPPED = GpuState(sm_clock_mhz=1700, throttle_reasons=0x4)
HOT = GpuState(sm_clock_mhz=1700, throttle_reasons=0x4 | 0x20)


def judged(states):
    watch = Watched(states)
    return Match(new=noisy(90.0, seed=1), old=noisy(100.0, seed=2), watch=watch).judged(OLD)


def test_a_gpu_that_a_rest_keeps_below_the_cap_gives_pairs_at_full_clocks():
    profiled = judged([CAPPED] * PATIENCE + [FINE])
    assert profiled.report.outcome is Outcome.PASSED
    assert 0 < profiled.samples[0].dropped <= PATIENCE
    assert [run.capped for run in profiled.samples] == [0, 0]
    assert "profile.power-cap" not in codes(profiled)


def test_a_gpu_that_no_rest_keeps_below_it_is_timed_there_and_the_report_says_so():
    profiled = judged([CAPPED])
    assert profiled.report.outcome is Outcome.PASSED
    first = profiled.samples[0]
    assert first.capped == len(first.us[CANDIDATE])
    assert first.dropped == PATIENCE * len(RESTS)
    assert "profile.power-cap" in codes(profiled)


def test_under_the_cap_too_clocks_that_move_make_no_pair():
    moving = [CAPPED, GpuState(sm_clock_mhz=1500, throttle_reasons=0x4)] * 400
    profiled = judged(moving)
    assert (profiled.report.outcome, codes(profiled)[0]) == (Outcome.UNPROVEN, "profile.noisy")
    assert "1500" in profiled.report.says


def test_heat_is_not_the_power_cap():
    assert capped([FINE, CAPPED])
    assert not capped([FINE, HOT])
    assert not capped([FINE])
    assert "temperature" in unsteady([HOT], hot=True)
    assert unsteady([CAPPED], hot=True) == ""
    assert judged([HOT]).report.outcome is Outcome.UNPROVEN


def test_rests_grow_with_the_rounds_and_are_given_up_in_the_end():
    slept: list[float] = []
    cooling = Cooling(slept.append)
    for _ in range(PATIENCE * len(RESTS)):
        cooling.rest(0.5)
        assert cooling.spoilt([CAPPED])
    assert slept == [rest * 0.5 for rest in RESTS if rest for _ in range(PATIENCE)]
    assert cooling.hot
    assert not cooling.rest(0.5)
    assert not cooling.spoilt([CAPPED])
