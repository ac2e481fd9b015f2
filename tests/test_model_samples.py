"""Two samples of one kernel's programs tell the same work, also where programs do unlike much."""

import json
import os
import subprocess
import sys
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.kernels.edits.registry import EDITS
from workbench.kernels.trace_trips import FEW_PROGRAMS, mean_trips, tilt
from workbench.problems.load import load_problem

AGREE = 1.02
TRACES = """
import importlib.util, json, sys, torch
from workbench.kernels.interpret import tracing
from workbench.kernels.interpret_settings import TraceSettings

file, shapes, arguments = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
inputs = [torch.zeros(shape) for shape in shapes]
told = []
for seed in range(8):
    with tracing(TraceSettings(sample=4, sample_seed=seed)) as trace, torch.no_grad():
        spec = importlib.util.spec_from_file_location("candidate", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.ModelNew(*arguments)(*inputs)
    (one,) = trace.launches
    moved = {name: t.loaded + t.stored for name, t in one.traffic.items()}
    told.append({"steps": one.load_steps, "vector": one.vector_flops, **one.dot_flops, **moved})
print(json.dumps(told))
"""


def resident(source, programs):
    """The seed with its tiles dealt out to so many programs."""
    return EDITS["persistent"].apply(source, "gemm_kernel", {"programs": programs}).source


def seed_of(name):
    return load_problem(name).seed.read_text(encoding="utf-8")


CASES = {
    "tiles dealt out unevenly": (resident(seed_of("gemm"), 40), [[512, 128], [512, 128]], []),
    "a tail on every row": (seed_of("group_conv"), [[2, 16, 34, 66]], [16, 32, 3, 2]),
    "rows": (seed_of("layernorm"), [[600, 1000]], [1000]),
}


@pytest.mark.parametrize("case", CASES)
def test_two_samples_of_one_kernel_agree(tmp_path, case):
    source, shapes, arguments = CASES[case]
    file = tmp_path / "candidate.py"
    file.write_text(source)
    done = subprocess.run(
        [sys.executable, "-c", TRACES, str(file), json.dumps(shapes), json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    for name in told[0]:
        values = [one[name] for one in told]
        assert max(values) <= AGREE * min(values), f"{name}: {values}"


def dealt(tiles, programs):
    """Trips of each of so many programs that take tiles in turn."""
    return [max(0, ceil((tiles - number) / programs)) for number in range(programs)]


@given(tiles=st.integers(1, 5000), programs=st.integers(1, FEW_PROGRAMS), known=st.integers(1, 256))
def test_the_mean_of_tiles_dealt_out_in_turn_is_exact(tiles, programs, known):
    trips = dealt(tiles, programs)
    asked = []

    def ask(number):
        asked.append(number)
        return trips[number]

    found = mean_trips(trips[:known], programs, ask)
    assert found == pytest.approx(sum(trips) / programs)
    assert len(asked) <= 12


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.floats(0.5, 50))
def test_counts_are_scaled_to_the_mean(ran, mean):
    assert tilt(mean, ran) * sum(ran) / len(ran) == pytest.approx(mean)


@pytest.mark.parametrize(
    ("mean", "ran"), [(None, [3, 4]), (2.0, []), (2.0, [None, 3]), (2.0, [0, 0])]
)
def test_what_is_not_known_changes_no_count(mean, ran):
    assert tilt(mean, ran) == 1.0


@pytest.mark.parametrize("inner", [1, 8, 32, 64, 2048])
@pytest.mark.parametrize("total", [512, 2048, 20000])
@pytest.mark.parametrize("down", [False, True])
def test_trips_up_to_a_diagonal_have_their_mean_in_whatever_axis_the_diagonal_is(
    inner, total, down
):
    """As in causal attention: blocks of queries in any axis of the grid, heads in the others."""
    rows = 32

    def ask(number):
        row = number // inner % rows
        return rows - row if down else row + 1

    everything = [ask(number) for number in range(total)]
    found = mean_trips(everything[:256], total, ask)
    assert found == pytest.approx(sum(everything) / total, rel=0.08)


def test_programs_without_a_loop_have_no_mean():
    assert mean_trips([None, 3], 2, lambda _: 3) is None
    assert mean_trips([3] * 256, FEW_PROGRAMS + 1, lambda _: 3) == 3
    assert mean_trips([3] * 256, 300, lambda _: None) is None
