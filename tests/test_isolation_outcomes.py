"""Whatever a job does, its caller gets a reply or a typed outcome, and the next worker works."""

import signal
import threading
from pathlib import Path

import pytest

from workbench.isolation.outcome import JobFailed, WorkerBroke, WorkerDied, WorkerTimedOut
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.wire import Blob
from workbench.isolation.workshop import Workshop

SMALL = Limits(wall_seconds=20, memory_bytes=512 << 20, file_bytes=64 << 20, reply_bytes=1 << 20)


@pytest.fixture(scope="module")
def workshop():
    with Workshop(preload=["isolation_jobs"], wrap=False) as shop:
        yield shop


@pytest.fixture
def worker(workshop):
    with workshop.worker(Flavor.BARE, SMALL) as made:
        yield made
    assert not made.scratch.exists()
    assert not Path(f"/proc/{made.keeper_pid}").exists()


def test_the_kernel_holds_a_worker_to_its_limits(workshop):
    asked = Limits(
        cpu_seconds=77, memory_bytes=512 << 20, file_bytes=64 << 20, open_files=99, tasks=64
    )
    with workshop.worker(Flavor.BARE, asked) as worker:
        held = worker.call("isolation_jobs:limits", {}).body
    assert held == {
        "CORE": [0, 0],
        "CPU": [77, 78],
        "DATA": [512 << 20, 512 << 20],
        "FSIZE": [64 << 20, 64 << 20],
        "NOFILE": [99, 99],
        "MSGQUEUE": [0, 0],
    }


def run(worker, job, request=None, **options):
    return worker.call(f"isolation_jobs:{job}", request or {}, **options)


def test_a_request_and_its_blobs_come_back_as_they_went(worker):
    blobs = [
        Blob(dtype="float32", shape=(2, 3), strides=(1, 2), data=bytes(range(24))),
        Blob(dtype="bool", shape=(0, 4), strides=(4, 1), data=b""),
        Blob(dtype="int64", shape=(), strides=(), data=bytes(8)),
    ]
    request = {"text": "ü", "deep": [1, 2.5, None, {"a": True}], "raw": b"\x00\xff"}
    reply = worker.call("isolation_jobs:echo", request, blobs)
    assert reply.body == request
    assert [(b.dtype, b.shape, b.strides) for b in reply.blobs] == [
        (b.dtype, b.shape, b.strides) for b in blobs
    ]
    assert [bytes(b.data) for b in reply.blobs] == [b.data for b in blobs]


def test_state_lives_as_long_as_the_worker_and_no_longer(workshop, worker):
    assert run(worker, "remember", {"word": "one"}).body == {"calls": ["one"]}
    assert run(worker, "remember", {"word": "two"}).body == {"calls": ["one", "two"]}
    with workshop.worker(Flavor.BARE) as other:
        assert run(other, "remember", {"word": "three"}).body == {"calls": ["three"]}


def test_a_job_that_raises_leaves_the_worker_alive_and_names_the_line(worker):
    with pytest.raises(JobFailed) as met:
        run(worker, "fail_in_scratch")
    assert (met.value.kind, met.value.message, met.value.line) == ("ValueError", "line three", 3)
    assert "candidate.py" in met.value.trace
    assert run(worker, "echo", {"still": "here"}).body == {"still": "here"}


@pytest.mark.parametrize(
    ("job", "kind"),
    [("system_exit", "SystemExit"), ("unprintable", "Odd"), ("missing", "Attribute")],
)
def test_no_exception_escapes_the_report(worker, job, kind):
    with pytest.raises(JobFailed) as met:
        run(worker, job)
    assert met.value.kind.startswith(kind)


@pytest.mark.parametrize(
    ("job", "exit_code", "killed_by"),
    [
        ("exit_zero", 0, None),
        ("kill_itself", None, signal.SIGKILL),
        ("segfault", None, signal.SIGSEGV),
        ("abort", None, signal.SIGABRT),
        ("answer_half", 0, None),
    ],
)
def test_an_early_end_is_a_death_with_its_cause(worker, job, exit_code, killed_by):
    with pytest.raises(WorkerDied) as met:
        run(worker, job)
    assert (met.value.exit_code, met.value.signal) == (exit_code, killed_by)


def test_a_crash_leaves_its_stack_in_stderr(worker):
    with pytest.raises(WorkerDied) as met:
        run(worker, "segfault")
    assert "Segmentation fault" in met.value.stderr


@pytest.mark.parametrize("job", ["spin", "stop_itself", "many_threads"])
def test_a_job_that_never_ends_is_killed_at_its_deadline(worker, job):
    with pytest.raises(WorkerTimedOut) as met:
        run(worker, job, {"threads": 20}, deadline=0.3)
    assert met.value.seconds == 0.3


