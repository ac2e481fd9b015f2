"""Nothing outlives a worker: no process, no file, whoever died first and however."""

# /proc links are read as text: they lead nowhere.
# ruff: noqa: PTH115

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.isolation.outcome import JobFailed, WorkerDied, WorkerTimedOut
from workbench.isolation.processes import use
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.scratch import ScratchRoot, remove_tree, used_bytes
from workbench.isolation.worker import NO_PROGRAMS
from workbench.isolation.workshop import Workshop


@pytest.fixture(scope="module", params=["namespaces", "no namespaces"])
def workshop(request):
    with Workshop(
        preload=["isolation_jobs"], wrap=False, namespaces=request.param == "namespaces"
    ) as shop:
        yield shop


def run(worker, job, request=None, **options):
    return worker.call(f"isolation_jobs:{job}", request or {}, **options)


def in_namespace(name):
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "ns" / "pid") == name:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def ended(pidfd, seconds=30.0):
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def test_a_daemon_dies_with_its_worker(workshop):
    with workshop.worker(Flavor.COMPILE) as worker:
        told = run(worker, "daemon", deadline=20).body
    if told["namespace"] == os.readlink("/proc/self/ns/pid"):
        assert not Path(f"/proc/{told['pid']}").exists()
    else:
        assert in_namespace(told["namespace"]) == []


def test_a_worker_that_exits_early_takes_its_daemon_along(workshop):
    with workshop.worker(Flavor.COMPILE) as worker:
        pid = run(worker, "daemon", deadline=20).body["pid"]
        with pytest.raises(WorkerDied):
            run(worker, "exit_zero", deadline=20)
        assert worker.closed
    alone = any(layer.ok for layer in worker.layers if layer.name == "pid namespace")
    assert alone or not Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{worker.keeper_pid}").exists()


def test_a_fork_bomb_is_stopped_and_cleared_away(workshop):
    with (
        workshop.worker(Flavor.COMPILE, Limits(tasks=30)) as worker,
        pytest.raises((WorkerDied, WorkerTimedOut)),
    ):
        run(worker, "fork_bomb", deadline=3)
    assert not Path(f"/proc/{worker.keeper_pid}").exists()
    with workshop.worker(Flavor.COMPILE) as after:
        assert run(after, "echo", {"next": 1}).body == {"next": 1}


def test_hostile_folders_are_removed_with_the_worker(workshop):
    with workshop.worker(Flavor.BARE) as worker:
        run(worker, "litter")
        assert worker.scratch.exists()
    assert not worker.scratch.exists()
    assert Path("/etc/passwd").exists()


def test_a_forkserver_that_was_killed_is_started_again(workshop):
    with workshop.worker(Flavor.BARE) as worker:
        status = Path(f"/proc/{worker.keeper_pid}/status").read_text()
        forkserver = int(status.split("PPid:")[1].split()[0])
        os.kill(forkserver, signal.SIGKILL)
        # The worker belongs to its judge, not to the forkserver.
        assert run(worker, "echo", {"a": 1}).body == {"a": 1}
    with workshop.worker(Flavor.BARE) as worker:
        assert run(worker, "echo", {"b": 2}).body == {"b": 2}


JUDGE = """
import sys
sys.path[:0] = [{tests!r}]
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
shop = Workshop(preload=["isolation_jobs"], wrap={wrap}, namespaces={namespaces})
worker = shop.worker(Flavor.BARE)
worker.call("isolation_jobs:echo", {{}})
print(worker.keeper_pid, worker.scratch, flush=True)
worker.call("isolation_jobs:spin", {{}})
"""


@pytest.mark.parametrize(("wrap", "namespaces"), [(True, True), (False, True), (False, False)])
def test_a_killed_judge_takes_its_workers_along_and_its_files_are_swept(wrap, namespaces, tmp_path):
    script = JUDGE.format(tests=str(Path(__file__).parent), wrap=wrap, namespaces=namespaces)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    judge = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
    )
    keeper, scratch = judge.stdout.readline().split()
    status = Path(f"/proc/{keeper}/status").read_text()
    below = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    forkserver = status.split("PPid:")[1].split()[0]
    pidfds = [os.pidfd_open(int(pid)) for pid in (keeper, forkserver, *below)]
    judge.kill()
    judge.wait()
    judge.stdout.close()
    assert all(ended(pidfd) for pidfd in pidfds)
    for pidfd in pidfds:
        os.close(pidfd)
    assert Path(scratch).exists()
    sweep = "from workbench.isolation.scratch import ScratchRoot; ScratchRoot().close()"
    subprocess.run([sys.executable, "-c", sweep], check=True, env=environment)
    assert not Path(scratch).exists()


def test_a_living_judges_files_are_not_swept(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = ScratchRoot()
    kept = first.folder("a")
    ScratchRoot().close()
    assert kept.exists()
    first.close()
    assert not kept.exists()


def test_a_closed_workshop_leaves_no_forkserver_and_no_folder():
    with Workshop(preload=["isolation_jobs"], wrap=False) as shop:
        worker = shop.worker(Flavor.BARE)
        status = Path(f"/proc/{worker.keeper_pid}/status").read_text()
        forkserver = int(status.split("PPid:")[1].split()[0])
        root = worker.scratch.parent
    assert not Path(f"/proc/{forkserver}").exists()
    assert not Path(f"/proc/{worker.keeper_pid}").exists()
    assert not root.exists()


def test_removal_does_not_follow_links(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "link").symlink_to(outside)
    remove_tree(folder)
    assert (outside / "kept").exists()
    assert not folder.exists()


def test_disk_use_counts_blocks_of_every_depth(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    before = used_bytes(tmp_path)
    (tmp_path / "a" / "b" / "file").write_bytes(bytes(100_000))
    assert used_bytes(tmp_path) - before >= 100_000


def sealed(worker):
    """How many processes were ended for it to start none any more, and whether that holds."""
    ended = worker.forbid_programs()
    assert worker.forbid_programs() == 0, "once is enough"
    (layer,) = (one for one in worker.layers if one.name == NO_PROGRAMS)
    return ended, layer.ok


def test_a_worker_that_may_start_no_more_processes_keeps_none_either(workshop):
    with workshop.worker(Flavor.COMPILE) as worker:
        run(worker, "daemon", deadline=20)
        run(worker, "daemon", deadline=20)
        assert worker.started() == 0, "it may"
        ended, holds = sealed(worker)
        # Two, or more while what started them is still going.
        assert ended >= 2
        assert holds
        assert len(use_of(worker)) == 1
        with pytest.raises(JobFailed, match="not permitted"):
            run(worker, "daemon", deadline=20)
        assert run(worker, "echo", {"still": "here"}).body == {"still": "here"}
        assert worker.started() == 0


def test_a_worker_that_only_says_it_starts_no_more_processes_is_not_believed(workshop):
    with workshop.worker(Flavor.COMPILE) as worker:
        run(worker, "pretend_to_seal")
        assert sealed(worker) == (0, False)
        run(worker, "daemon", deadline=20)


def use_of(worker):
    """Its processes that run, not those that are only not buried yet."""
    return [pid for pid in worker.pids if use([pid]).processes]
