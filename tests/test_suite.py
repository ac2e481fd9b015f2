"""Every shipped problem is whole: sizes, work, and a seed that is right and compiles."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import FAMILIES
from workbench.problems.roofline import work_floor

NAMES = shipped_problems()

# Counted by hand from the tiny shapes: flops, bytes.
TINY_WORK = {
    "batched_matmul": (1_152_000, 112_640),
    "conv1d": (133_920, 23_704),
    "conv2d": (988_416, 18_352),
    "cross_entropy": (18_000, 9_036),
    "delta_solve": (290_304, 19_968),
    "dilated_conv": (1_715_472, 30_000),
    "fmha": (10_640_000, 102_400),
    "gdn": (1_146_880, 50_432),
    "gelu": (4 * 2100, 8 * 2100),
    "gemm": (1_566_720, 52_864),
    "group_conv": (80_784, 12_776),
    "layernorm": (44_000, 26_400),
    "layernorm2d": (27_360, 27_408),
    "linear_relu_div": (584_640, 56_608),
    "log_softmax": (22_500, 18_000),
    "matvec": (15_000, 36_020),
    "rmsnorm": (13_680, 27_360),
    "router_gemm": (108_800, 15_200),
    "sdp_attention": (1_378_944, 73_728),
    "softmax": (22_500, 36_000),
    "top_k": (600, 3_120),
    "top_k_unsorted": (600, 3_120),
}


def in_own_process(task: str, **environment: str) -> dict[str, dict[str, object]]:
    """What `suite_seed.py` says of every problem: the compiler and the interpreter live apart."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "suite_seed.py"), task, *NAMES],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def interpreted() -> dict[str, dict[str, object]]:
    return in_own_process("interpret", TRITON_INTERPRET="1")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    cache = tmp_path_factory.mktemp("triton")
    return in_own_process("compile", TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(cache))


def test_the_shipped_problems_are_those_counted_by_hand():
    assert set(NAMES) == set(TINY_WORK)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_problem_has_three_shapes_that_grow_and_a_seed(name):
    problem = load_problem(name)
    assert [shape.name for shape in problem.shapes] == ["tiny", "small", "full"]
    floors = [work_floor(problem, shape) for shape in problem.shapes]
    assert all(floor is not None and floor.flops > 0 for floor in floors)
    sizes = [floor.bytes for floor in floors if floor is not None]
    assert sizes == sorted(sizes)
    assert problem.family in FAMILIES
    assert problem.seed is not None


@pytest.mark.parametrize("name", NAMES)
def test_the_roofline_counts_what_a_hand_counts(name):
    problem = load_problem(name)
    floor = work_floor(problem, problem.tiny)
    assert floor is not None
    assert (floor.flops, floor.bytes) == TINY_WORK[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_is_right_on_the_tiny_shape(interpreted, name):
    found = interpreted[name]
    assert found["error"] <= 0.5
    assert found["picks"]


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_keeps_the_contract(interpreted, name):
    found = interpreted[name]
    assert found["state"]
    assert found["forms"]
    assert found["inputs kept"]
    assert found["launches"] == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_shape_has_tails_that_masks_must_hide(interpreted, name):
    assert interpreted[name]["masked"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_compiles_for_sm90_at_full_size(compiled, name):
    found = compiled[name]
    assert len(found["kernels"]) == 1
    assert found["spills"] == 0
    assert found["resident"] >= 1
