"""Shipped experts: right, known to their problems, walkable, and compared with what is measured."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from gate_kit import workshop
from msgspec import structs

from workbench.bench import lines
from workbench.bench.experts import RULE, Head, Measured, Missing, mean, quoted, read_lines, rows
from workbench.bench.experts_run import beside, measure_experts
from workbench.bench.tuning import GRIDS, configured, tuned_variants
from workbench.bench.vendors import RIVALS, WORKLOADS
from workbench.engine.devices import Place
from workbench.engine.learning import shipped_experts
from workbench.errors import WorkbenchError
from workbench.gate.policy.check import check
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Outcome
from workbench.gate.timing.stage import GpuTimer, TimerSettings
from workbench.kernels.source import normalized_sha256
from workbench.lineage.removals import removable
from workbench.lineage.uncovered import uncovered
from workbench.measure.gpuwatch import NoWatch
from workbench.problems.load import load_problem

__all__ = ["workshop"]

CPU = Place(device="cpu", index=None, target="sm90")
LEAST_STEPS = 6


def expert(name: str) -> str:
    return load_problem(name).expert.read_text()


def test_every_workload_of_klineage_ships_an_expert():
    assert {row.problem for row in shipped_experts()} == set(WORKLOADS)


@pytest.mark.parametrize("name", ["gemm", "fmha"])
def test_an_expert_has_at_least_six_mechanisms_to_take_out(name):
    found = {(i.category, r.locus) for i, _, r in removable(expert(name))}
    assert len(found) >= LEAST_STEPS


def test_what_no_inverse_covers_is_named_with_its_place():
    words = [one.words() for one in uncovered(expert("gdn"))]
    assert len(words) == 1
    assert any(w.startswith("a launch of its own") and "states_kernel" in w for w in words)
    # What one inverse takes out with its own mechanism is covered.
    assert uncovered(expert("top_k_unsorted")) == ()


def measured(workload, rival, rival_us, expert_us, *, vendor=True):
    return Measured(
        workload=workload,
        rival=rival,
        vendor=vendor,
        rival_us=(rival_us,) * 60,
        expert_us=(expert_us,) * 60,
        gpu_seconds=1.0,
    )


KEPT = [
    Head(date="2026-01-01", gpu="a GPU", versions={"triton": "3.6.0"}),
    measured("fmha", "slow vendor", 30.0, 10.0),
    measured("fmha", "fast vendor", 8.0, 10.0),
    measured("gemm", "cuBLAS", 20.0, 10.0),
    measured("gdn", "no vendor", 500.0, 10.0, vendor=False),
    Missing(workload="gdn", rival="FLA", says="fla is not installed"),
]


def test_the_mean_is_over_the_best_vendor_of_each_workload_and_nothing_else():
    found = rows(KEPT)
    assert [row.workload for row in found] == ["gemm", "fmha", "fmha", "gdn"]
    assert {row.rival for row in found if row.best} == {"cuBLAS", "fast vendor"}
    assert mean(found) == (pytest.approx((2.0 * 0.8) ** 0.5), 2)


def test_without_a_measured_vendor_there_is_no_mean():
    assert mean(rows(KEPT[4:])) is None


def test_quoted_times_are_words_and_say_so():
    assert all("quoted, not measured here" in words for words in quoted("gdn"))
    assert quoted("gemm") == []


def test_kept_samples_are_read_back(tmp_path):
    file = tmp_path / "kept.jsonl"
    for one in KEPT:
        lines.append(file, one)
    assert read_lines(file) == KEPT
    file.write_text("{}\n")
    with pytest.raises(WorkbenchError, match=r"no kept sample of an expert: .*\n.*line 1"):
        read_lines(file)


def test_without_a_gpu_nothing_is_measured():
    with pytest.raises(WorkbenchError, match="there is no GPU to measure on"):
        next(measure_experts(["gemm"], CPU, print))


def test_every_configuration_is_another_kernel_that_the_policy_passes():
    found = tuned_variants(WORKLOADS)
    assert set(GRIDS) == set(WORKLOADS)
    for name in WORKLOADS:
        own = [one for one in found if one.problem == name]
        assert len({normalized_sha256(one.source) for one in own}) >= len(own) - 1
        assert own[0].source == expert(name)
        assert check(own[1].source).outcome is Outcome.PASSED


def test_a_value_is_written_where_the_source_writes_it():
    text = configured(expert("gemm"), "gemm_kernel", {"BLOCK_N": 64, "num_warps": 4})
    assert "block_n = 64" in text
    assert "num_warps=4" in text
    with pytest.raises(WorkbenchError, match="is not written out"):
        configured(expert("fmha"), "attention_kernel", {"HEAD_DIM": 64})


@contextlib.contextmanager
def hold(_waits, *, shared=False):  # noqa: ARG001  # there is nothing to share
    yield NoWatch()


@pytest.mark.parametrize("name", [name for name in WORKLOADS if not RIVALS[name][0].needs])
def test_a_rival_is_rehearsed_beside_the_expert_on_the_tiny_shape(workshop, name):
    whole = load_problem(name)
    problem = structs.replace(whole, shapes=whole.shapes[:1])
    settings = TimerSettings(
        target="sm90",
        device="rehearsal",
        device_index=None,
        rule=structs.replace(RULE, first=14, cap=14),
    )
    facts = inspect_problem(problem, workshop)
    timer = GpuTimer(problem, lambda: facts, settings, workshop, hold=hold)
    found = beside(problem, RIVALS[name][0], timer)
    assert isinstance(found, Measured), found.says
    assert len(found.rival_us) == len(found.expert_us) == 14
    assert Path(problem.expert).name == "expert.py"


@pytest.mark.gpu
@pytest.mark.parametrize("name", WORKLOADS)
def test_an_expert_passes_the_whole_gate_on_a_gpu(name):
    path = str(load_problem(name).expert)
    gate = [sys.executable, "-m", "workbench.cli.main", "gate", path, "--problem", name]
    done = subprocess.run(gate, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
