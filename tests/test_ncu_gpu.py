"""On a GPU with Nsight Compute: real counters are read, of the candidate's own kernels only.

With OUT set the raw page, the report and the record are left there: a page that is brought to
`tests/recorded/` is read by `test_ncu_parse.py` from then on.
"""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from workbench.gate import compile as compiling
from workbench.gate import counters_canary
from workbench.gate.candidate import candidate_of
from workbench.gate.counters import NcuProfiler
from workbench.gate.problem.inspect import JOB_MODULES, inspect_problem
from workbench.gate.tool_program import CallRequest, tool_program
from workbench.isolation.scratch import ScratchRoot
from workbench.isolation.workshop import Workshop
from workbench.kernels.facts import read_facts
from workbench.measure.bottleneck import BottleneckClass
from workbench.measure.bottleneck_rules import classify
from workbench.measure.gpus import list_gpus
from workbench.measure.ncu.catalogue import CATALOGUE
from workbench.measure.ncu.command import find_ncu, read_command
from workbench.measure.ncu.facts import ncu_facts
from workbench.measure.ncu.records import NcuState
from workbench.measure.ncu.run import NcuJob, profile
from workbench.problems.load import load_problem

pytestmark = pytest.mark.gpu

ESSENTIAL = (
    *("duration_us", "sm_pct", "dram_pct", "l2_pct", "l1_pct", "dram_read_bytes", "l2_hit_pct"),
    *("load_sector_use", "load_sectors", "occupancy", "occupancy_possible", "limit_registers"),
    *("registers", "waves", "stall_long_scoreboard", "eligible_warps", "fma_pct"),
)


@pytest.fixture(scope="module")
def profiled():
    """Launches and record of shipped rmsnorm's seed."""
    if find_ncu() is None:
        pytest.skip("no ncu on this machine")
    task, target = load_problem("rmsnorm"), list_gpus()[0].target
    candidate = candidate_of(task.seed.read_text())
    with Workshop(device_index=0, preload=(*JOB_MODULES, *compiling.JOB_MODULES)) as workshop:
        full = inspect_problem(task, workshop).full
        launches = compiling.run(candidate, full, target, workshop).launches
    out = Path(os.environ["OUT"]) if os.environ.get("OUT") else None
    keep = None if out is None else (out / "rmsnorm.ncu-rep", "rmsnorm.ncu-rep")
    record = NcuProfiler(task, target, 0)(candidate, launches, seed=bytes(16), keep=keep)
    print(record.state, record.says, record.isolation, f"{record.seconds:.1f} s", sep="; ")
    print(*record.messages, sep="\n")
    if out is not None:
        (out / "rmsnorm.ncu.json").write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    if keep is not None and keep[0].exists():
        read = read_command(find_ncu(), keep[0])
        page = subprocess.run(read, capture_output=True, check=True)
        (out / "ncu_rmsnorm.csv").write_bytes(page.stdout)
    return launches, record


def test_the_candidates_own_kernels_are_profiled_and_no_other(profiled):
    launches, record = profiled
    assert record.state is NcuState.PROFILED, record
    assert {one.kernel for one in record.launches} == {launch.kernel for launch in launches}
    assert [one.grid for one in record.launches] == [launch.grid for launch in launches]


def test_the_catalogue_knows_the_metrics_of_this_gpu(profiled):
    _, record = profiled
    known = record.launches[0].readings
    print("not read here:", ", ".join(sorted(set(CATALOGUE) - set(known))))
    assert [name for name in ESSENTIAL if name not in known] == []


def test_the_counters_agree_with_what_the_compiler_said(profiled):
    launches, record = profiled
    launch, one = launches[0], record.launches[0]
    assert one.value("registers") == launch.static.registers
    assert one.value("occupancy_possible") == pytest.approx(launch.static.occupancy, abs=0.01)
    assert ncu_facts(record, launch.kernel)["profile.occupancy_limiter"] == launch.static.limiter


def test_the_counters_name_the_bottleneck(profiled):
    launches, record = profiled
    kernel = launches[0].kernel
    found = classify(read_facts("", kernel, launches, problem=ncu_facts(record, kernel)))
    print(found.says, *(line.says() for line in found.evidence), sep="\n  ")
    assert found.limit is not BottleneckClass.UNKNOWN


def test_the_profiled_process_was_confined(profiled):
    _, record = profiled
    assert record.isolation == "landlock+seccomp", record.confinement


def reached(more, folder):
    """How ncu ends on our own kernel under Landlock with `more` to read and run."""
    ncu = find_ncu()
    task, root = load_problem("rmsnorm"), ScratchRoot()
    asked = CallRequest(
        candidate=counters_canary.CANDIDATE,
        problem=counters_canary.PROBLEM,
        values={},
        precision=task.precision,
        seed=1,
        target=list_gpus()[0].target,
    )
    calling = tool_program(root, asked, 0, tool=ncu)
    request = Path(calling.command[-2])
    message = msgspec.json.decode(request.read_bytes(), type=CallRequest)
    plan = message.confinement
    plan = structs.replace(plan, roots=(*plan.roots, *more), share_device_memory="/dev/shm" in more)
    request.write_bytes(msgspec.json.encode(structs.replace(message, confinement=plan)))
    job = NcuJob(
        program=calling.command,
        environment=calling.environment,
        kernels=(counters_canary.KERNEL,),
        folder=folder,
        working=calling.scratch,
    )
    record = profile(job, ncu=ncu)
    print(*(more or ["nothing more"]), record.state, record.says, *record.messages, sep="; ")
    root.close()
    return record.state


MORE = [(), ("/dev/shm",), ("/tmp",), ("/var", "/run"), ("/etc",), ("/opt",), ("/",)]


@pytest.mark.parametrize("more", MORE, ids=lambda more: "".join(more) or "nothing")
def test_what_ncu_needs_beside_a_workers_grants_is_nothing(profiled, more, tmp_path):
    _, record = profiled
    if record.isolation == "landlock+seccomp":
        pytest.skip("it needs nothing more")
    assert reached(more, tmp_path) is not NcuState.PROFILED, f"it needs {more}"
