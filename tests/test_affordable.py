"""A size for the interpreter, found in a file that knows only a size for a GPU."""

from pathlib import Path

import pytest
from gate_kit import workshop

from workbench.errors import WorkbenchError
from workbench.gate.problem.affordable import MATRIX_FLOPS, MOVED_BYTES, scaled_down
from workbench.gate.problem.asking import Inspector
from workbench.problems.load import load_problem

__all__ = ["workshop"]

CONV = """
import torch
import torch.nn as nn

batch, channels, size, kernel_size = 64, 64, 256, 3
width = size

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(channels, 128, kernel_size, groups=8)

    def forward(self, x):
        return torch.relu(self.conv(x))

def get_inputs():
    return [torch.rand(batch, channels, size, width)]

def get_init_inputs():
    return []
"""

FIXED = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.rand(4096, 4096)]

def get_init_inputs():
    return []
"""


def problem(folder: Path, text: str):
    file = folder / "mine.py"
    file.write_text(text)
    return load_problem(file)


def test_extents_shrink_until_a_call_is_affordable_and_small_constants_stay(tmp_path, workshop):
    loaded = problem(tmp_path, CONV)
    scaled = scaled_down(loaded, workshop)
    values = scaled.shape.values
    assert "kernel_size" not in values
    assert "width" not in values, "derived constants follow by themselves"
    assert values.get("channels", 64) % 8 == 0, "halves keep what divides what"
    with Inspector(loaded, workshop, 60.0) as inspector:
        seen = inspector.describe(scaled.shape, meta=True)
    assert sum(o.matrix_flops for o in seen.operators) <= MATRIX_FLOPS
    assert sum(o.bytes for o in seen.operators) <= MOVED_BYTES
    assert "size" in values
    assert "(of 256)" in scaled.says()


SPELLINGS = {
    "chained": "batch = 64\nchannels = 64\nsize = width = 256\nkernel_size = 3\n",
    "annotated": "batch: int = 64\nchannels: int = 64\nsize: int = 256\n"
    "kernel_size = 3\nwidth = size\n",
    "computed": "batch = 64\nchannels = 8 * 8\nsize = 2**8\nkernel_size = 3\nwidth = size\n",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_sizes_are_found_however_they_are_assigned(spelling, tmp_path, workshop):
    text = CONV.replace(
        "batch, channels, size, kernel_size = 64, 64, 256, 3\nwidth = size\n", SPELLINGS[spelling]
    )
    loaded = problem(tmp_path, text)
    scaled = scaled_down(loaded, workshop)
    assert scaled.was["size"] == 256
    with Inspector(loaded, workshop, 60.0) as inspector:
        seen = inspector.describe(scaled.shape, meta=True)
    assert sum(o.bytes for o in seen.operators) <= MOVED_BYTES


def test_the_sidecar_made_of_it_is_one_that_the_loader_reads(tmp_path, workshop):
    scaled = scaled_down(problem(tmp_path, CONV), workshop)
    (tmp_path / "mine.toml").write_text(scaled.sidecar())
    again = load_problem(tmp_path / "mine.py")
    assert again.full == scaled.shape
    assert scaled_down(again, workshop) is None


def test_a_size_that_is_affordable_stays(tmp_path, workshop):
    small = CONV.replace("64, 64, 256, 3", "2, 64, 8, 3")
    assert scaled_down(problem(tmp_path, small), workshop) is None


def test_a_file_without_constants_is_refused_with_what_to_do(tmp_path, workshop):
    with pytest.raises(WorkbenchError, match="too large for Triton's interpreter") as told:
        scaled_down(problem(tmp_path, FIXED), workshop)
    assert "module-level constants" in told.value.todo
