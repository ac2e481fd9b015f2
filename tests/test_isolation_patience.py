"""A worker has its deadline in time of its own: a busy machine takes none of it away."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import dedent

import pytest
from gate_kit import ADD_RELU, ADD_RELU_KERNEL, CANDIDATE, judged, model, problem, told

from workbench.gate import compile as compiling
from workbench.gate.candidate import candidate_of
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Blame, Outcome
from workbench.isolation.outcome import WorkerTimedOut
from workbench.isolation.patience import Patience
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop

SPINS = "import time\nwhile time.process_time() < {seconds}: pass\n"


@contextmanager
def running(seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """A process on this process's processor that computes for so long."""
    with subprocess.Popen([sys.executable, "-Ic", SPINS.format(seconds=seconds)]) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def one_processor() -> Iterator[None]:
    """This process and what it starts, all on one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def waited_for(process: subprocess.Popen[bytes], patience: Patience) -> bool:
    """Whether the process ended before its deadline."""
    while (left := patience.left()) > 0:
        try:
            process.wait(left)
        except subprocess.TimeoutExpired:
            continue
        return True
    return False


def test_what_a_busy_machine_takes_is_not_held_against_a_worker():
    with one_processor(), running(60), running(60), running(60), running(60), running(60):
        began = time.monotonic()
        with running(0.5) as worker:
            patience = Patience(1.5, lambda: [worker.pid], stretch=1000)
            assert waited_for(worker, patience)
        assert time.monotonic() - began > patience.seconds


def test_a_worker_that_computes_on_and_on_is_late_on_a_busy_machine_too():
    with one_processor(), running(60), running(60), running(60) as worker:
        patience = Patience(0.5, lambda: [worker.pid], stretch=1000)
        assert not waited_for(worker, patience)
        assert patience.busy


def test_a_worker_that_only_waits_is_late_and_not_busy():
    with subprocess.Popen(["/bin/sleep", "60"]) as worker:
        patience = Patience(0.5, lambda: [worker.pid])
        assert not waited_for(worker, patience)
        worker.kill()
    assert not patience.busy


def test_a_machine_without_an_end_to_its_work_is_not_waited_for_either():
    with one_processor(), running(60), running(60), running(60), running(60), running(60) as worker:
        patience = Patience(0.5, lambda: [worker.pid], stretch=1)
        assert not waited_for(worker, patience)


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    with Workshop(preload=[*compiling.JOB_MODULES, "isolation_jobs"], wrap=False) as shop:
        yield shop


@pytest.mark.parametrize(("job", "busy"), [("spin", True), ("sleep_on", False)])
def test_a_late_worker_tells_whether_it_computed(workshop, job, busy):
    with (
        workshop.worker(Flavor.BARE) as worker,
        pytest.raises(WorkerTimedOut) as met,
    ):
        worker.call(f"isolation_jobs:{job}", {}, deadline=0.5)
    assert met.value.busy is busy


def adding(body: str) -> str:
    """A candidate that runs `body` when it is called."""
    return ADD_RELU_KERNEL + model(body)


WAITS = "import time\ntime.sleep(1000)"


def test_a_call_that_waits_blames_nobody(workshop):
    report = judged(workshop, ADD_RELU, adding(WAITS), call_seconds=0.5)
    assert report.outcome is Outcome.UNPROVEN
    assert told(report).code == "correctness.no-answer"
    assert told(report).blame is Blame.MACHINE


@pytest.mark.parametrize(
    ("body", "outcome", "code"),
    [
        (WAITS, Outcome.UNPROVEN, "compile.no-answer"),
        ("try:\n    while 1: pass\nfinally: pass", Outcome.FAILED, "compile.timed-out"),
    ],
)
def test_a_compile_that_is_late_is_refused_where_it_computed(workshop, body, outcome, code):
    full = inspect_problem(problem(ADD_RELU), workshop).full
    candidate = candidate_of(CANDIDATE + dedent(adding(body)))
    report = compiling.run(candidate, full, "sm90", workshop, seconds=2.0).report
    assert (report.outcome, report.findings[0].code) == (outcome, code)
