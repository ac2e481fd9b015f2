"""An output that a coarser type was on the way to is within the bound, and still told."""

import pytest
import torch

from workbench.gate.correctness.compare import rule_for
from workbench.gate.correctness.lowbits import lowest_bit_is_lost

NARROW = [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


def numbers(dtype, count=4000, seed=0):
    """fp64 answers, and the reference's as it runs: rounded once."""
    gold = torch.randn(count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return gold, gold.float().to(dtype)


def cut(values, bits):
    """Without so many of the lowest bits, rounded to nearest."""
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32}[values.element_size()]
    kept = values.view(whole)
    return (((kept >> (bits - 1)) + 1 >> 1) << bits).view(values.dtype)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("bits", [1, 2])
def test_bits_that_are_rounded_away_are_missed(dtype, bits):
    gold, native = numbers(dtype)
    assert lowest_bit_is_lost(cut(native, bits), gold, native)
    whole = {1: torch.int8, 2: torch.int16}[native.element_size()]
    assert lowest_bit_is_lost((native.view(whole) | 1).view(dtype), gold, native), "all ones"
    assert not lowest_bit_is_lost(native, gold, native)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_kernel_that_rounds_otherwise_keeps_its_bits(dtype):
    gold, native = numbers(dtype)
    noise = 1 + rule_for(dtype, {}, tf32=False).eps * (torch.rand(len(gold)) - 0.5)
    assert not lowest_bit_is_lost((gold * noise).float().to(dtype), gold, native)


def test_of_few_different_answers_and_of_round_ones_nothing_is_said():
    gold = torch.tensor([1 / 3, 2 / 3, 1 / 7], dtype=torch.float64).repeat(500)
    native = gold.half()
    assert not lowest_bit_is_lost(cut(native, 1), gold, native)
    round_ = torch.arange(1000, dtype=torch.float64) / 4
    assert not lowest_bit_is_lost(round_.half(), round_, round_.half())


def test_differences_in_fp32_have_zeros_in_their_lowest_bits_by_nature():
    x = torch.linspace(0.3, 3, 4000)
    tanh, gold = 2 * (2 * x).sigmoid() - 1, x.double().tanh()
    assert not bool((tanh.view(torch.int32) & 1).any())
    assert not lowest_bit_is_lost(tanh, gold, gold.float())
    in_half = tanh.half()
    assert not lowest_bit_is_lost(in_half, gold, gold.half())


def test_numbers_outside_of_the_type_are_left_out():
    gold, native = numbers(torch.float16)
    gold[::2] *= 1e6
    native = gold.half()
    assert lowest_bit_is_lost(cut(native, 3), gold, native)
    assert not lowest_bit_is_lost(native[:0], gold[:0], native[:0])
    tiny = gold * 1e-12
    assert not lowest_bit_is_lost(tiny.half() * 0, tiny, tiny.half())
