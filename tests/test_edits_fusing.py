"""Launches and passes joined: what becomes one, and what has to stay two."""

import pytest
from edit_kit import edited, says
from kernel_pairs import EPILOGUE, IN_MEMORY, IN_PLACE, ROWS_AFTER_ROWS, TWO_PASS_ATTENTION
from kernel_texts import SEEDS

from workbench.kernels.edits.base import undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import read_source


def changed(text, *pairs):
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


# Epilogues.


def test_an_epilogue_works_on_what_would_have_been_stored():
    after = edited(EPILOGUE, "fuse-epilogue")
    assert read_source(after).launched == ("gemm",)
    assert "bias_gelu" not in after
    assert "stored = acc.to(out_ptr.dtype.element_ty)" in after
    assert "tl.load(bias_ptr + place % N, mask=" in after
    assert "bias_ptr=bias, res_ptr=res, scale=2.0" in after
    # Made like the first tensor, the second one's place is taken by it.
    assert after.rstrip().endswith("return y")
    assert "total" not in after
    assert "grid" not in after


def test_an_epilogue_in_place_leaves_the_tensor_where_it_is():
    after = edited(IN_PLACE, "fuse-epilogue")
    assert "squares[(blocks,)](x, y, n, BLOCK=256, a_ptr=a)" in after
    assert "return y" in after


def test_an_epilogue_in_place_is_refused_what_else_the_launch_reads_of_the_tensor():
    text = changed(IN_PLACE, ("(a, y, y, n, BLOCK", "(a, y, y, int(y.sum()), BLOCK"))
    assert "reads `y` too" in says(text, "fuse-epilogue")


def test_a_second_tensor_made_apart_takes_the_place_of_the_first():
    text = changed(EPILOGUE, ("torch.empty_like(y)", "torch.empty((M, N), dtype=x.dtype)"))
    after = edited(text, "fuse-epilogue")
    assert "return out" in after
    assert "y = torch.empty" not in after
    assert after.index("out = torch.empty((M, N), dtype=x.dtype)") < after.index("gemm[")
    assert "x, w, out, M, N, K" in after


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("return out", "return out, y", "reads `y` too"),
        ("empty_like(y)", "empty_like(y, dtype=torch.float16)", "may differ in type"),
        ("        total = y", "        y.mul_(2.0)\n        total = y", "reads `y` too"),
        ("        total = y", "        w.mul_(2.0)\n        total = y", "between the launches"),
        ("        total = y", "        K = 3\n        total = y", "first launch is given"),
        ("y * scale + r", "y * scale + tl.sum(r, axis=0)", "more than elementwise"),
        ("total, N, 2.0", "total, N, y.sum()", "reads `y` too"),
        ("tl.load(y_ptr + places,", "tl.load(y_ptr + places + 1,", "block of places"),
        ("mask=inside, other=0.0).to", "mask=inside & (places > 3)).to", "more than the end"),
    ],
)
def test_work_that_is_more_than_an_epilogue_stays_apart(old, new, why):
    text = changed(EPILOGUE, (old, new))
    assert why in says(text, "fuse-epilogue")


def test_a_kernel_that_is_launched_twice_keeps_its_launches():
    text = changed(
        EPILOGUE, ("        return out", "        gemm[(1, 1)](x, w, y)\n        return out")
    )
    assert "exactly one way" in says(text, "fuse-epilogue")


# Launches of one grid.


def test_what_one_program_wrote_and_read_stays_in_registers():
    after = edited(ROWS_AFTER_ROWS, "fuse-launches")
    assert read_source(after).launched == ("scaled",)
    kernel = read_source(after).kernel("scaled")
    assert [a.base for a in kernel.loads] == ["x_ptr"]
    assert 'tl.where(cols2 < N, stored, -float("inf"))' in after
    assert len(kernel.stores) == 1


