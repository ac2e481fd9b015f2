"""What a timing decides, on sides whose truth is known."""

import contextlib
import re
import time

import pytest
from timing_parts import FIRST, OLD, Match, Times, Watched, codes, noisy

from workbench.gate.records import Blame, Finding, Outcome
from workbench.gate.timing.sides import CANDIDATE, PARENT, REFERENCE
from workbench.gate.timing.timed_run import FIRST_CALLS, OPENING
from workbench.measure.gpuwatch import GpuState
from workbench.measure.records import Kind, Speed
from workbench.problems.records import WorkFloor

OOM = "the reference raises OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def raised(says: str, blame: Blame = Blame.CANDIDATE) -> dict:
    return {"fault": Finding(code="correctness.raised", says=says, line=7, blame=blame)}


def test_an_equal_kernel_is_not_faster_and_is_timed_once():
    match = Match(new=noisy(100.0, seed=1), old=noisy(100.0, seed=2))
    profiled = match.judged()
    assert profiled.report.outcome is Outcome.FAILED
    assert codes(profiled)[0] == "profile.not-faster"
    assert len(match.specs) == 1
    assert profiled.speed.low < 1.0 < profiled.speed.high


def test_a_gain_is_confirmed_in_new_workers_with_the_order_and_the_contents_changed():
    match = Match(new=noisy(95.0, seed=1), old=noisy(100.0, seed=2))
    profiled = match.judged()
    assert profiled.report.outcome is Outcome.PASSED
    first, second = match.specs
    assert (first.with_reference, second.with_reference) == (False, True)
    assert first.seed != second.seed
    assert first.candidates == second.candidates
    assert [s.run for s in profiled.samples] == ["first", "second"]


class Looked(Watched):
    """Notes when a clock is read: before and after each round, and around the run."""

    def __init__(self) -> None:
        super().__init__()
        self.between: list[list[tuple[int, str]]] = [[]]
        """Turns, as run and side, between two readings."""

    def state(self) -> GpuState:
        self.between.append([])
        return super().state()

    def times(self, name: str, us: Times) -> Times:
        def told(run: int, turn: int) -> float:
            self.between[-1].append((run, name))
            return us(run, turn)

        return told


def test_the_second_run_begins_with_the_side_that_the_first_one_ended_with():
    watch = Looked()
    new, old = noisy(95.0, seed=1), noisy(100.0, seed=2)
    match = Match(new=watch.times(CANDIDATE, new), old=watch.times(PARENT, old), watch=watch)
    assert match.judged().report.outcome is Outcome.PASSED
    begins = []
    for run in (0, 1):
        warming_up = max((turns for turns in watch.between if (run, PARENT) in turns), key=len)
        first = watch.between[watch.between.index(warming_up) + 1]
        begins.append([name for _, name in first])
    assert begins == [[PARENT, CANDIDATE], [CANDIDATE, PARENT]]


@pytest.mark.parametrize("us", [95.0, 100.0, 300.0])
def test_where_nothing_hangs_on_the_speed_one_run_tells_it(us):
    match = Match(new=noisy(us, seed=1), old=noisy(100.0, seed=2), decides=False)
    profiled = match.judged()
    assert profiled.report.outcome is Outcome.PASSED
    assert [s.run for s in profiled.samples] == ["beside"]
    assert profiled.speed.pairs == 30
    assert profiled.speed.low < 100.0 / us < profiled.speed.high
    assert profiled.reference is not None
    assert "one run, no decision depends on it" in profiled.report.says


def test_the_reported_numbers_are_the_second_run_s_own():
    def gain_that_shrinks(run, turn):
        return noisy(80.0 if run == 0 else 90.0, seed=1)(run, turn)

    profiled = Match(new=gain_that_shrinks, old=noisy(100.0, seed=2)).judged()
    assert profiled.speed.ratio == pytest.approx(100 / 90, rel=0.01)
    assert profiled.time.microseconds == pytest.approx(90.0, rel=0.01)
    assert profiled.against.microseconds == pytest.approx(100.0, rel=0.01)
    assert {profiled.time.kind, profiled.speed.kind, profiled.reference.kind} == {Kind.MEASURED}
    assert 14 <= profiled.speed.pairs <= 44


def test_a_gain_that_does_not_come_back_is_none():
    def once(run, turn):
        return noisy(80.0 if run == 0 else 100.0, seed=1)(run, turn)

    profiled = Match(new=once, old=noisy(100.0, seed=2)).judged()
    assert profiled.report.outcome is Outcome.FAILED
    assert codes(profiled)[0] == "profile.not-faster"
    assert "at first 1.2" in profiled.report.says


