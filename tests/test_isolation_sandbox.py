"""What a candidate cannot reach, tried from inside a worker; a lawful one lacks nothing."""

import ctypes
import errno
import os
import platform
import signal
import tempfile
from pathlib import Path

import isolation_reach_jobs
import msgspec
import pytest

import workbench
from workbench.isolation.bubblewrap import program
from workbench.isolation.grants import toolchain
from workbench.isolation.outcome import JobFailed, WorkerDied
from workbench.isolation.probe import probe
from workbench.isolation.records import Flavor, Layer
from workbench.isolation.sandbox import in_force
from workbench.isolation.syscalls import number
from workbench.isolation.workshop import Workshop

JOBS = ["isolation_jobs", "isolation_reach_jobs"]
SUITE = Path(workbench.__file__).parent / "problems" / "suite"

FILES = {
    "read_shadow",
    "read_home",
    "list_home",
    "read_sibling",
    "read_suite",
    "read_own_source",
    "write_home",
    "write_tmp",
    "write_shm",
    "append_shm",
    "write_packages",
    "link_home_file",
    "read_judge_environment",
    "read_judge_descriptors",
}
"""Kept by Landlock."""
CALLS = {
    "chmod_home_file",
    "chmod_by_handle",
    "truncate_home_file",
    "internet_socket",
    "datagram_socket",
    "unix_socket",
    "netlink_socket",
    "read_judge_memory",
    "trace_parent",
    "kill_judge",
    "kill_everyone",
    "limit_judge",
    "new_namespace",
    "remount",
    "start_program",
    "start_process",
    "memory_file",
    "shared_segment",
}
"""Kept by seccomp."""
NEVER = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "tkill"),
    *("mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "mount_setattr"),
    *("open_by_handle_at", "fchmod", "fchown", "fsetxattr", "truncate", "mknodat"),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter"),
    *("io_uring_register", "init_module", "kexec_load", "settimeofday", "syslog"),
    *("add_key", "request_key", "keyctl", "unshare", "setns"),
    *("shmget", "semget", "msgget", "mq_open", "socket"),
)
"""System calls that no candidate needs, and that have broken sandboxes or outlive a process."""


@pytest.fixture(scope="module", params=["namespaces", "no namespaces", "bubblewrap"])
def workshop(request):
    if request.param == "bubblewrap" and program() is None:
        pytest.skip("bubblewrap is not installed")
    with Workshop(
        preload=JOBS,
        wrap=request.param == "bubblewrap",
        namespaces=request.param == "namespaces",
    ) as shop:
        yield shop


@pytest.fixture
def worker(workshop):
    with workshop.worker(Flavor.BARE) as made:
        yield made


def layer(worker, name):
    return next(found for found in worker.layers if found.name == name)


def need(worker, name):
    found = layer(worker, name)
    if not found.ok:
        pytest.skip(f"{name} does not hold here: {found.detail}")


@pytest.fixture
def targets(tmp_path, workshop):
    """Things worth reaching: a home with a key, another worker's scratch, a byte of the judge."""
    home = tmp_path / "home"
    home.mkdir()
    key = home / "id_ed25519"
    key.write_text("private")
    byte = ctypes.create_string_buffer(b"judge's own")
    with (
        workshop.worker(Flavor.BARE) as sibling,
        tempfile.NamedTemporaryFile(dir="/dev/shm") as shared,
    ):
        theirs = sibling.scratch / "candidate.py"
        theirs.write_text("secret")
        yield {
            "home": str(home),
            "home_file": str(key),
            "shm": shared.name,
            "sibling": str(theirs),
            "suite": str(next(SUITE.rglob("*.py"), SUITE / "none.py")),
            "judge": os.getpid(),
            "address": ctypes.addressof(byte),
        }
    assert key.read_text() == "private"
    assert key.stat().st_mode & 0o700
    assert not (home / "planted").exists()


def tried(worker, targets, names):
    return worker.call("isolation_reach_jobs:try_all", {**targets, "try": sorted(names)}).body


def test_files_outside_the_scratch_folder_do_not_exist_for_a_worker(worker, targets):
    need(worker, "landlock")
    done = tried(worker, targets, FILES)
    assert {name: how for name, how in done.items() if how.startswith("did it")} == {}


def test_calls_that_reach_out_of_the_process_fail(worker, targets):
    need(worker, "seccomp")
    done = tried(worker, targets, CALLS)
    assert {name: how for name, how in done.items() if how.startswith("did it")} == {}


