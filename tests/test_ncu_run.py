"""However a run of Nsight Compute ends, there is a record that says so, and nothing is left."""

import contextlib
import os
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from gate_kit import CANDIDATE, SCALE, SCALE_KERNEL, model, problem
from ncu_kit import NOTHING, PROFILING, REFUSED, SOFTMAX, ncu, page

from workbench.gate.candidate import candidate_of
from workbench.gate.counters import NCU, NcuProfiler, Proof
from workbench.gate.counters_level import Level, installation, remember, remembered
from workbench.gate.records import NO_CODE_RAN
from workbench.isolation.probe import probe
from workbench.isolation.processes import descendants
from workbench.kernels.records import Launch, StaticProfile
from workbench.measure.ncu.command import profile_command, read_command
from workbench.measure.ncu.records import NcuState
from workbench.measure.ncu.run import NcuJob, Stop, keep_report, profile
from workbench.measure.ncu.states import REMEDY

RAW = page(("softmax", SOFTMAX))


def job(folder, program=("true",), **changes):
    (folder / "out").mkdir(exist_ok=True)
    (folder / "work").mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    return NcuJob(
        **{
            "program": program,
            "environment": environment,
            "kernels": ("softmax",),
            "folder": folder / "out",
            "working": folder / "work",
            **changes,
        }
    )


def ran(folder, **how):
    return profile(job(folder), ncu=ncu(folder, **how))


def test_a_profiled_run_has_readings_version_and_a_report_that_can_be_kept(tmp_path):
    record = ran(tmp_path, raw=RAW)
    assert record.state is NcuState.PROFILED, record
    assert (record.version, record.cache_control, record.clock_control) == (
        "2025.3.1.0",
        "all",
        "none",
    )
    assert record.of("softmax").value("dram_pct") == pytest.approx(91.62)
    kept = keep_report(record, tmp_path / "profiles" / "0003.ncu-rep", "profiles/0003.ncu-rep")
    assert (tmp_path / kept.report).stat().st_size == kept.report_bytes > 0


def test_a_report_that_cannot_be_kept_is_told(tmp_path):
    record = ran(tmp_path, raw=RAW)
    (tmp_path / "taken").write_text("a file")
    kept = keep_report(record, tmp_path / "taken" / "x", "taken/x")
    assert (kept.report, kept.report_bytes) == ("", 0)
    assert "was not kept" in kept.says
    assert kept.launches == record.launches


@pytest.mark.parametrize(
    ("log", "state"),
    [
        (REFUSED + NOTHING, NcuState.REFUSED),
        (
            "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no"
            " other tool (like DCGM) is concurrently collecting profiling data.\n" + NOTHING,
            NcuState.OCCUPIED,
        ),
        ("==ERROR== Profiling is not supported on device 0.\n" + NOTHING, NcuState.UNSUPPORTED),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.\n", NcuState.UNSUPPORTED),
        (PROFILING + NOTHING, NcuState.NO_KERNEL),
        ('==ERROR== Failed to profile "softmax" in process 4711\n', NcuState.CRASHED),
        ("", NcuState.NO_KERNEL),
    ],
)
def test_every_refusal_has_a_name_and_a_remedy(tmp_path, log, state):
    record = ran(tmp_path, log=log)
    assert (record.state, record.todo) == (state, REMEDY[state])
    assert "the static profile stands in its place" in record.says
    assert record.launches == ()


def test_every_state_but_profiled_has_a_remedy():
    assert set(REMEDY) == set(NcuState) - {NcuState.PROFILED}