def test_a_slower_kernel_is_called_slower():
    profiled = Match(new=noisy(200.0, seed=1), old=noisy(100.0, seed=2)).judged()
    assert codes(profiled)[0] == "profile.slower"


def test_noise_asks_for_more_pairs_and_ends_without_a_guess():
    match = Match(new=noisy(98.5, jitter=0.15, seed=1), old=noisy(100.0, jitter=0.15, seed=2))
    profiled = match.judged()
    assert profiled.speed.pairs == 960
    assert (profiled.report.outcome, codes(profiled)[0]) == (Outcome.FAILED, "profile.cannot-tell")
    assert "too uncertain to call" in profiled.report.says


def test_both_sides_see_the_same_contents_and_never_twice():
    match = Match(new=noisy(100.0, seed=1), old=noisy(100.0, seed=2))
    match.judged()
    sides = match.sides[0]
    assert sides[CANDIDATE].turns == sides[PARENT].turns == match.fresh


def test_workers_are_made_beside_others_and_pairs_are_made_alone():
    match = Match(new=noisy(95.0, seed=1), old=noisy(100.0, seed=2))
    profiled = match.judged()
    assert match.held == ["shared", "alone", "shared", "alone"]
    runs = [sample.gpu_seconds for sample in profiled.samples]
    assert 0 < profiled.speed.gpu_seconds <= sum(runs) + 0.01


def test_a_decision_costs_what_both_of_its_runs_took():
    found = Speed(
        kind=Kind.MEASURED, ratio=1.05, low=1.03, high=1.07, confidence=0.99, pairs=60,
        gpu_seconds=7.0,
    )  # fmt: skip
    profiled = Match(new=noisy(95.0, seed=1), old=noisy(100.0, seed=2), found=found).judged()
    (second,) = profiled.samples
    assert 7.0 < profiled.speed.gpu_seconds <= 7.0 + second.gpu_seconds + 0.01


def test_opening_the_sides_holds_the_gpu_and_is_among_its_seconds():
    class Slow(Match):
        @contextlib.contextmanager
        def _opened(self, spec, workshop):
            time.sleep(0.02)
            with super()._opened(spec, workshop) as sides:
                yield sides

    profiled = Slow(new=noisy(95.0, seed=1), old=noisy(100.0, seed=2)).judged()
    alone = sum(sample.gpu_seconds for sample in profiled.samples)
    opening = profiled.report.parts[OPENING] + profiled.report.parts.get(FIRST_CALLS, 0.0)
    assert opening >= 0.04, "twice"
    assert profiled.gpu_seconds == pytest.approx(alone + opening, abs=0.01)
    assert 0 < profiled.speed.gpu_seconds <= alone + 0.01, "of its pairs alone"


def test_a_verdict_says_ratio_interval_confidence_pairs_and_cost():
    says = Match(new=noisy(80.0, seed=1), old=noisy(100.0, seed=2)).judged().report.says
    assert re.search(r"1\.2\d\dx \[1\.\d+, 1\.\d+\], 99 %, \d+ pairs, \d+\.\d GPU-s", says)


def test_a_large_gain_takes_few_pairs_and_a_small_one_more():
    def pairs_for(us):
        return Match(new=noisy(us, seed=1), old=noisy(100.0, seed=2)).judged().speed.pairs

    assert pairs_for(50.0) == 14
    assert pairs_for(50.0) < pairs_for(98.0) < 240


def test_a_third_of_the_outputs_is_looked_at_on_both_sides_and_some_closely():
    match = Match(new=noisy(99.0, seed=1), old=noisy(100.0, seed=2))
    profiled = match.judged()
    for name in (CANDIDATE, PARENT):
        side = match.sides[0][name]
        assert 0.2 * side.turns < side.checks < 0.5 * side.turns
        assert 1 <= side.closely < side.checks / 3
    assert profiled.samples[0].checked == sum(s.checks for s in match.sides[0].values())


def test_a_wrong_timed_output_rejects():
    profiled = Match(new=noisy(50.0), old=noisy(100.0), candidate={"wrong_at": 40}).judged()
    assert profiled.report.outcome is Outcome.FAILED
    finding = profiled.report.findings[0]
    assert finding.code == "profile.timed-output-wrong"
    assert finding.evidence["found"] == "correctness.error-above-bound"
    assert finding.evidence["seed"]
    assert profiled.time is None


def test_a_wrong_parent_proves_nothing_about_the_candidate():
    profiled = Match(new=noisy(50.0), old=noisy(100.0), parent={"wrong_at": 40}).judged()
    assert profiled.report.outcome is Outcome.UNPROVEN
    finding = profiled.report.findings[0]
    assert (finding.code, finding.blame) == ("profile.parent-failed", Blame.MACHINE)