def test_no_call_that_breaks_out_or_outlives_is_left_to_a_worker(worker):
    need(worker, "seccomp")
    calls = {name: number(name) for name in NEVER}
    met = worker.call("isolation_reach_jobs:raw_calls", {"calls": calls}).body
    assert {name: how for name, how in met.items() if how != errno.EPERM} == {}
    # The first hides its flags behind a pointer; a pair of other sockets is no pair of pipes.
    calls = {name: number(name) for name in ("clone3", "socketpair")}
    # Characters as if a person had typed them.
    calls["ioctl"] = [number("ioctl"), 0, 0x5412]
    met = worker.call("isolation_reach_jobs:raw_calls", {"calls": calls}).body
    assert met == {"clone3": errno.ENOSYS, "socketpair": errno.EPERM, "ioctl": errno.EPERM}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of an x86-64 kernel")
def test_calls_by_the_numbers_of_another_machine_end_the_worker(workshop):
    with workshop.worker(Flavor.BARE) as worker:
        need(worker, "seccomp")
        getpid = {"getpid of x32": 0x40000000 + 39}
        with pytest.raises(WorkerDied) as died:
            worker.call("isolation_reach_jobs:raw_calls", {"calls": getpid})
        assert died.value.signal == signal.SIGSYS
    with workshop.worker(Flavor.BARE) as worker, pytest.raises(WorkerDied) as died:
        worker.call("isolation_reach_jobs:other_machine", {})
    # Where the kernel runs no 32-bit programs, the instruction itself is refused.
    assert died.value.signal in {signal.SIGSYS, signal.SIGSEGV}


def test_landlock_closes_all_that_this_kernel_can(worker):
    need(worker, "landlock")
    abi, *closed = layer(worker, "landlock").detail.removeprefix("ABI ").split(": ")
    wanted = {"files": 1, "network": 4, "signals": 6}
    assert closed[0].split(", ") == [what for what, since in wanted.items() if int(abi) >= since]


def test_the_toolchain_holds_no_folder_in_which_people_keep_files(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "somebody"))
    roots = toolchain({**os.environ, "LD_LIBRARY_PATH": f"{tmp_path}:/usr/lib"})
    assert Path("/usr/lib") in roots
    assert tmp_path not in roots
    monkeypatch.setenv("HOME", "/home/nobody-s")
    roots += toolchain(os.environ)
    for kept in (tmp_path, *map(Path, ("/tmp", "/var", "/run", "/etc", "/dev", "/root", "/home"))):
        assert not any(kept.resolve().is_relative_to(root.resolve()) for root in roots)


def test_a_file_of_the_toolchain_is_not_emptied_by_opening_it_for_reading(monkeypatch, tmp_path):
    tool = tmp_path / "lib" / "libtool.so"
    tool.parent.mkdir()
    tool.write_text("machine code")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tool.parent))
    with Workshop(preload=JOBS, wrap=False) as shop, shop.worker(Flavor.BARE) as worker:
        need(worker, "landlock")
        if int(layer(worker, "landlock").detail.split()[1].rstrip(":")) < 3:
            pytest.skip("this kernel's Landlock does not guard truncation")
        wanted = {"tool": str(tool), "home_file": str(tool), "try": ["read_home"]}
        done = worker.call("isolation_reach_jobs:try_all", wanted).body
        assert done["read_home"] == "did it: 'machine code'"
        wanted["try"] = ["empty_by_reading"]
        done = worker.call("isolation_reach_jobs:try_all", wanted).body
    assert done["empty_by_reading"].startswith("errno")
    assert tool.read_text() == "machine code"


def test_the_same_jobs_reach_everything_where_nothing_confines_them(targets):
    """The attacks are real: run by the judge itself, they succeed."""
    done, _ = isolation_reach_jobs.try_all(
        None, {**targets, "try": ["read_home", "read_sibling", "unix_socket", "start_program"]}, []
    )
    assert all(how.startswith("did it") for how in done.values())


