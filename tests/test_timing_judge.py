"""What the judge and a session make of a measured time: kept apart from models, nothing lost."""

import pytest
from gate_kit import CANDIDATE, SCALE, SCALE_KERNEL, model, problem, workshop
from msgspec import structs
from session_kit import transition

from workbench.gate.candidate import candidate_of
from workbench.gate.judge import GateSettings, judge
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.profile import Profiled
from workbench.gate.records import Finding, Outcome, Stage, StageReport, Verdict
from workbench.measure.records import Kind, PairSamples, Speed, Time
from workbench.session.toml import decode_transition, encode_transition

__all__ = ["workshop"]

SEED = bytes(range(16))
ONCE = model(
    "return launch(inputs[0], self.weight, torch.empty_like(inputs[0]))",
    "self.weight = nn.Parameter(torch.ones(n))",
    "self, n",
)
CODE = candidate_of(CANDIDATE + SCALE_KERNEL + ONCE)
TIME = Time(kind=Kind.MEASURED, microseconds=38.0, low=37.5, high=38.5, samples=60)
SAMPLES = (PairSamples(run="alone", us={"candidate": (38.0, 37.9)}, checked=4),)


class WrittenTimer:
    """Answers what it was told to, and keeps what it was asked."""

    def __init__(self, *findings: Finding):
        outcome = Outcome.FAILED if findings else Outcome.PASSED
        report = StageReport(
            stage=Stage.PROFILE, outcome=outcome, says="38.0 us", findings=findings
        )
        self._profiled = Profiled(report=report, time=TIME, samples=SAMPLES, gpu_seconds=1.5)
        self.asked = []

    def __call__(self, candidate, parent, *, seed, listen):
        self.asked.append((candidate, parent, seed))
        listen(30, 60, "30 of 60 pairs")
        return self._profiled


def judged(workshop, timer, told=lambda _told: None, parent=None):
    task = problem(SCALE)
    settings = GateSettings(target="sm90", seed=SEED)
    facts = inspect_problem(task, workshop)
    return judge(
        CODE, task, lambda: facts, settings, workshop, parent=parent, timer=timer, listen=told
    )


def test_a_measured_time_is_reported_with_its_samples_and_the_traces_for_facts(workshop):
    timer, told = WrittenTimer(), []
    report = judged(workshop, timer, told.append, parent=candidate_of("# parent"))
    assert report.verdict is Verdict.ACCEPTED, report.says
    assert (report.time, report.samples, report.gpu_seconds) == (TIME, SAMPLES, 1.5)
    assert [trace.kernel for trace in report.traces] == ["scale"]
    assert timer.asked == [(CODE, candidate_of("# parent"), SEED)]
    assert "30 of 60 pairs" in [one.says for one in told]


def test_a_step_that_is_no_gain_is_rejected_and_not_traced(workshop):
    report = judged(workshop, WrittenTimer(Finding(code="profile.not-faster", says="no gain")))
    assert (report.verdict, report.code) == (Verdict.REJECTED, "profile.not-faster")
    assert report.traces == ()
    assert report.samples == SAMPLES


@pytest.mark.parametrize("speed", [None, Speed(kind=Kind.MEASURED, ratio=1.1, low=1.08, high=1.2)])
def test_samples_survive_a_session_and_stay_out_of_the_file_for_people(speed):
    made = transition(3, 2)
    made = structs.replace(
        made, gate=structs.replace(made.gate, time=TIME, speed=speed, samples=SAMPLES)
    )
    text, profile = encode_transition(made, {})
    assert b"37.9" not in text
    assert b"37.9" in profile
    assert decode_transition(text, profile, "here")[0] == made