def test_a_candidate_that_raises_fails_and_a_machine_that_does_not():
    profiled = Match(new=noisy(50.0), old=noisy(100.0), candidate=raised("boom")).judged()
    assert (profiled.report.outcome, codes(profiled)[0]) == (Outcome.FAILED, "profile.raised")
    assert profiled.report.findings[0].line == 7
    broken = Match(new=noisy(1.0), old=noisy(1.0), candidate=raised("no", Blame.MACHINE)).judged()
    assert broken.report.outcome is Outcome.UNPROVEN


def test_the_reference_s_fault_is_the_problem_s():
    broken = raised("division by zero", Blame.PROBLEM)
    profiled = Match(new=noisy(50.0), reference=broken).judged()
    finding = profiled.report.findings[0]
    assert profiled.report.outcome is Outcome.UNPROVEN
    assert (finding.code, finding.blame) == ("profile.reference-failed", Blame.PROBLEM)


@pytest.mark.parametrize("side", [CANDIDATE, PARENT])
def test_too_little_memory_is_nobody_s_fault_and_says_what_to_do(side):
    profiled = Match(new=noisy(50.0), old=noisy(100.0), **{side: raised(OOM)}).judged()
    assert profiled.report.outcome is Outcome.UNPROVEN
    finding = profiled.report.findings[0]
    assert finding.code == "profile.out-of-memory"
    assert "sidecar" in finding.evidence["needs"]


def test_a_candidate_that_hides_work_from_the_events_is_refused():
    profiled = Match(new=noisy(50.0), old=noisy(100.0), candidate={"hides_us": 300.0}).judged()
    finding = profiled.report.findings[0]
    assert profiled.report.outcome is Outcome.FAILED
    assert (finding.code, finding.blame) == ("profile.hidden-work", Blame.CANDIDATE)
    assert finding.evidence["seen_us"] > finding.evidence["events_us"] + 300


LATE = {"hides_us": 300.0, "late_us": 300.0}


@pytest.mark.parametrize("script", [{PARENT: {"hides_us": 300.0}}, {CANDIDATE: LATE}])
def test_a_parent_s_hidden_work_or_a_late_machine_refuses_nobody(script):
    profiled = Match(new=noisy(50.0), old=noisy(100.0), **script).judged()
    assert profiled.report.outcome is Outcome.UNPROVEN
    assert codes(profiled)[0] == "profile.clocks-disagree"
    assert next(iter(script)) in profiled.report.says


def test_a_reading_beyond_the_judge_s_own_wait_is_not_believed():
    profiled = Match(new=noisy(5000.0), old=noisy(9000.0), candidate={"judge_us": 900.0}).judged()
    assert codes(profiled)[0] == "profile.clocks-disagree"


def test_a_host_that_answers_late_in_a_quarter_of_the_turns_keeps_nothing_open():
    late = {"late_of_four": 1}
    profiled = Match(new=noisy(50.0), old=noisy(100.0), candidate=late, parent=late).judged()
    assert profiled.report.outcome is Outcome.PASSED


@pytest.mark.parametrize("of_four", [3, 4])
def test_a_judge_that_waits_longer_in_most_turns_believes_nothing(of_four):
    late = {"late_of_four": of_four}
    profiled = Match(new=noisy(50.0), old=noisy(100.0), candidate=late).judged()
    assert profiled.report.outcome is Outcome.UNPROVEN
    assert codes(profiled)[0] == "profile.clocks-disagree"


def test_a_kernel_alone_is_timed_on_until_its_clocks_agree_and_believed_only_then():
    """Four times as many pairs outvote a burst, and no lasting disturbance."""
    burst = {"late_of_four": 3, "late_until": 120}
    profiled = Match(new=noisy(50.0), candidate=burst).judged()
    assert profiled.report.outcome is Outcome.PASSED
    assert len(profiled.samples[0].us[CANDIDATE]) == 240
    quiet = Match(new=noisy(50.0)).judged()
    assert len(quiet.samples[0].us[CANDIDATE]) == 60
    lasting = Match(new=noisy(50.0), candidate={"late_of_four": 3}).judged()
    assert lasting.report.outcome is Outcome.UNPROVEN
    assert codes(lasting)[0] == "profile.clocks-disagree"


def test_less_time_than_the_work_takes_is_refused():
    work = WorkFloor(flops=0.0, bytes=4.8e9)  # 1000 us at the H200's peak
    profiled = Match(new=noisy(800.0), old=noisy(1500.0), work=work).judged()
    assert (profiled.report.outcome, codes(profiled)[0]) == (
        Outcome.FAILED,
        "profile.below-roofline",
    )
    assert Match(new=noisy(960.0), old=noisy(1500.0), work=work).judged().time is not None