def test_processor_time_runs_out_even_where_its_warning_is_ignored(workshop):
    with (
        workshop.worker(Flavor.BARE, Limits(cpu_seconds=1)) as worker,
        pytest.raises(WorkerDied) as met,
    ):
        run(worker, "burn_cpu", deadline=60)
    assert met.value.signal == signal.SIGKILL


@pytest.mark.parametrize(
    ("job", "fault"),
    [
        ("close_everything", "closed its channel"),
        ("answer_garbage", "not a frame"),
        ("claim_terabytes", "beyond the limit"),
        ("answer_nonsense", "does not decode"),
        ("lie_about_shape", "strides reach"),
    ],
)
def test_a_broken_protocol_is_no_answer(worker, job, fault):
    with pytest.raises(WorkerBroke, match=fault):
        run(worker, job, deadline=2)
    with pytest.raises(WorkerDied, match="closed"):
        run(worker, "echo")


def test_a_second_answer_to_one_question_ends_the_worker_at_the_next(worker):
    # In its own process a candidate can always speak for its job: once, and in turn.
    assert run(worker, "answer_twice").body == {"forged": True}
    with pytest.raises(WorkerBroke, match="turn"):
        run(worker, "echo")


def test_an_answer_before_the_question_is_out_of_turn(worker):
    run(worker, "answer_unasked")
    with pytest.raises(WorkerBroke):
        run(worker, "wait_for_it")


def test_a_reply_may_be_as_large_as_its_limit_and_no_larger(worker):
    assert len(run(worker, "big_reply", {"bytes": 1 << 20}).blobs[0].data) == 1 << 20
    with pytest.raises(WorkerBroke, match="beyond the limit"):
        run(worker, "big_reply", {"bytes": (1 << 20) + 1})


def test_private_memory_ends_at_its_limit(worker):
    with pytest.raises(JobFailed) as met:
        run(worker, "eat_memory")
    assert met.value.kind == "MemoryError"


def test_shared_memory_counts_too(worker):
    with pytest.raises(WorkerDied, match="memory limit"):
        run(worker, "eat_shared_memory")


@pytest.mark.parametrize("job", ["eat_disk", "eat_unlinked_disk"])
def test_a_full_scratch_folder_ends_the_worker(worker, job):
    with pytest.raises(WorkerDied, match="scratch limit"):
        run(worker, job)


def test_one_file_ends_at_its_limit(worker):
    with pytest.raises((JobFailed, WorkerDied)) as met:
        run(worker, "big_file")
    assert "too large" in str(met.value) or met.value.signal == signal.SIGXFSZ


def test_too_many_threads_end_the_worker(workshop):
    with (
        workshop.worker(Flavor.BARE, Limits(tasks=50)) as worker,
        pytest.raises((WorkerDied, JobFailed)) as met,
    ):
        run(worker, "many_threads", {"threads": 500}, deadline=20)
    assert "task limit" in str(met.value) or "thread" in str(met.value)


def test_a_flood_of_output_neither_blocks_nor_fills_anything(workshop):
    with workshop.worker(Flavor.BARE, Limits(output_bytes=1000)) as worker:
        reply = run(worker, "flood", {"lines": 20_000}, deadline=60)
        out, err = worker.output()
    assert reply.body["written"] > 500 << 20
    assert len(out) == 1000
    assert err == "the end"


def test_closing_from_another_thread_cuts_a_call_short(workshop):
    worker = workshop.worker(Flavor.BARE)
    threading.Timer(0.2, worker.close).start()
    with pytest.raises(WorkerDied, match="closed"):
        run(worker, "spin", deadline=60)
    assert not Path(f"/proc/{worker.keeper_pid}").exists()


def test_a_workshop_waits_for_a_worker_that_another_thread_is_closing():
    with Workshop(preload=["isolation_jobs"], wrap=False) as shop:
        worker = shop.worker(Flavor.BARE)
        run(worker, "many_folders", {"folders": 2000})
        closing = threading.Thread(target=worker.close)
        closing.start()
        while not worker.closed:
            pass
    assert worker.gone
    assert not worker.scratch.exists()
    closing.join()


def test_workers_of_one_workshop_serve_side_by_side(workshop):
    with (
        workshop.worker(Flavor.BARE) as first,
        workshop.worker(Flavor.BARE) as second,
    ):
        run(first, "remember", {"word": "a"})
        with pytest.raises(WorkerDied):
            run(second, "exit_zero")
        assert run(first, "remember", {"word": "b"}).body == {"calls": ["a", "b"]}
