"""Seeds lifted from TorchInductor without a GPU: what lifts is right, what does not says why."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gate_kit import workshop
from inductor_references import LIFTABLE, REFUSED

from workbench.engine.seeds import find_seed
from workbench.errors import WorkbenchError
from workbench.gate.policy import check as policy
from workbench.gate.records import Outcome
from workbench.kernels.inductor.records import OWN_KERNEL
from workbench.problems.load import load_problem

__all__ = ["workshop"]

COMPILED = ("attention", "batch_norm", "conv2d", "linear_gelu", "variance")
ALLOWED_TORCH = {"empty", "empty_strided", "as_strided", "tensor"}


def work(task: str, folder: Path, *names: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "inductor_worker.py"), task, folder, *names],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every reference lifted, in a process that is spoiled by it."""
    where = tmp_path_factory.mktemp("lifted")
    work("lift", where, TRITON_INTERPRET="0")
    return where


@pytest.fixture(scope="module")
def interpreted(folder: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(
        work("interpret", folder, TRITON_INTERPRET="1").splitlines()[-1]
    )
    return found


def lifted(folder: Path, name: str) -> dict[str, str]:
    said: dict[str, str] = json.loads((folder / f"{name}.json").read_text())
    return said


@pytest.mark.parametrize("name", LIFTABLE)
def test_a_lifted_seed_is_right_in_the_interpreter(interpreted, name):
    found = interpreted[name]
    assert found["forms"]
    assert found["error"] <= 0.5


@pytest.mark.parametrize("name", LIFTABLE)
def test_a_lifted_seed_writes_the_state_that_the_reference_writes(interpreted, name):
    assert interpreted[name]["state"]


@pytest.mark.parametrize("name", LIFTABLE)
def test_a_lifted_seed_is_a_lawful_candidate(folder, name):
    report = policy.check(lifted(folder, name)["source"])
    assert report.outcome is Outcome.PASSED, report.findings


@pytest.mark.parametrize("name", LIFTABLE)
def test_a_lifted_seed_only_allocates_and_views_outside_its_kernels(folder, name):
    tree = ast.parse(lifted(folder, name)["source"])
    called = {
        ast.unparse(node.func).removeprefix("torch.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("torch.")
    }
    assert called <= ALLOWED_TORCH
    assert "inductor" not in {
        a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
    }
    assert "forward" not in LIFTABLE[name] or "super().forward" not in ast.unparse(tree)


def test_lifted_seeds_compile_for_sm90(folder, tmp_path):
    launches = json.loads(
        work(
            "compile", folder, *COMPILED, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path)
        ).splitlines()[-1]
    )
    assert set(launches) == set(COMPILED)
    assert launches["attention"] > 1
    assert launches["linear_gelu"] == 1


def test_a_matrix_product_is_fused_with_what_follows(folder):
    source = lifted(folder, "linear_gelu")["source"]
    assert source.count("tl.dot(") == 1
    assert "tl.erf(" in source
    assert source.count("@triton.jit") == 1


def test_a_grid_follows_its_tiles(folder, tmp_path):
    """Another tile size in the launch, and nothing else, must still be right."""
    said = lifted(folder, "linear_gelu")
    tiles = {line.strip() for line in said["source"].splitlines() if "BLOCK_M=" in line}
    assert tiles
    said["source"] = said["source"].replace(tiles.pop(), "BLOCK_M=16,")
    (tmp_path / "linear_gelu.json").write_text(json.dumps(said))
    found = json.loads(
        work("interpret", tmp_path, "linear_gelu", TRITON_INTERPRET="1").splitlines()[-1]
    )
    assert found["linear_gelu"]["error"] <= 0.5


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_lifted_says_why_and_what_to_do(folder, name):
    said = lifted(folder, name)
    assert REFUSED[name][1] in said["what"]
    assert OWN_KERNEL in said["todo"]


def test_a_session_lifts_its_seed_at_the_full_shape_in_a_worker(tmp_path, workshop):
    path = tmp_path / "scaled.py"
    path.write_text("N = 8\n" + LIFTABLE["softmax"].replace("33, 1000", "N, 3 * N"))
    path.with_suffix(".toml").write_text('[[shape]]\nname = "large"\nvalues = { N = 64 }\n')
    before = inductor_modules()
    source, origin = find_seed(load_problem(path), None, "sm90", workshop)
    assert "x.shape == (64, 192)" in source
    assert "one size (N = 64)" in source.splitlines()[0]
    assert origin == "lifted from TorchInductor"
    assert inductor_modules() == before


def inductor_modules() -> set[str]:
    """Parts of Inductor in this process; another test may have loaded some."""
    return {name for name in sys.modules if name.startswith("torch._inductor")}


def test_a_reference_that_kills_the_worker_leaves_a_session_without_a_seed(tmp_path, workshop):
    path = tmp_path / "mortal.py"
    path.write_text(LIFTABLE["softmax"] + "\nimport os\nos._exit(3)\n")
    with pytest.raises(WorkbenchError, match="did not come to an end") as fault:
        find_seed(load_problem(path), None, "sm90", workshop)
    assert "--kernel FILE" in fault.value.todo
