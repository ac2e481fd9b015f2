"""A problem that promises layouts gets calls with inputs that lie so, with the same values."""

import pytest
import torch

from workbench.gate.correctness.cases import SEED_BYTES, Effort, plan
from workbench.gate.correctness.layout import laid_out
from workbench.problems.load import load_problem
from workbench.problems.records import Layout

SEED = bytes(SEED_BYTES)
PROBLEM = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.randn(8, 8)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 4), (6,), ()])
def test_values_stay_where_the_layout_changes(layout, shape):
    x = torch.randn(shape)
    laid = laid_out(x, layout)
    assert torch.equal(x, laid)
    assert laid.data_ptr() != x.data_ptr()
    assert (laid.stride() != x.stride()) == (len(shape) > 1)


def test_each_promised_layout_adds_a_call_at_the_end():
    plain = plan(SEED, "tiny", Effort.ALL, floats=True)
    more = plan(SEED, "tiny", Effort.ALL, floats=True, layouts=tuple(Layout))
    assert more[: len(plain)] == plain
    assert [call.layout for call in more[len(plain) :]] == list(Layout)
    assert plan(SEED, "tiny", Effort.FEW, floats=True, layouts=tuple(Layout)) == plan(
        SEED, "tiny", Effort.FEW, floats=True
    )


def test_a_sidecar_promises_layouts(tmp_path):
    file = tmp_path / "one.py"
    file.write_text(PROBLEM)
    file.with_suffix(".toml").write_text('layouts = ["padded", "transposed", "padded"]\n')
    assert load_problem(str(file)).layouts == (Layout.PADDED, Layout.TRANSPOSED)
