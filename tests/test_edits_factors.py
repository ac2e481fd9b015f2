"""Factors that are split once into halves: where it fits, what is written, and what it keeps."""

import os
import subprocess
import sys

import pytest
from edit_kit import edited, says
from kernel_texts import SEEDS

from workbench.kernels.edits.base import undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import read_source

LINEAR = SEEDS["linear_relu_div"]
KERNEL = read_source(LINEAR).launched[0]
CHECK = """
import importlib.util, sys, torch

spec = importlib.util.spec_from_file_location("candidate", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
torch.manual_seed(0)
model = module.ModelNew(100, 24, 2.0)
x, w = torch.randn(20, 100), model.linear.weight
with torch.no_grad():
    if sys.argv[2] == "far apart":  # what is largest in a row meets what is smallest
        x[:, 3] *= 1e6
        w[:, 3] *= 1e-6
    elif sys.argv[2] == "large":
        x *= 1e30
        w *= 1e-25
    elif sys.argv[2] == "small":
        x *= 1e-36
    elif sys.argv[2] == "some rows zero":
        x[::2] = 0
    model.linear.bias.zero_()
    got = model(x).double()
    gold = torch.relu(x.double() @ w.double().T) / 2
    sums = x.double().abs() @ w.double().abs().T / 2
print(((got - gold).abs() / sums.clamp_min(1e-300)).max().item())
"""


def fitted(old, new):
    """The seed with another text in it."""
    assert old in LINEAR
    return LINEAR.replace(old, new)


def test_the_text_comes_back_to_the_byte():
    applied = EDITS["split-factors"].apply(LINEAR, KERNEL, {"tile": "128x128x64"})
    assert applied.source.count("tl.dot(") == 3
    assert undo(applied.source, applied.undo) == LINEAR


def test_it_takes_the_tile_that_it_is_told():
    text = edited(LINEAR, "split-factors", tile="128x64x32", num_warps=8, num_stages=3)
    for said in ("BLOCK_M=128", "BLOCK_N=64", "BLOCK_K=32", "num_stages=3"):
        assert said in text
    assert "BLOCK_M=32" in edited(LINEAR, "split-factors")


@pytest.mark.parametrize("numbers", ["plain", "far apart", "large", "small", "some rows zero"])
def test_what_is_added_up_is_as_close_as_fp32_comes(numbers, tmp_path):
    candidate, script = tmp_path / "candidate.py", tmp_path / "check.py"
    candidate.write_text(edited(LINEAR, "split-factors"), encoding="utf-8")
    script.write_text(CHECK, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script, candidate, numbers],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TRITON_INTERPRET": "1"},
    )
    # A thousandth of what one TF32 product loses; what 22 bits of each factor lose is half of it.
    assert float(done.stdout) < 2**-21


def test_a_block_that_is_turned_over_for_the_product_is_taken():
    text = fitted("cols[None, :] * K + ks[:, None]", "cols[:, None] * K + ks[None, :]")
    text = text.replace("(cols[None, :] < N) & (ks[:, None] < K)", "(cols[:, None] < N)", 1)
    after = edited(text.replace("tl.dot(x, w,", "tl.dot(x, w.T,"), "split-factors")
    assert "acc_low = tl.dot(x, w_low.T, acc_low)" in after
    assert "acc_low = tl.dot(x_low, w.T, acc_low)" in after
    assert "tl.load(w_scale_ptr + cols, mask=cols < N, other=0.0)[None, :]" in after


def test_a_product_that_is_added_by_a_statement_of_its_own_is_taken():
    text = fitted('acc = tl.dot(x, w, acc, input_precision="ieee")', "acc += tl.dot(x, w)")
    after = edited(text, "split-factors")
    assert "acc = tl.dot(x, w, acc)" in after


def test_rows_without_a_mask_are_read_without_one():
    text = fitted("(rows[:, None] < M) & (ks[None, :] < K)", "ks[None, :] < K")
    assert "tl.load(x_scale_ptr + rows)[:, None]" in edited(text, "split-factors")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("cols[None, :] * K + ks[:, None]", "ks[:, None] * N + cols[None, :]", "along the sum"),
        ("rows[:, None] * K + ks", "rows[:, None] * N + ks", "along the sum"),
        ("ks = start + tl.arange(0, BLOCK_K)", "ks = start + tl.arange(0, BLOCK_M)", "`ks` is not"),
        ("mask=x_mask, other=0.0)\n        w", "mask=x_mask, other=1.0)\n        w", "with zero"),
        ("(ks[None, :] < K)\n", "(ks[None, :] < K) & (rows[:, None] > 3)\n", "masks by more"),
        ("acc = tl.zeros", "acc = 1.0 + tl.zeros", "does not start at zero"),
        ("range(0, K, BLOCK_K)", "range(BLOCK_K, K, BLOCK_K)", "does not start at zero"),
        ("        acc = tl.dot", "        x = x * 2.0\n        acc = tl.dot", "`x` is not simply"),
        ("        acc = tl.dot", "        rows += 0\n        acc = tl.dot", "`rows` changes"),
        ("        acc = tl.dot", "        n = tl.sum(x)\n        acc = tl.dot", "more than the"),
        ("        acc = tl.dot", "        b = acc\n        acc = tl.dot", "before its loop has"),
        ("    bias = tl", "    k = tl.load(w_ptr)\n    bias = tl", "read in several places"),
        ('"ieee")', '"ieee", out_dtype=tl.float16)', "how its sum is kept"),
        ("            x,\n", "            x * 1,\n", "no names of their own"),
    ],
)
def test_other_forms_are_refused_with_the_reason(old, new, why):
    assert why in says(fitted(old, new), "split-factors")
