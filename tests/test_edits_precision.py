"""How fp32 factors are rounded: what the edit offers, and what the compiler makes of it."""

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
PRODUCT = """
import sys, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def product(a_ptr, b_ptr, out_ptr, HOW: tl.constexpr):
    m, k = tl.arange(0, 64), tl.arange(0, 32)
    a = tl.load(a_ptr + m[:, None] * 32 + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 64 + m[None, :])
    tl.store(out_ptr + m[:, None] * 64 + m[None, :], tl.dot(a, b, input_precision=HOW))

types = {"a_ptr": "*fp32", "b_ptr": "*fp32", "out_ptr": "*fp32", "HOW": "constexpr"}
for how in sys.argv[1:]:
    source = ASTSource(product, types, {(3,): how})
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    print(ptx.count("wgmma.mma_async"))
"""


@pytest.mark.parametrize("precision", ["bf16x6", "tf32x3", "bf16x3", "tf32"])
def test_a_product_is_rounded_as_told_and_back_to_the_byte(precision):
    applied = EDITS["dot-precision"].apply(LINEAR, KERNEL, {"precision": precision})
    assert f'input_precision="{precision}")' in applied.source
    again = EDITS["dot-precision"].apply(applied.source, KERNEL, {"precision": "ieee"})
    assert again.source == LINEAR
    assert undo(undo(again.source, again.undo), applied.undo) == LINEAR


def test_a_precision_that_triton_does_not_have_is_refused():
    assert "`bf16x9` is not one of" in says(LINEAR, "dot-precision", precision="bf16x9")


def test_a_stated_precision_is_a_fact_of_the_kernel():
    after = edited(LINEAR, "dot-precision", precision="bf16x6")
    (anchor,) = EDITS["dot-precision"].anchors(after, KERNEL)
    assert anchor.current == {"precision": "bf16x6"}


def test_products_in_bf16_parts_take_the_tensor_instructions_that_their_number_says(tmp_path):
    script = tmp_path / "product.py"
    script.write_text(PRODUCT, encoding="utf-8")
    how = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    done = subprocess.run(
        [sys.executable, script, *how], capture_output=True, text=True, check=True
    )
    found = dict(zip(how, map(int, done.stdout.split()), strict=True))
    # Of 32 in depth tf32 takes 8 and bf16 takes 16 an instruction.
    assert found == {"ieee": 0, "tf32": 4, "tf32x3": 12, "bf16x3": 6, "bf16x6": 12}
