"""A step's two timing runs may be asked for one at a time, and say together what they ever do."""

import pytest
from timing_parts import Match, noisy

from workbench.gate.records import Blame, Outcome
from workbench.gate.timing.report import FOUND_ONCE
from workbench.measure.records import Kind, Speed

OLD = noisy(100.0, seed=2)
FOUND = Speed(kind=Kind.MEASURED, ratio=1.3, low=1.28, high=1.32, pairs=14, gpu_seconds=2.0)


def first_half(us: float):
    return Match(new=noisy(us, seed=1), old=OLD, confirms=False).judged()


def test_a_gain_of_one_run_is_unproven_and_nobody_is_to_blame():
    profiled = first_half(80.0)
    finding = profiled.report.findings[0]
    assert profiled.report.outcome is Outcome.UNPROVEN
    assert (finding.code, finding.blame) == (FOUND_ONCE, Blame.MACHINE)
    assert [one.run for one in profiled.samples] == ["first"]
    assert profiled.speed.low > 1.2
    assert profiled.versus_seed is None


@pytest.mark.parametrize(("us", "code"), [(100.0, "profile.not-faster"), (130.0, "profile.slower")])
def test_no_gain_in_one_run_is_the_same_no_as_ever(us, code):
    half = first_half(us)
    whole = Match(new=noisy(us, seed=1), old=OLD).judged()
    assert half.report.outcome is Outcome.FAILED
    assert half.report.findings[0].code == code
    assert half.report.findings[0].code == whole.report.findings[0].code
    assert half.speed.ratio == whole.speed.ratio


def test_a_found_gain_is_confirmed_in_a_second_run_alone_and_pays_for_both():
    match = Match(new=noisy(80.0, seed=1), old=OLD, found=FOUND)
    profiled = match.judged()
    assert profiled.report.outcome is Outcome.PASSED
    assert [one.run for one in profiled.samples] == ["second"]
    assert match.specs[0].with_reference
    assert profiled.speed.gpu_seconds > 2.0
    assert profiled.speed.ratio == pytest.approx(1.25, rel=0.01), "its own number, not the first's"


def test_a_found_gain_that_does_not_come_back_is_none():
    profiled = Match(new=noisy(100.0, seed=1), old=OLD, found=FOUND).judged()
    assert profiled.report.outcome is Outcome.FAILED
    assert profiled.report.findings[0].code == "profile.not-faster"
    assert "at first 1.3" in profiled.report.says