def test_a_gpu_whose_clocks_do_not_hold_is_noisy():
    held_down = GpuState(sm_clock_mhz=1980, throttle_reasons=0x8)
    profiled = Match(new=noisy(50.0), old=noisy(100.0), watch=Watched([held_down])).judged()
    assert (profiled.report.outcome, codes(profiled)[0]) == (Outcome.UNPROVEN, "profile.noisy")
    assert profiled.samples[0].dropped > 0


def test_a_few_spoilt_pairs_are_dropped_and_made_up_for():
    fine, slow = (GpuState(sm_clock_mhz=mhz) for mhz in (1980, 1500))
    states = ([fine] * 9 + [slow]) * 12 + [fine]
    profiled = Match(new=noisy(90.0), old=noisy(100.0), watch=Watched(states)).judged()
    assert profiled.report.outcome is Outcome.PASSED
    assert profiled.samples[0].dropped > 0
    assert len(profiled.samples[0].us[CANDIDATE]) == len(profiled.samples[0].us[PARENT]) >= 14


def test_a_seed_needs_no_gain_and_is_set_beside_eager():
    match = Match(new=noisy(50.0), eager=noisy(100.0, seed=9))
    profiled = match.judged()
    assert profiled.report.outcome is Outcome.PASSED
    assert (profiled.speed, profiled.against, profiled.versus_seed) == (None, None, None)
    assert profiled.versus_reference.ratio == pytest.approx(2.0, rel=0.01)
    assert profiled.reference.microseconds == pytest.approx(100.0, rel=0.01)
    assert len(match.specs) == 1
    assert len(profiled.samples[0].us[REFERENCE]) == 60


def test_a_large_speedup_is_flagged_and_never_refused():
    profiled = Match(new=noisy(5.0), old=noisy(10.0), eager=noisy(100.0)).judged()
    assert profiled.report.outcome is Outcome.PASSED
    assert codes(profiled) == ["profile.large-speedup"]


def test_an_accepted_step_is_also_timed_against_the_seed():
    match = Match(new=noisy(90.0), old=noisy(100.0), first=noisy(180.0), seed_kernel=True)
    profiled = match.judged()
    assert profiled.versus_seed.ratio == pytest.approx(2.0, rel=0.01)
    assert profiled.versus_seed.pairs == 30
    assert [s.run for s in profiled.samples] == ["first", "second", "seed"]


def test_where_the_parent_is_the_seed_nothing_is_timed_again():
    match = Match(new=noisy(90.0), old=noisy(100.0), seed_kernel=True)
    profiled = match.judged(parent=FIRST)
    assert profiled.versus_seed == profiled.speed
    assert len(match.specs) == 2


def test_a_seed_that_no_longer_runs_takes_nothing_from_the_candidate():
    match = Match(new=noisy(90.0), old=noisy(100.0), seed_kernel=True, seed=raised("gone"))
    profiled = match.judged(parent=OLD)
    assert profiled.report.outcome is Outcome.PASSED
    assert profiled.versus_seed is None
    assert codes(profiled) == ["profile.seed-not-timed"]


def test_others_on_the_gpu_are_named_and_do_not_fail_it():
    watch = Watched(strangers=["python3 (4711)"])
    profiled = Match(new=noisy(50.0), watch=watch).judged()
    assert profiled.report.outcome is Outcome.PASSED
    assert codes(profiled) == ["profile.gpu-shared"]
    assert "4711" in profiled.report.findings[0].says


def test_another_workbench_is_no_stranger():
    watch = Watched(neighbours=["workbench (7000)"])
    profiled = Match(new=noisy(50.0), watch=watch).judged()
    assert codes(profiled) == ["profile.gpu-neighbour"]
    assert "kept still by the lock" in profiled.report.findings[0].says


def test_unread_clocks_are_admitted():
    assert codes(Match(new=noisy(50.0), watch=Watched([GpuState()])).judged()) == [
        "profile.clocks-unread"
    ]


def test_a_gpu_that_others_keep_is_told_and_leaves_it_unproven():
    match = Match(new=noisy(50.0), busy=True)
    profiled = match.judged()
    assert (profiled.report.outcome, codes(profiled)) == (Outcome.UNPROVEN, ["profile.gpu-busy"])
    assert any("waiting" in says for says in match.told)
    assert profiled.gpu_seconds == 0.0


def test_slow_kernels_are_decided_on_fewer_pairs():
    profiled = Match(new=noisy(2.0e6), old=noisy(3.0e6), eager=noisy(3.0e6, seed=9)).judged()
    assert profiled.report.outcome is Outcome.PASSED
    assert profiled.speed.pairs == 10
