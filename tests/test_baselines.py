"""What there is to beat: timed in the reference's worker, kept for a day, failing by name."""

from datetime import UTC, datetime, timedelta

import pytest
from gate_kit import SCALE, problem, workshop
from msgspec import structs

from workbench.gate.correctness.protocol import OpenReference, decode, encode
from workbench.gate.correctness.reference_job import open_reference
from workbench.gate.timing import baselines_job
from workbench.gate.timing.baselines import Bench, time_reference
from workbench.gate.timing.baselines_protocol import Compiled, CompileNative, Read, TimeRuns
from workbench.isolation.context import JobContext
from workbench.isolation.records import Flavor, Limits
from workbench.measure.baselines import (
    Baseline,
    Baselines,
    Outcome,
    keep_baselines,
    known_baselines,
    table,
)
from workbench.measure.gpus import Gpu
from workbench.measure.records import Kind, Limit, Time

__all__ = ["workshop"]

GPU = Gpu(
    index=0,
    uuid="GPU-1",
    name="NVIDIA H200",
    cc=90,
    memory_bytes=1 << 37,
    driver="580",
    utilization=0,
    processes=0,
)
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def timed(us: float) -> Baseline:
    time = Time(kind=Kind.MEASURED, microseconds=us, device=GPU.name, samples=30)
    return Baseline(outcome=Outcome.MEASURED, time=time)


def both(*, compiled: Baseline | None = None, at: datetime = NOW) -> Baselines:
    return Baselines(
        problem="scale",
        shape="full",
        gpu=GPU.name,
        versions={"driver": "580"},
        measured=at.isoformat(timespec="seconds"),
        eager=timed(100.0),
        compiled=compiled,
        limit=Limit(us=25.0, says="", bound="memory", source="datasheet"),
    )


def test_the_bar_is_the_faster_of_what_was_measured():
    assert both(compiled=timed(50.0)).best.microseconds == 50.0
    assert both(compiled=timed(150.0)).best.microseconds == 100.0
    late = Baseline(outcome=Outcome.LATE, says="within 120 s")
    assert both(compiled=late).best.microseconds == 100.0
    failed = structs.replace(both(), eager=Baseline(outcome=Outcome.FAILED))
    assert failed.best is None


def test_the_table_names_what_has_no_time():
    late = both(compiled=Baseline(outcome=Outcome.LATE, compile_seconds=120.0))
    _, row, other, third = table([both(compiled=timed(50.0)), late, both()])
    assert row == ("scale", "100.0 us", "50.0 us", "50 %", "", "2026-11-29 12:00")
    assert other[2:5] == ("not compiled in time", "25 %", "120.0 s")
    assert third[2] == "not asked"


@pytest.mark.parametrize(("hours", "known"), [(0, True), (23.9, True), (24.1, False), (-1, False)])
def test_baselines_hold_for_a_day(tmp_path, monkeypatch, hours, known):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keep_baselines(problem(SCALE), GPU, both())
    found = known_baselines(problem(SCALE), GPU, now=NOW + timedelta(hours=hours))
    assert (found is not None) == known


def test_baselines_hold_for_one_problem_gpu_and_driver(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = problem(SCALE)
    keep_baselines(task, GPU, both())
    others = [
        (structs.replace(task, source=task.source + "\n"), GPU),
        (task, structs.replace(GPU, uuid="GPU-2")),
        (task, structs.replace(GPU, driver="590")),
    ]
    assert known_baselines(task, GPU, now=NOW) == both()
    assert not any(known_baselines(one, gpu, now=NOW) for one, gpu in others)


def rehearsed(workshop, *, source: str = SCALE, seconds: float = 120.0):
    bench = Bench(problem=problem(source), device="cpu", on_gpu=False, compile_seconds=seconds)
    return time_reference(bench, workshop)


def test_what_does_not_compile_here_leaves_the_eager_time_and_says_why(workshop):
    """Without a GPU the reference's worker may start no compiler."""
    eager, compiled = rehearsed(workshop)
    assert eager.time.samples == 30
    assert compiled.outcome is Outcome.FAILED
    assert compiled.says


def test_what_does_not_compile_in_time_leaves_the_eager_time(workshop):
    eager, compiled = rehearsed(workshop, seconds=0.01)
    assert eager.outcome is Outcome.MEASURED
    assert compiled.outcome is Outcome.LATE
    assert "0.01 s" in compiled.says


def test_a_reference_that_raises_has_no_baseline(workshop):
    eager, compiled = rehearsed(workshop, source=SCALE.replace("return", "return 1 / 0 *", 1))
    assert (eager.outcome, compiled) == (Outcome.FAILED, None)


def test_a_compiled_reference_is_compared_before_it_is_timed(tmp_path):
    """In this process, which may start the compiler that a worker without a GPU may not."""
    task = problem(SCALE)
    context = JobContext(scratch=tmp_path, flavor=Flavor.REFERENCE, limits=Limits(), device="cpu")
    opening = OpenReference(
        source=task.source,
        values=task.full.values,
        build_seed=1,
        precision=task.precision,
        tolerance=task.tolerance,
        selections=task.selections,
        lends=False,
    )
    open_reference(context, encode(opening), [])
    baselines_job.time_eager(context, encode(TimeRuns(runs=2)), [])
    body, _ = baselines_job.compile_native(context, encode(CompileNative(mode="default")), [])
    made = decode(body, Compiled)
    assert made.seconds > 0
    assert all(one.right for one in made.compared.measured)
    body, _ = baselines_job.time_compiled(context, encode(TimeRuns(runs=3)), [])
    assert len(decode(body, Read).us) == 3
