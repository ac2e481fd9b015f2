"""Conversions of the interpreter from and to fp8 are those of a GPU, bit by bit."""

import numpy as np
import pytest
import torch

from workbench.kernels.interpret_fp8 import narrow_fp8, widen_fp8

KINDS = {"fp8e4nv": (torch.float8_e4m3fn, 448.0), "fp8e5": (torch.float8_e5m2, 57344.0)}
CODES = torch.arange(256, dtype=torch.uint8)


@pytest.mark.parametrize("name", KINDS)
def test_every_code_stands_for_torchs_number(name):
    assert np.array_equal(
        widen_fp8(CODES.numpy(), name), CODES.view(KINDS[name][0]).float().numpy(), equal_nan=True
    )


@pytest.mark.parametrize("name", KINDS)
def test_numbers_round_to_nearest_ties_to_even_and_saturate(name):
    dtype, top = KINDS[name]
    finite = widen_fp8(CODES.numpy(), name)
    finite = np.sort(finite[np.isfinite(finite)])
    ties = torch.from_numpy((finite[:-1] + finite[1:]) / 2)
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(4096, generator=generator) * 10.0**power for power in range(-8, 7)]
    values = torch.cat([ties, *drawn])
    wanted = values.clamp(-top, top).to(dtype).view(torch.uint8)
    assert np.array_equal(narrow_fp8(values.numpy(), name), wanted.numpy())


@pytest.mark.parametrize("name", KINDS)
def test_infinities_saturate_and_nan_stays(name):
    dtype, top = KINDS[name]
    made = narrow_fp8(np.array([np.inf, -np.inf, np.nan], dtype=np.float32), name)
    values = torch.from_numpy(made).view(dtype).float()
    assert values[:2].tolist() == [top, -top]
    assert values[2].isnan()
