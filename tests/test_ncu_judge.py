"""The gate reads counters of what it accepted, once, and of nothing else."""

import pytest
from gate_kit import CANDIDATE, SCALE, SCALE_KERNEL, model, problem, workshop

from workbench.gate.candidate import candidate_of
from workbench.gate.judge import GateSettings, judge
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.profile import Profiled
from workbench.gate.records import Finding, Outcome, Stage, StageReport, Verdict
from workbench.measure.ncu.records import NcuRecord, NcuState
from workbench.measure.ncu.states import without_profile
from workbench.measure.records import Kind, Time

__all__ = ["workshop"]

SEED = bytes(range(16))
GOOD = candidate_of(
    CANDIDATE
    + SCALE_KERNEL
    + model(
        "return launch(inputs[0], self.weight, torch.empty_like(inputs[0]))",
        "self.weight = nn.Parameter(torch.ones(n))",
        "self, n",
    )
)
RECORD = NcuRecord(state=NcuState.PROFILED, says="1 launch of scale profiled", seconds=8.0)


class WrittenTimer:
    """Answers what it was told to."""

    def __init__(self, outcome):
        slow = (Finding(code="profile.not-faster", says="no gain"),)
        findings = () if outcome is Outcome.PASSED else slow
        self._report = StageReport(
            stage=Stage.PROFILE, outcome=outcome, says="38.0 us", findings=findings, seconds=2.0
        )

    def __call__(self, candidate, parent, *, seed, listen):
        del candidate, parent, seed
        listen(60, 60, "60 of 60 pairs")
        time = Time(kind=Kind.MEASURED, microseconds=38.0)
        return Profiled(report=self._report, time=time, gpu_seconds=1.5)


class WrittenProfiler:
    """Answers a record, and keeps what it was asked."""

    def __init__(self, record=RECORD):
        self._record = record
        self.asked = []

    def __call__(self, candidate, launches, *, seed, waits, proven):
        if not proven():
            return None
        self.asked.append((candidate, [launch.kernel for launch in launches], seed))
        waits()
        return self._record


def judged(workshop, profiler, outcome=Outcome.PASSED, rung=1, told=lambda _told: None):
    task = problem(SCALE)
    settings = GateSettings(target="sm90", seed=SEED, rung=rung)
    facts = inspect_problem(task, workshop)
    return judge(
        GOOD, task, lambda: facts, settings, workshop,
        timer=WrittenTimer(outcome), profiler=profiler, listen=told,
    )  # fmt: skip


def test_an_accepted_candidate_is_profiled_once_and_the_record_is_in_the_report(workshop):
    profiler, told = WrittenProfiler(), []
    report = judged(workshop, profiler, told=told.append)
    assert report.verdict is Verdict.ACCEPTED, report.says
    assert report.ncu == RECORD
    assert profiler.asked == [(GOOD, ["scale"], SEED)]
    assert [trace.kernel for trace in report.traces] == ["scale"]
    assert report.gpu_seconds == pytest.approx(9.5)
    assert any("counters" in one.says for one in told)


def test_counters_that_are_refused_take_nothing_from_the_verdict(workshop):
    refused = without_profile(NcuState.REFUSED, "")
    report = judged(workshop, WrittenProfiler(refused))
    assert report.verdict is Verdict.ACCEPTED
    assert report.ncu == refused
    assert report.time.microseconds == 38.0


@pytest.mark.parametrize(
    ("outcome", "rung"), [(Outcome.FAILED, 1), (Outcome.PASSED, 0)], ids=["not faster", "unproven"]
)
def test_what_is_not_faster_or_not_proven_right_is_not_profiled(workshop, outcome, rung):
    profiler = WrittenProfiler()
    report = judged(workshop, profiler, outcome, rung)
    assert (report.ncu, profiler.asked) == (None, [])
