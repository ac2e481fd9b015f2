"""A GPU that fails after a crash decides nothing any more, until a person clears it."""

import pytest
from gate_kit import workshop  # noqa: F401

from workbench.cli import doctor
from workbench.engine import devices
from workbench.errors import WorkbenchError
from workbench.gate import health
from workbench.gate.records import Blame, Finding, Outcome, Stage, StageReport
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
from workbench.measure import gpuhealth, gpus
from workbench.measure.gpus import Gpu

CRASH = StageReport(
    stage=Stage.CORRECTNESS,
    outcome=Outcome.FAILED,
    says="the candidate's process was killed by SIGABRT",
    findings=(Finding(code="correctness.crashed", says="it died", line=9),),
)


def gpu(index: int) -> Gpu:
    return Gpu(
        index=index,
        uuid=f"GPU-{index}{index}aa",
        name=f"H200 number {index}",
        cc=90,
        memory_bytes=1 << 37,
        driver="580",
        utilization=0,
        processes=0,
    )


def test_a_canary_comes_back_from_a_device_that_is_well(workshop):  # noqa: F811
    assert health.canary(workshop) == ""


def test_a_crash_on_a_well_device_stays_the_candidates(workshop):  # noqa: F811
    assert health.troubled(CRASH)
    assert health.examined(CRASH, 0, workshop, since=0.0) is CRASH
    assert health.taken_out(0) is None


def test_a_canary_that_cannot_sing_takes_the_gpu_out_and_excuses_the_candidate():
    with Workshop(wrap=False) as silent:
        silent.close()
        report = health.examined(CRASH, 0, silent, since=0.0)
    assert report.outcome is Outcome.UNPROVEN
    first, second = report.findings
    assert (first.code, first.blame) == ("correctness.gpu-sick", Blame.MACHINE)
    assert "rm " in first.evidence["needs"]
    assert (second.code, second.blame) == ("correctness.crashed", Blame.MACHINE)
    sick = health.taken_out(0)
    assert sick is not None
    assert "SIGABRT" in sick.reason
    assert health.refusal(Stage.PROFILE, sick).findings[0].code == "profile.gpu-sick"


@pytest.mark.parametrize(
    ("finding", "looks"),
    [
        (Finding(code="correctness.timed-out", says="no answer"), True),
        (Finding(code="profile.gpu-memory", says="6 GiB"), True),
        (Finding(code="correctness.raised", says="RuntimeError: CUDA error: launch failed"), True),
        (Finding(code="correctness.raised", says="ValueError: no"), False),
        (Finding(code="correctness.error-above-bound", says="wrong"), False),
    ],
)
def test_only_trouble_on_the_device_asks_for_a_canary(finding, looks):
    report = StageReport(
        stage=Stage.CORRECTNESS, outcome=Outcome.FAILED, says="", findings=(finding,)
    )
    assert health.troubled(report) is looks


def test_a_process_that_the_driver_keeps_listing_is_seen():
    assert gpuhealth.lingering(lambda: [11, 12], {12, 13}, 0.0) == [12]
    answers = iter([[12], [12], []])
    assert gpuhealth.lingering(lambda: next(answers), {12}, 30.0) == []


def test_processes_of_ended_workers_are_remembered():
    with Workshop(preload=["isolation_jobs"], wrap=False) as shop:
        with shop.worker(Flavor.BARE) as worker:
            worker.call("isolation_jobs:echo", {})
            pids = set(worker.pids)
        assert pids
        assert shop.ended_pids(0.0) == pids


def test_the_drivers_wish_is_told_and_none_is_silence():
    assert gpuhealth.recovery_words(0) == ""
    assert "reset of the GPU" in gpuhealth.recovery_words(1)
    assert "99" in gpuhealth.recovery_words(99)
    assert gpuhealth.complaint("GPU-none") == ""


def test_a_taken_out_gpu_is_passed_over_refused_by_name_and_comes_back(monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", lambda: [gpu(0), gpu(1)])
    gpuhealth.take_out(gpu(0).uuid, "the canary is wrong")
    gpuhealth.take_out(gpu(0).uuid, "another reason, later")
    assert devices.choose_place("auto", "").index == 1
    with pytest.raises(WorkbenchError, match="cuda:0 was taken out: the canary is wrong") as told:
        devices.choose_place("cuda:0", "")
    assert str(gpuhealth.record_path(gpu(0).uuid)) in told.value.todo
    gpuhealth.take_out(gpu(1).uuid, "also")
    with pytest.raises(WorkbenchError, match="every GPU"):
        devices.choose_place("auto", "")
    assert devices.choose_place("cpu", "").index is None
    gpuhealth.record_path(gpu(0).uuid).unlink()
    assert devices.choose_place("cuda:0", "").index == 0


def test_a_gpu_whose_record_cannot_be_written_is_still_refused_with_the_reason(monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/none")
    sick = gpuhealth.take_out(gpu(0).uuid, "the canary is wrong")
    assert sick.reason.startswith("the canary is wrong; no record could be written to /proc/none")


def test_doctor_shows_it_with_the_remedy(monkeypatch):
    monkeypatch.setattr(gpus, "list_gpus", lambda: [gpu(0)])
    assert [line.state for line in doctor._gpu()] == ["ok"]
    gpuhealth.take_out(gpu(0).uuid, "the canary is wrong")
    shown = doctor._gpu()[-1]
    assert shown.state == "bad"
    assert "the canary is wrong" in shown.found
    assert "rm " in shown.todo


def test_a_record_that_cannot_be_read_counts_as_sick():
    path = gpuhealth.record_path("GPU-x")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{")
    assert gpuhealth.sickness("GPU-x") is not None