def test_blocks_of_the_two_kernels_stay_one_size():
    after = edited(IN_PLACE, "fuse-launches")
    kernel = read_source(after).kernel("squares")
    assert kernel.constexprs == ("BLOCK",)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("x_ptr + r * n + cols", "x_ptr + r * n + cols + 1", "reads elsewhere"),
        ("mask=cols < n, other", "mask=cols < n - 1, other", "not masked as"),
        ("softmaxed[(rows,)]", "softmaxed[(rows + 1,)]", "same grid"),
        (
            "    e = e / ",
            "    for i in range(2):\n        e += tl.load(x_ptr + r)\n    e = e / ",
            "loop",
        ),
    ],
)
def test_programs_that_read_what_others_wrote_stay_apart(old, new, why):
    assert why in says(changed(ROWS_AFTER_ROWS, (old, new)), "fuse-launches")


# Sums in memory.


def test_a_sum_in_memory_is_kept_in_registers():
    after = edited(IN_MEMORY, "in-registers")
    kernel = read_source(after).kernel("column_sums")
    assert [a.base for a in kernel.accesses if a.loops] == ["x_ptr"]
    assert "held = total.to(out_ptr.dtype.element_ty)" in after


def test_a_store_that_leaves_a_loop_takes_its_barrier_along():
    zeros, store = "mask=inside)\n    for", "        tl.store(out_ptr + cols, total, mask=inside)\n"
    barrier = "tl.debug_barrier()\n"
    text = changed(
        IN_MEMORY,
        (zeros, f"mask=inside)\n    {barrier}    for"),
        (store, f"{store}        {barrier}"),
    )
    after = edited(text, "in-registers")
    assert after.index(barrier) < after.index("held = tl.load")
    assert after.count(barrier) == 1


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("total = tl.load(out_ptr + cols", "total = tl.load(out_ptr + cols + 1", "where line"),
        ("(out_ptr + cols, total", "(out_ptr + cols + r, total", "where line"),
        (
            "        total += x * x\n",
            "        total += x * x\n        if r > 2:\n            break\n",
            "early",
        ),
    ],
)
def test_a_sum_that_moves_or_may_end_early_stays_in_memory(old, new, why):
    assert why in says(changed(IN_MEMORY, (old, new)), "in-registers")


# Passes for a maximum and for sums.


def test_attention_with_a_pass_for_the_maximum_becomes_one_pass():
    after = edited(TWO_PASS_ATTENTION, "online-softmax")
    kernel = read_source(after).kernel("attention")
    assert len(kernel.loops) == 1
    assert len(kernel.dots) == 2
    assert "shrink = tl.exp(top - new_top)" in after
    assert "total = total * shrink + tl.sum(weights, axis=1)" in after
    assert "v, acc * shrink[:, None], input_precision" in after


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "        weights = tl.exp",
            "        top = top * 1.0\n        weights = tl.exp",
            "in another way",
        ),
        ("tl.sum(weights, axis=1)", "tl.sum(weights, axis=0)", "another axis"),
        ("tl.exp(scores - top[:, None])", "tl.exp(scores - top[None, :])", "another axis"),
        (
            "        total += tl.sum",
            "        q = q * 1.0\n        total += tl.sum",
            "from one iteration to the next",
        ),
        ("total = tl.zeros([BLOCK_M]", "total = tl.full([BLOCK_M], 1.0", "start at zero"),
        ("    total = tl.zeros", "    top = top + 1.0\n    total = tl.zeros", "between the loops"),
    ],
)
def test_sums_that_do_not_scale_with_the_maximum_keep_two_passes(old, new, why):
    text = changed(TWO_PASS_ATTENTION, (old, new))
    assert why in says(text, "online-softmax")


@pytest.mark.parametrize("edit", ["fuse-epilogue", "fuse-launches", "in-registers"])
def test_seeds_of_one_launch_are_not_touched(edit):
    for text in SEEDS.values():
        assert EDITS[edit].anchors(text, read_source(text).launched[0]) == ()


@pytest.mark.parametrize("text", [EPILOGUE, IN_PLACE, ROWS_AFTER_ROWS, IN_MEMORY])
def test_joined_work_comes_apart_to_the_byte(text):
    kernel, done = read_source(text).launched[0], 0
    for edit in ("fuse-epilogue", "fuse-launches", "in-registers"):
        if EDITS[edit].anchors(text, kernel):
            applied = EDITS[edit].apply(text, kernel, {})
            assert undo(applied.source, applied.undo) == text
            done += 1
    assert done
