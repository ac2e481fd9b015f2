"""Steps of a walk that lose by themselves: accepted, told as a leap with what makes them pay."""

import time

import pytest
from engine_parts import report
from msgspec import structs
from walk_parts import STEPS, ScriptedBench, walked

from workbench.gate.records import Blame, Finding, Outcome, Stage, StageReport, Verdict
from workbench.lineage.bench import machine_failed
from workbench.lineage.chain import transitions
from workbench.lineage.records import Termination, WalkLimits
from workbench.measure.records import Kind

NOW = "2026-01-01T00:00:00+00:00"
SECOND = 2
"""The removal that makes the kernel faster."""


class Interacting(ScriptedBench):
    """One mechanism gains nothing without the one that was taken out before it."""

    def __init__(self, kind=Kind.MEASURED, faster=1.25, which=SECOND):
        super().__init__()
        self._which = which
        self.kind = kind
        self._faster = faster
        self._looks = []
        self.paired = []

    def beside(self, source, floor):
        said = super().beside(source, floor)
        if floor is not None:
            return said
        self._looks.append(source)
        ratio = self._faster if len(self._looks) == self._which else 0.5
        speed = structs.replace(said.speed, ratio=ratio, low=ratio - 0.01, high=ratio + 0.01)
        return structs.replace(said, speed=speed)

    def pairs(self, source, state):
        self.paired.append((source, state))
        return super().pairs(source, state)


def test_a_step_that_loses_alone_is_kept_as_a_leap_and_timed_with_what_makes_it_pay():
    bench = Interacting()
    _, walk, _ = walked(bench)
    kept = [a for a in walk.attempts if a.accepted]
    assert len(kept) == STEPS
    assert [a.leap for a in kept] == [1, 2, *[1] * (STEPS - 2)]
    expert, naive = walk.lines[0].source, kept[-1].source
    # Of the leap: the expert against the kernel without both; at the end, against the simplest.
    assert bench.paired == [(expert, kept[1].source), (expert, naive)]
    assert kept[1].leap_speed.ratio == pytest.approx(3.0)
    steps = {t.number: t for t, _ in transitions(walk.lines, NOW) if t.backward is not None}
    low = steps[STEPS - 1]
    assert (low.backward.leap, low.backward.leap_speed) == (2, kept[1].leap_speed)
    assert "pays with the next 1, as a leap of 2, 3.000" in low.decision.reason
    assert low.gate.speed.ratio == pytest.approx(0.8)
    assert steps[STEPS].backward.leap == 1


def test_a_leap_below_the_expert_is_timed_against_the_kernel_that_it_leads_to():
    bench = Interacting(which=3)
    _, walk, _ = walked(bench)
    kept = [a for a in walk.attempts if a.accepted]
    assert [a.leap for a in kept[:4]] == [1, 1, 2, 1]
    assert bench.paired[0] == (kept[0].source, kept[2].source)


def test_a_leap_is_not_timed_where_it_is_no_loss_or_there_is_no_room():
    flat = Interacting(faster=1.0)
    _, walk, _ = walked(flat)
    assert (walk.attempts[1].leap, walk.attempts[1].leap_speed) == (2, None)
    assert len(flat.paired) == 1, "the pairs of the whole alone"
    modeled = Interacting(kind=Kind.MODELED)
    _, walk, _ = walked(modeled)
    assert walk.attempts[1].leap_speed.kind is Kind.MODELED
    assert not modeled.paired
    short = Interacting()
    _, walk, _ = walked(short, WalkLimits(steps=1))
    assert [a.leap for a in walk.attempts] == [1]


class Paid(Interacting):
    """Every run of pairs beside a verdict takes the GPU for seven seconds."""

    def pairs(self, source, state):
        return structs.replace(super().pairs(source, state), gpu_seconds=7.0)


def test_pairs_beside_verdicts_are_counted_where_they_were_asked_for():
    _, plain, _ = walked(Interacting())
    ended, walk, _ = walked(Paid())
    more = [
        one.cost.gpu_seconds - other.cost.gpu_seconds
        for one, other in zip(walk.lines, plain.lines, strict=True)
    ]
    assert more == pytest.approx([0.0, 0.0, 7.0, *[0.0] * (STEPS - 2), 7.0])
    seed, *_ = (t for t, _ in transitions(walk.lines, NOW))
    assert seed.cost.gpu_seconds == walk.lines[0].cost.gpu_seconds + ended.cost.gpu_seconds


class Clocked(Interacting):
    """Notes when it was asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def judge(self, source):
        self.asked.append(time.monotonic())
        return super().judge(source)


def test_what_passes_between_verdicts_is_counted_too():
    bench = Clocked()
    _, walk, _ = walked(bench)
    assert sum(line.cost.wall_seconds for line in walk.lines) >= bench.asked[-1] - bench.asked[0]


class Overrunning(ScriptedBench):
    """Every look costs far more than the expert's own verdict, which is all that prices it."""

    kind = Kind.MEASURED

    def judge(self, source):
        return structs.replace(super().judge(source), gpu_seconds=1.0)

    def beside(self, source, floor):
        return structs.replace(super().beside(source, floor), gpu_seconds=100.0)


@pytest.mark.parametrize(("limit", "timed"), [(50.0, False), (500.0, True)])
def test_a_walk_that_overran_its_budget_takes_no_pairs_at_its_end(limit, timed):
    ended, _, _ = walked(Overrunning(), WalkLimits(steps=1, gpu_seconds=limit))
    assert ended.how is Termination.STEP_LIMIT
    assert (ended.speed is not None) is timed


def machine(verdict, code="profile.noisy", blame=Blame.MACHINE):
    found = Finding(code="profile.noisy", says="others hold it", blame=blame)
    stage = StageReport(
        stage=Stage.PROFILE, outcome=Outcome.UNPROVEN, says="noisy", findings=(found,)
    )
    return structs.replace(report(), verdict=verdict, code=code, stages=(stage,))


def test_only_an_open_verdict_with_a_reason_of_the_machine_is_asked_for_again():
    assert machine_failed(machine(Verdict.UNPROVEN))
    assert not machine_failed(machine(Verdict.REJECTED))
    assert not machine_failed(machine(Verdict.UNPROVEN, blame=Blame.CANDIDATE))
    assert not machine_failed(machine(Verdict.UNPROVEN, code="profile.unexplained"))
