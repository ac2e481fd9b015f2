"""Maximum and sums in one pass: which guard the merged loop needs, and that it stays right."""

import json
import subprocess
import sys
import textwrap
from itertools import permutations

import pytest

from workbench.kernels.edits.least import LOWEST_FLOAT32
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.inverses.registry import INVERSES
from workbench.kernels.source import read_source
from workbench.problems.load import load_problem

ROW_SUMS = textwrap.dedent(
    '''
    """Sums of exponentials, a few rows a program."""

    import torch
    import triton
    import triton.language as tl
    from torch import nn


    @triton.jit
    def row_sums_kernel(x_ptr, out_ptr, ROWS, COLS, R: tl.constexpr, BLOCK: tl.constexpr):
        rows = tl.program_id(0) * R + tl.arange(0, R)
        highest = tl.full([R], -float("inf"), dtype=tl.float32)
        for start in range(0, COLS, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            seen = (rows < ROWS)[:, None] & (cols < COLS)[None, :]
            x = tl.load(x_ptr + rows[:, None] * COLS + cols[None, :], seen, -float("inf"))
            highest = tl.maximum(highest, tl.max(x, axis=1))
        total = tl.zeros([R], dtype=tl.float32)
        for start in range(0, COLS, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            seen = (rows < ROWS)[:, None] & (cols < COLS)[None, :]
            x = tl.load(x_ptr + rows[:, None] * COLS + cols[None, :], seen, -float("inf"))
            total += tl.sum(tl.exp(x - highest[:, None]), axis=1)
        tl.store(out_ptr + rows, total, mask=rows < ROWS)


    class ModelNew(nn.Module):
        def forward(self, x):
            rows, cols = x.shape
            out = torch.empty(rows, device=x.device)
            row_sums_kernel[(triton.cdiv(rows, 4),)](x, out, rows, cols, R=4, BLOCK=32)
            return out
    '''
)
LATER_READ = ROW_SUMS.replace("rows, total,", "rows, total + highest,")
OTHER_DTYPE = ROW_SUMS.replace("dtype=tl.float32)\n    for", "dtype=tl.float16)\n    for")
GUARD = 'shift = tl.where(new_highest == -float("inf"), 0.0, new_highest)'

RUN = """
import importlib.util, json, sys
import torch
torch.manual_seed(0)
x = torch.randn(6, 100)
x[0, :40] = -float("inf")
x[1, :] = -float("inf")
x[2, 50:] = -float("inf")
sums = []
for path in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sums.append(module.ModelNew()(x).tolist())
print(json.dumps(sums))
"""


def merged(text):
    return EDITS["online-softmax"].apply(text, read_source(text).launched[0], {}).source


def test_a_finite_start_spares_the_loop_its_guard():
    after = merged(ROW_SUMS)
    assert f"highest = tl.full([R], {LOWEST_FLOAT32}, dtype=tl.float32)" in after
    assert "tl.where" not in after


@pytest.mark.parametrize("text", [LATER_READ, OTHER_DTYPE], ids=["read later", "another dtype"])
def test_a_start_that_has_to_stay_keeps_the_guard(text):
    after = merged(text)
    assert GUARD in after
    assert LOWEST_FLOAT32 not in after


@pytest.mark.parametrize("text", [ROW_SUMS, LATER_READ], ids=["finite start", "guard"])
def test_blocks_of_minus_infinity_are_summed_as_two_passes_do(text, tmp_path):
    (tmp_path / "before.py").write_text(text)
    (tmp_path / "after.py").write_text(merged(text))
    done = subprocess.run(
        [sys.executable, "-c", RUN, "before.py", "after.py"],
        cwd=tmp_path,
        env={"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = json.loads(done.stdout)
    known = [row for row in range(6) if row != 1]
    assert [after[r] for r in known] == pytest.approx([before[r] for r in known], rel=1e-6)
    assert all(total > 0 for total in (after[r] for r in known))


@pytest.mark.parametrize("order", list(permutations(("base-two", "even-values", "online-softmax"))))
def test_attention_comes_back_whatever_the_order_of_its_mechanisms(order):
    expert = text = load_problem("fmha").path.with_name("expert.py").read_text()
    kernel = read_source(expert).launched[0]
    inverses = {inverse.edit: inverse for inverse in INVERSES}
    for edit in ("even-values", "base-two", "online-softmax"):
        (text,) = (one.source for one in inverses[edit].removables(text, kernel))
    assert len(read_source(text).kernel(kernel).loops) == 2
    for edit in order:
        text = EDITS[edit].apply(text, kernel, {}).source
    loop = text[text.index("for start in") : text.index("out = (acc")]
    theirs = expert[expert.index("for start in") : expert.index("out = (acc")]
    assert loop.count("tl.") == theirs.count("tl.")
    assert LOWEST_FLOAT32 in text


def test_a_name_that_only_some_iterations_bind_is_not_merged():
    text = ROW_SUMS.replace(
        "        highest = tl.maximum(",
        "        if BLOCK > 16:\n            x = before + 0.0\n"
        "        before = x\n        highest = tl.maximum(",
    )
    assert EDITS["online-softmax"].anchors(text, "row_sums_kernel") == ()
