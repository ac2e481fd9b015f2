"""One timing per GPU across processes, and what a bad lock file says."""

import contextlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workbench.errors import WorkbenchError
from workbench.isolation.processes import children
from workbench.measure.gpulock import GpuBusy, gpu_lock, neighbours
from workbench.measure.gpus import process_name

HOLDER = Path(__file__).with_name("timing_holder.py")


@contextlib.contextmanager
def holder(folder, how="alone"):
    """Another process that has the lock."""
    words = [sys.executable, str(HOLDER), str(folder), how]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


@contextlib.contextmanager
def holder_after(folder, first):
    """A process that has had the lock, `first` having let it go: it runs on without it."""
    let_go(first)
    with holder(folder) as process:
        yield process


def let_go(process):
    """Let go of the lock, and run on."""
    process.stdin.write(b"let go\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"let go\n"


@contextlib.contextmanager
def holder_after_all(folder):
    """A process with a child that has had the lock and keeps running."""
    with holder(folder, "worker") as process:
        let_go(process)
        yield process


def take(folder, **options):
    with gpu_lock("GPU-test", folder=folder, **options):
        return True


def test_a_held_gpu_is_waited_for_told_once_and_given_up_in_time(tmp_path):
    told = []
    with holder(tmp_path), pytest.raises(GpuBusy) as met:
        take(tmp_path, seconds=0.3, waits=lambda: told.append(1))
    assert told == [1]
    assert "GPU-test" in met.value.where


def test_a_waiter_goes_on_as_soon_as_the_holder_lets_go(tmp_path):
    with holder(tmp_path) as other:
        assert take(tmp_path, seconds=30, waits=other.stdin.close)


def test_a_holder_that_is_killed_holds_nothing(tmp_path):
    with holder(tmp_path) as other:
        other.kill()
        other.wait()
        assert take(tmp_path, seconds=0)


def test_checks_share_a_gpu_with_checks_but_not_with_a_timing(tmp_path):
    with holder(tmp_path, "shared"):
        assert take(tmp_path, shared=True, seconds=0)
        with pytest.raises(GpuBusy):
            take(tmp_path, seconds=0)


def test_workbenches_on_one_gpu_see_each_other_holding_its_lock_or_not(tmp_path):
    take(tmp_path)
    assert neighbours("GPU-test", folder=tmp_path) == set()
    with holder(tmp_path) as one, holder_after(tmp_path, one) as other:
        assert neighbours("GPU-test", folder=tmp_path) == {one.pid, other.pid}
        assert neighbours("GPU-other", folder=tmp_path) == set()
    assert neighbours("GPU-test", folder=tmp_path) == set()


WATCHES = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
from workbench.measure.gpulock import gpu_lock, neighbours
from workbench.measure.gpuwatch import NvmlWatch
folder, worker = Path(sys.argv[1]), int(sys.argv[2])
with gpu_lock("GPU-test", folder=folder, shared=True):
    pass
listed = [SimpleNamespace(pid=pid) for pid in (worker, 1)]
nvml = SimpleNamespace(
    NVMLError=RuntimeError, nvmlDeviceGetComputeRunningProcesses=lambda _handle: listed
)
watch = NvmlWatch(nvml, None, lambda: neighbours("GPU-test", folder=folder))
print(json.dumps([watch.strangers(), watch.neighbours()]))
"""
"""Another workbench: to this one the tests' own processes are not its own."""


def test_a_neighbours_workers_are_told_from_strangers(tmp_path):
    with holder_after_all(tmp_path) as other:
        (worker,) = children(other.pid)
        words = [sys.executable, "-c", WATCHES, str(tmp_path), str(worker)]
        told = subprocess.run(words, capture_output=True, check=True)
        assert json.loads(told.stdout) == [[process_name(1)], [process_name(other.pid)]]


def test_another_gpu_is_free(tmp_path):
    with holder(tmp_path), gpu_lock("GPU-other", folder=tmp_path, seconds=0):
        pass


def test_every_user_can_open_the_file_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        take(tmp_path)
    finally:
        os.umask(before)
    (made,) = tmp_path.glob("*.lock")
    assert stat.S_IMODE(made.stat().st_mode) == 0o666


def test_a_file_that_may_only_be_read_locks_too(tmp_path):
    take(tmp_path)
    (made,) = tmp_path.glob("*.lock")
    made.chmod(0o444)
    assert take(tmp_path, seconds=0)


def test_a_link_or_a_pipe_in_the_lock_s_place_is_refused(tmp_path):
    place = tmp_path / "workbench-gpu-GPU-test.lock"
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkbenchError, match="lock file"):
        take(tmp_path)
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(WorkbenchError, match="regular"):
        take(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there_is_said_with_what_to_do(tmp_path):
    with pytest.raises(WorkbenchError) as met:
        take(tmp_path / "none")
    assert met.value.todo


def test_a_lock_file_that_was_cleaned_away_meanwhile_is_not_held(tmp_path):
    """Whoever waited for the old file goes on to the new one, where others meet."""
    with holder(tmp_path) as other:

        def waits():
            (file,) = tmp_path.glob("*.lock")
            file.unlink()
            other.stdin.close()

        held = gpu_lock("GPU-test", folder=tmp_path, seconds=30, waits=waits)
        with held, pytest.raises(GpuBusy):
            take(tmp_path, seconds=0)


def test_who_waits_to_be_alone_comes_before_who_comes_to_share(tmp_path):
    """Else sessions that check in turns would keep every timing out."""
    shared = []

    def waits():
        with pytest.raises(GpuBusy):
            take(tmp_path, shared=True, seconds=0)
        shared.append(1)
        other.stdin.close()

    with holder(tmp_path, "shared") as other:
        assert take(tmp_path, seconds=30, waits=waits)
    assert shared == [1]
    assert take(tmp_path, shared=True, seconds=0)


def test_who_waits_to_be_alone_goes_on_before_who_waits_to_share(tmp_path):
    """Else every timing would wait for the checks that came between it and the one before."""
    order, inside = [], Counter()
    waiting = {name: threading.Event() for name in ("first", "second", "sharing")}

    def come(name):
        shared = name == "sharing"
        with gpu_lock(
            "GPU-test", folder=tmp_path, shared=shared, seconds=60, waits=waiting[name].set
        ):
            order.append(name)
            inside["now"] += 1
            inside["most"] = max(inside["most"], inside["now"])
            inside["now"] -= 1

    with holder(tmp_path) as other, ThreadPoolExecutor(3) as threads:
        came = [threads.submit(come, "sharing")]
        waiting["sharing"].wait()
        came += [threads.submit(come, name) for name in ("first", "second")]
        for event in waiting.values():
            event.wait()
        other.stdin.close()
        for one in came:
            one.result()
    assert order[-1] == "sharing"
    assert sorted(order) == ["first", "second", "sharing"]
    assert inside["most"] == 1


def test_many_who_come_to_share_at_once_all_get_in(tmp_path):
    everybody = threading.Barrier(8)

    def come(_number):
        with gpu_lock("GPU-test", folder=tmp_path, shared=True, seconds=60):
            everybody.wait()
            return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(come, range(8)))