def test_a_worker_is_born_without_the_judges_secrets(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with Workshop(preload=["isolation_jobs"], wrap=False) as shop, shop.worker(Flavor.BARE) as born:
        seen = born.call("isolation_jobs:surroundings", {}).body
    assert "sk-secret" not in str(seen["environ"])
    assert {"OPENAI_API_KEY", "PYTHONPATH"}.isdisjoint(seen["environ"])
    assert len(seen["environ"]) < 25


@pytest.mark.parametrize(
    ("flavor", "predictable"), [(Flavor.INTERPRET, False), (Flavor.COMPILE, True)]
)
def test_hashes_of_texts_tell_no_candidate_that_it_is_judged(flavor, predictable):
    seen = set()
    for _ in range(2):
        with Workshop(preload=["isolation_jobs"], wrap=False) as shop, shop.worker(flavor) as made:
            seen.add(made.call("isolation_jobs:text_hash", {"text": "kernel"}).body["hash"])
    assert (len(seen) == 1) is predictable


def test_home_and_caches_lie_in_the_scratch_folder(worker):
    seen = worker.call("isolation_jobs:surroundings", {}).body
    assert seen["scratch"] == seen["cwd"] == str(worker.scratch)
    for name in ("HOME", "TMPDIR", "TRITON_CACHE_DIR"):
        assert Path(seen["environ"][name]).is_relative_to(worker.scratch)


def test_stdin_is_empty_and_no_stray_descriptor_is_open(worker):
    seen = worker.call("isolation_jobs:surroundings", {}).body
    assert seen["stdin"] == ""
    # 0 to 2, the channel, and the one that lists them.
    assert len(seen["descriptors"]) == 5


def test_the_word_for_the_isolation_is_true_of_its_layers(worker):
    holding = {found.name for found in worker.layers if found.ok}
    match worker.isolation:
        case "bubblewrap":
            assert {"bubblewrap", "seccomp"} <= holding
        case "landlock+seccomp":
            assert {"landlock", "seccomp"} <= holding
        case weakest:
            assert weakest == "process only"


@pytest.mark.parametrize(
    ("holding", "word"),
    [
        ({"bubblewrap", "landlock", "seccomp"}, "bubblewrap"),
        ({"bubblewrap", "landlock"}, "process only"),
        ({"landlock", "seccomp", "pid namespace"}, "landlock+seccomp"),
        ({"landlock", "pid namespace"}, "process only"),
        ({"seccomp", "pid namespace"}, "process only"),
        (set(), "process only"),
    ],
)
def test_no_word_for_the_isolation_says_more_than_its_weakest_layer(holding, word):
    names = ("bubblewrap", "pid namespace", "landlock", "seccomp")
    assert in_force(tuple(Layer(name=name, ok=name in holding) for name in names)) == word


def test_a_hidden_folder_of_the_toolchain_is_unreadable():
    hidden = Path(msgspec.__file__).parent
    with (
        Workshop(preload=JOBS, hidden=[hidden], wrap=False) as shop,
        shop.worker(Flavor.BARE) as worker,
    ):
        need(worker, "landlock")
        wanted = {"home_file": str(hidden / "__init__.py"), "try": ["read_home"]}
        assert worker.call("isolation_reach_jobs:try_all", wanted).body == {"read_home": "errno 13"}
        wanted["home_file"] = pytest.__file__
        done = worker.call("isolation_reach_jobs:try_all", wanted).body
    assert done["read_home"].startswith("did it")


def test_the_probe_tells_of_every_layer_and_of_attempts_that_failed():
    layers = {found.name: found for found in probe()}
    assert {"isolation", "landlock", "seccomp", "pid namespace"} <= set(layers)
    if layers["isolation"].ok:
        assert layers["reading outside the scratch folder"].detail == "tried: denied"
        assert layers["opening a network socket"].ok


KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * 2, at < n)

def run():
    x = torch.arange(100.0)
    y = torch.empty_like(x)
    double[(4,)](x, y, 100, BLOCK=32)
    return y.tolist()
"""


def test_the_interpreter_runs_a_kernel_without_any_new_process():
    with (
        Workshop(preload=["isolation_jobs"]) as shop,
        shop.worker(Flavor.INTERPRET) as worker,
    ):
        reply = worker.call("isolation_jobs:interpret_kernel", {"source": KERNEL})
    assert reply.body["answer"] == [2.0 * n for n in range(100)]


@pytest.fixture(scope="module")
def compiling():
    with Workshop(preload=JOBS, wrap=False) as shop:
        yield shop


def test_the_compile_flavor_runs_the_toolchain_and_loads_what_it_made(compiling):
    with compiling.worker(Flavor.COMPILE) as worker:
        assert worker.call("isolation_jobs:compile_c", {}).body == {"answer": 7}


def test_exec_can_be_given_up_for_good(compiling):
    with compiling.worker(Flavor.COMPILE) as worker:
        need(worker, "seccomp")
        with pytest.raises(JobFailed, match="not permitted"):
            worker.call("isolation_jobs:compile_c", {"seal": True})


def test_the_toolchains_of_exec_are_confined_too(compiling, tmp_path):
    key = tmp_path / "key"
    key.write_text("private")
    with compiling.worker(Flavor.COMPILE) as worker:
        need(worker, "landlock")
        done = worker.call(
            "isolation_reach_jobs:try_all", {"home_file": str(key), "try": ["program_reads_home"]}
        ).body
        own = worker.call("isolation_reach_jobs:try_all", {"try": ["start_own_program"]}).body
        # A namespace of its own for users and files.
        calls = {"clone": [number("clone"), 0x10020000 | signal.SIGCHLD]}
        met = worker.call("isolation_reach_jobs:raw_calls", {"calls": calls}).body
    assert done["program_reads_home"] == "did it: 1"
    assert own["start_own_program"] == f"errno {errno.EACCES}"
    assert met == {"clone": errno.EPERM}
