"""Full-size host code costs nothing, and what it would have cost is noted."""

from pathlib import Path

import pytest
import torch

from workbench.kernels.lazy import LazyHost, contiguous_strides, lazy_numbers, lazy_zeros

BIG = (1 << 12, 1 << 20)  # 16 GiB of float32


def test_lazy_tensors_are_zeros_of_any_size():
    x = lazy_zeros(BIG, torch.float32)
    assert x.shape == BIG
    assert x[4095, -1].item() == 0.0
    x[17, 3] = 2.0
    assert x[17].sum().item() == 2.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn])
def test_lazy_tensors_have_any_dtype(dtype):
    assert lazy_zeros((3, 5), dtype).dtype is dtype


def test_strides_are_kept():
    x = lazy_zeros((4, 6), torch.float32, (1, 4))
    assert x.stride() == (1, 4)
    assert x.untyped_storage().nbytes() == 24 * 4
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert lazy_zeros((3, 0), torch.float32).numel() == 0
    assert lazy_zeros((), torch.float32).item() == 0.0


def test_views_alias_and_large_copies_are_not_made():
    x = lazy_zeros(BIG, torch.float32)
    with torch.no_grad(), LazyHost() as host:
        view = x.view(-1)[5:]
        turned = x.t().contiguous()
        half = x.half()
        made = torch.zeros(BIG)
        made.add_(1)
    assert view.data_ptr() == x.data_ptr() + 20
    assert turned.shape == (1 << 20, 1 << 12)
    assert turned.is_contiguous()
    assert half.dtype is torch.float16
    noted = {op.name: op.bytes for op in host.operations}
    assert noted["aten::clone"] == 2 * x.nbytes
    assert noted["aten::_to_copy"] == x.nbytes + half.nbytes
    assert noted["aten::add_"] == made.nbytes


def test_small_tensors_keep_their_values():
    with torch.no_grad(), LazyHost() as host:
        scale = torch.tensor(2.5) * 2
        table = torch.arange(8).flip(0)
        table += 1
    assert scale.item() == 5.0
    assert table.tolist() == [8, 7, 6, 5, 4, 3, 2, 1]
    assert "aten::mul" in [op.name for op in host.operations]


def test_allocation_and_views_are_free():
    with torch.no_grad(), LazyHost() as host:
        x = torch.empty(BIG)
        torch.empty_like(x).transpose(0, 1)[3:].unsqueeze(0)
    assert host.operations == []


def test_an_operation_whose_shape_depends_on_data_is_done():
    x = lazy_zeros((1 << 16,), torch.float32)
    x[5] = 1.0
    with torch.no_grad(), LazyHost():
        assert x.nonzero().tolist() == [[5]]


def test_a_layer_of_any_size_is_built_at_once():
    with torch.no_grad(), LazyHost():
        layer = torch.nn.Linear(1 << 16, 1 << 16)
        layer.load_state_dict(
            {"weight": lazy_zeros((1 << 16, 1 << 16), torch.float32), "bias": torch.ones(1 << 16)}
        )
    assert layer.weight.nbytes == 16 << 30


def test_lazy_numbers_are_numbers_wherever_they_are_read_and_take_no_memory():
    before = _resident()
    drawn = lazy_numbers((4096, 98304), torch.float32)
    for row in (1, 77, 4000):
        part = drawn[row, 2000:6000]
        assert part.std() == pytest.approx(1.0, abs=0.1)
        assert (part != 0).all()
    assert _resident() - before < 64 << 20


def test_indices_stay_zero_and_so_does_what_is_allocated_to_be_written():
    assert lazy_numbers((1 << 22,), torch.int64).count_nonzero() == 0
    with torch.no_grad(), LazyHost():
        out = torch.zeros(1 << 22)
        weight = torch.empty(1 << 22)
        torch.nn.init.normal_(weight)
    assert out.count_nonzero() == 0
    assert weight.count_nonzero() > 1 << 21


def _resident() -> int:
    """Anonymous memory of this process, bytes."""
    status = Path("/proc/self/status").read_text()
    line = next(one for one in status.splitlines() if one.startswith("RssAnon"))
    return int(line.split()[1]) << 10