def test_no_ncu_is_a_state(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.measure.ncu.run.find_ncu", lambda: None)
    assert profile(job(tmp_path)).state is NcuState.MISSING


def test_an_ncu_that_does_not_start_is_a_state(tmp_path):
    assert profile(job(tmp_path), ncu=tmp_path / "none").state is NcuState.CRASHED


def test_a_program_that_fails_has_crashed(tmp_path):
    record = profile(job(tmp_path, ("false",)), ncu=ncu(tmp_path, raw=RAW))
    assert record.state is NcuState.CRASHED
    assert "error code" in record.says


def test_a_report_without_a_readable_page_is_a_state(tmp_path):
    assert ran(tmp_path, raw="who knows\n").state is NcuState.UNREADABLE


def test_metrics_that_ncu_does_not_know_are_left_out_at_a_second_try(tmp_path):
    name = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
    body = f"""
import os
if {name!r} in " ".join(argv):
    open(log, "w").write("==ERROR== Failed to find metric {name}\\n")
    sys.exit(1)
"""
    record = ran(tmp_path, raw=RAW, body=body)
    assert (record.state, record.without) == (NcuState.PROFILED, (name,))


def test_a_run_that_does_not_end_is_ended_with_all_that_it_started(tmp_path):
    mark = tmp_path / "pid"
    program = (
        "import os, time\nif os.fork() == 0:\n os.setsid()\n"
        f" open({str(mark)!r}, 'w').write(str(os.getpid()))\n time.sleep(600)\ntime.sleep(600)"
    )
    before = descendants(os.getpid())
    record = profile(
        job(tmp_path, (sys.executable, "-c", program), seconds=3.0), ncu=ncu(tmp_path, raw=RAW)
    )
    assert record.state is NcuState.TIMED_OUT
    assert descendants(os.getpid()) == before
    assert not Path(f"/proc/{mark.read_text()}").exists()


def test_what_a_program_abandons_does_not_outlive_the_run(tmp_path):
    mark = tmp_path / "pid"
    program = (
        "import os, time\nif os.fork() == 0:\n os.setsid()\n"
        f" open({str(mark)!r}, 'w').write(str(os.getpid()))\n time.sleep(600)\n"
        f"while not os.path.exists({str(mark)!r}) or not open({str(mark)!r}).read(): pass"
    )
    record = profile(job(tmp_path, (sys.executable, "-c", program)), ncu=ncu(tmp_path, raw=RAW))
    assert record.state is NcuState.PROFILED
    assert not Path(f"/proc/{mark.read_text()}").exists()


WAITS = """
import pathlib, sys
for reached, go in zip(sys.argv[1::2], sys.argv[2::2]):
    pathlib.Path(reached).touch()
    while not pathlib.Path(go).exists(): pass
"""


def test_each_stop_has_its_door_which_closes_before_the_next_opens(tmp_path):
    stops = [Stop(reached=tmp_path / f"at{n}", go=tmp_path / f"go{n}") for n in range(2)]
    seen = []

    @contextlib.contextmanager
    def door(number):
        seen.append((number, "in", stops[number].reached.exists(), stops[number].go.exists()))
        yield
        seen.append((number, "out", stops[1].reached.exists()))

    words = [str(path) for stop in stops for path in (stop.reached, stop.go)]
    waiting = job(tmp_path, (sys.executable, "-c", WAITS, *words), stops=tuple(stops))
    doors = [partial(door, number) for number in range(2)]
    record = profile(waiting, ncu=ncu(tmp_path, raw=RAW), doors=doors)
    assert record.state is NcuState.PROFILED
    assert seen == [
        (0, "in", True, False),
        (0, "out", True),
        (1, "in", True, False),
        (1, "out", True),
    ]


def test_what_is_dropped_before_its_first_stop_is_not_waited_for(tmp_path):
    stop = Stop(reached=tmp_path / "never", go=tmp_path / "go")
    sleeps = (sys.executable, "-c", "import time\ntime.sleep(600)")
    waiting = job(tmp_path, sleeps, stops=(stop,))
    record = profile(waiting, ncu=ncu(tmp_path, raw=RAW), dropped=lambda: True)
    assert record.state is NcuState.TIMED_OUT
    assert record.seconds == 0.0
    assert not stop.go.exists()


def test_the_command_asks_for_the_candidates_kernels_alone_and_leaves_the_clocks(tmp_path):
    words = profile_command(
        Path("ncu"), ["prog"], kernels=["a", "b.c", "a"], report=tmp_path / "r", log=tmp_path / "l"
    )
    asked = dict(pairwise(words))
    assert asked["--kernel-name"] == r"regex:^(a|b\.c)$"
    assert (asked["--clock-control"], asked["--cache-control"]) == ("none", "all")
    assert asked["--profile-from-start"] == "off"
    assert words[-1] == "prog"
    assert "--metrics" in words
    assert "--page" not in words
    assert "raw" in read_command(Path("ncu"), tmp_path / "r")


ONCE = model(
    "return launch(inputs[0], self.weight, torch.empty_like(inputs[0]))",
    "self.weight = nn.Parameter(torch.ones(n))",
    "self, n",
)
CONFINED = (
    "landlock+seccomp" if {"landlock", "seccomp"} <= {x.name for x in probe() if x.ok} else ""
)
"""What this machine's kernel can do."""

STATIC = StaticProfile(
    registers=8, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, shared_bytes=0,
    threads=128, programs_per_sm=16, occupancy=1.0, limiter="warps", code_bytes=16,
)  # fmt: skip
LAUNCH = Launch(
    kernel="softmax", grid=(1, 1, 1), arguments={}, constexprs={}, num_warps=4, num_stages=3,
    num_ctas=1, line=1, cubin_sha256="", static=STATIC, compile_seconds=0.0,
)  # fmt: skip


def counted(tmp_path, source, **how):
    profiler = NcuProfiler(problem(SCALE), "sm90", None, ncu=ncu(tmp_path, raw=RAW, **how))
    return profiler(candidate_of(source), (LAUNCH,), seed=bytes(16))


def test_a_candidate_is_built_called_and_confined_under_the_profiler(tmp_path):
    record = counted(tmp_path, CANDIDATE + SCALE_KERNEL + ONCE)
    assert record.state is NcuState.PROFILED, record
    assert record.isolation == (CONFINED or "process only")
    assert record.report == ""


@pytest.mark.skipif(not CONFINED, reason="this kernel has no Landlock or no seccomp")
def test_a_candidate_that_reaches_out_of_the_sandbox_is_not_run_without_it(tmp_path):
    secret, took = tmp_path / "secret", tmp_path / "took"
    secret.write_text("seen")
    reach = f"open({str(took)!r}, 'w').write(open({str(secret)!r}).read())"
    record = counted(tmp_path, f"{CANDIDATE}{SCALE_KERNEL}{ONCE}\n{reach}\n")
    assert (record.state, record.isolation) == (NcuState.CRASHED, CONFINED)
    assert not took.exists()


REFUSES = """
import json
asked = json.load(open(program[-2]))
plan = asked["confinement"]
open({tries!r}, "a").write(("candidate" if {mark!r} in asked["candidate"] else "canary") + "\\n")
if {unless}:
    code = 1
"""
"""An ncu that fails on a program unless its confinement is to its taste."""


def refusing(tmp_path, unless, source=CANDIDATE + SCALE_KERNEL + ONCE):
    """A record, and who was run under ncu."""
    tries = tmp_path / "tries"
    tries.unlink(missing_ok=True)
    body = REFUSES.format(tries=str(tries), mark="scale", unless=unless)
    return counted(tmp_path, source, body=body), tries.read_text().split()


def test_where_ncu_fails_under_landlock_the_call_filter_stays_and_words_say_so(tmp_path):
    record, tries = refusing(tmp_path, "plan and not plan['open_files']")
    assert record.state is NcuState.PROFILED
    assert record.isolation == ("seccomp only" if "seccomp" in CONFINED else "process only")
    assert "files were open to it, network and other processes were not" in record.confinement
    assert tries == ["canary", "canary", "candidate"]
    record, tries = refusing(tmp_path, "plan and not plan['open_files']")
    assert (record.state, tries) == (NcuState.PROFILED, ["candidate"]), "remembered"


def test_where_ncu_fails_on_confined_processes_the_record_says_process_only(tmp_path):
    record, _ = refusing(tmp_path, "plan")
    assert (record.state, record.isolation) == (NcuState.PROFILED, "process only")
    assert record.confinement.startswith("nothing confined it")


def test_where_ncu_fails_on_our_own_kernel_no_strangers_kernel_is_run(tmp_path):
    record, tries = refusing(tmp_path, "True")
    assert (record.state, tries) == (NcuState.CRASHED, ["canary"] * 3)
    assert "on a kernel of our own too" in record.says
    assert record.isolation == NO_CODE_RAN


def test_what_was_remembered_is_asked_again_where_it_fails(tmp_path):
    ncu(tmp_path)
    remember(NCU, "2025.3.1.0", Level.CONFINED)
    record, tries = refusing(tmp_path, "plan and not plan['open_files']")
    assert (record.state, tries[0], tries[-1]) == (NcuState.PROFILED, "candidate", "candidate")
    assert remembered(NCU, "2025.3.1.0") is Level.CALLS
    assert remembered(NCU, "2026.1") is None


def test_a_level_that_was_tried_ahead_is_not_tried_again(tmp_path):
    tries = tmp_path / "tries"
    unless = "plan and not plan['open_files']"
    body = REFUSES.format(tries=str(tries), mark="scale", unless=unless)
    tool = ncu(tmp_path, raw=RAW, body=body)
    profiler = NcuProfiler(problem(SCALE), "sm90", None, ncu=tool)
    profiler.try_ahead()
    right = candidate_of(CANDIDATE + SCALE_KERNEL + ONCE)
    assert profiler(right, (LAUNCH,), seed=bytes(16)).state is NcuState.PROFILED
    assert tries.read_text().split() == ["canary", "canary", "candidate"]
    assert remembered(NCU, "2025.3.1.0") is Level.CALLS
    profiler.try_ahead()
    assert profiler(right, (LAUNCH,), seed=bytes(16)).state is NcuState.PROFILED
    assert tries.read_text().split() == ["canary", "canary", "candidate", "candidate"]


def test_seconds_of_our_own_kernel_are_in_no_record_and_told_once(tmp_path):
    profiler = NcuProfiler(problem(SCALE), "sm90", None, ncu=ncu(tmp_path, raw=RAW))
    right = candidate_of(CANDIDATE + SCALE_KERNEL + ONCE)
    first = profiler(right, (LAUNCH,), seed=bytes(16))
    assert first.state is NcuState.PROFILED
    assert profiler.unbilled() > 0, "the canary's"
    assert profiler(right, (LAUNCH,), seed=bytes(16)).state is NcuState.PROFILED
    assert profiler.unbilled() == pytest.approx(0, abs=1e-6), "its own seconds are the record's"


def test_a_candidate_that_nobody_wants_any_more_is_not_called(tmp_path):
    called = tmp_path / "called"
    source = f"{CANDIDATE}{SCALE_KERNEL}{ONCE}\nopen({str(called)!r}, 'w').close()\n"
    refused = Proof()
    refused.tell(worth=False)
    profiler = NcuProfiler(problem(SCALE), "sm90", None, ncu=ncu(tmp_path, raw=RAW))
    remember(NCU, "2025.3.1.0", Level.BARE)
    assert profiler(candidate_of(source), (LAUNCH,), seed=bytes(16), proven=refused) is None
    assert not called.exists()


@pytest.mark.skipif("seccomp" not in CONFINED, reason="this kernel has no seccomp")
def test_with_files_open_the_network_is_still_shut(tmp_path):
    remember(NCU, "2025.3.1.0", Level.CALLS)
    seen = tmp_path / "seen"
    source = f"""{CANDIDATE}{SCALE_KERNEL}{ONCE}
import socket
try:
    socket.socket()
except OSError:
    open({str(seen)!r}, "w").write("shut")
"""
    assert counted(tmp_path, source).isolation == "seccomp only"
    assert seen.read_text() == "shut"


def test_the_installation_is_found_behind_links_and_never_holds_the_home(tmp_path, monkeypatch):
    place = tmp_path / "opt" / "nsight-compute" / "2025.3.1"
    place.mkdir(parents=True)
    ncu(place)
    (tmp_path / "ncu").symlink_to(place / "ncu")
    assert installation(tmp_path / "ncu", tmp_path) == (str(place),)
    prefix = tmp_path / "cuda-13.0"
    (prefix / "nsight-compute-2025.3.1").mkdir(parents=True)
    (prefix / "bin").mkdir()
    ncu(prefix / "bin")
    shared = tmp_path / "opt" / "nvidia" / "nsight-compute"
    shared.mkdir(parents=True)
    found = installation(prefix / "bin" / "ncu", tmp_path)
    assert found == (str(prefix / "nsight-compute-2025.3.1"), str(shared))
    monkeypatch.setenv("HOME", str(place / "someone"))
    assert installation(tmp_path / "ncu", tmp_path) == (str(shared),)


@pytest.mark.skipif("landlock" not in CONFINED, reason="this kernel has no Landlock")
def test_a_tools_own_files_are_readable_under_the_tool(tmp_path):
    place = tmp_path / "opt" / "nsight-compute"
    place.mkdir(parents=True)
    (place / "part.so").write_text("part")
    source = f"{CANDIDATE}{SCALE_KERNEL}{ONCE}\nassert open({str(place / 'part.so')!r}).read()\n"
    asked = NcuProfiler(problem(SCALE), "sm90", None, ncu=ncu(place, raw=RAW))
    record = asked(candidate_of(source), (LAUNCH,), seed=bytes(16))
    assert (record.state, record.isolation) == (NcuState.PROFILED, CONFINED)
