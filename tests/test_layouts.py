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


@pytest.mark.parametrize("layout", [Layout.TRANSPOSED, Layout.PADDED])
@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 4), (6,), ()])
def test_values_stay_where_the_layout_changes(layout, shape):
    x = torch.randn(shape)
    laid = laid_out(x, layout)
    assert torch.equal(x, laid)
    assert laid.data_ptr() != x.data_ptr()
    assert (laid.stride() != x.stride()) == (len(shape) > 1)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_channels_are_innermost_where_that_is_promised(shape):
    x = torch.randn(shape)
    laid = laid_out(x, Layout.CHANNELS_LAST)
    assert torch.equal(x, laid)
    assert laid.stride(1) == 1
    flat = torch.randn(3, 4)
    assert laid_out(flat, Layout.CHANNELS_LAST).stride() == flat.stride()


def test_an_expanded_tensor_repeats_its_first_row():
    x = torch.randn(4, 5)
    laid = laid_out(x, Layout.EXPANDED)
    assert laid.stride() == (0, 1)
    assert torch.equal(laid, x[:1].expand(4, 5))
    assert laid.untyped_storage().nbytes() == 5 * 4


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
