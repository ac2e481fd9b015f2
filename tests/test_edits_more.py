"""Edits that change what a program does: outputs side by side, sorting, descriptors, split sums."""

import pytest
from kernel_texts import CONFIGS, OWN, SEEDS, TUTORIAL_MATMUL

from workbench.kernels.edits.base import EditRefused, undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import read_source


def edited(text, edit, **parameters):
    return EDITS[edit].apply(text, read_source(text).launched[0], parameters).source


def says(text, edit, **parameters):
    with pytest.raises(EditRefused) as caught:
        edited(text, edit, **parameters)
    return caught.value.why


# Several outputs.


def test_a_quotient_of_the_program_stays_one_number_for_all_its_outputs():
    after = edited(SEEDS["group_conv"], "tile-programs", axis=1, outputs=16)
    assert "group = first_channel // OUT_PER_GROUP" in after
    assert "channel = (first_channel + lanes)" in after
    assert "acc = tl.zeros([OUTPUTS, BLOCK]" in after


def test_the_outputs_of_a_program_divide_what_the_program_id_is_divided_by():
    after = edited(SEEDS["group_conv"], "tile-programs", axis=1, outputs=16)
    assert (
        "bits = 16 | (batch * out_channels) | out_channels | (out_channels // self.groups)" in after
    )
    assert "(batch * out_channels) // outputs" in after


def test_programs_that_share_no_load_or_stand_a_block_apart_are_not_joined():
    assert "counts blocks" in says(SEEDS["gelu"], "tile-programs", axis=0)
    assert "no load is the same" in says(SEEDS["rmsnorm"], "tile-programs", axis=1)


# Sorting.


def test_ranks_that_are_limited_take_only_the_top_of_a_sort():
    after = edited(SEEDS["top_k"], "count-to-sort", num_warps=16)
    kernel = read_source(after).kernel("top_k_kernel")
    assert kernel.loops == ()
    assert "key = tl.topk(key, TOP_K)" in after
    assert "TOP_K=triton.next_power_of_2(self.k)" in after


def test_ranks_without_a_common_limit_sort_the_whole_row():
    text = SEEDS["top_k"].replace(
        "mine.to(tl.int64), mask=chosen", "mine.to(tl.int64), mask=mine < N"
    )
    after = edited(text, "count-to-sort")
    assert "tl.sort(key, descending=True)" in after
    assert "TOP_K" not in after


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("> x[:, None]", "< x[:, None]", "larger elements are not what is counted"),
        ("(larger | earlier)", "larger", "not counted in the order of their places"),
        ("chosen = (mine < N)", "kept = x + cols_of\n    chosen = (mine < N)", ""),
        ("row * N + cols", "row * K + cols", "not of one row"),
    ],
)
def test_another_rule_of_counting_is_left_alone(old, new, why):
    text = SEEDS["top_k"].replace(old, new)
    assert text != SEEDS["top_k"]
    if why:
        assert why in says(text, "count-to-sort")
    else:
        assert "tl.topk" in edited(text, "count-to-sort")


# Products.


SIDE_BY_SIDE = edited(SEEDS["group_conv"], "tile-programs", axis=1, outputs=16)


def test_nested_loops_of_products_become_one_product_and_undo_to_the_byte():
    kernel = read_source(SIDE_BY_SIDE).launched[0]
    applied = EDITS["sum-to-products"].apply(SIDE_BY_SIDE, kernel, {"precision": "tf32"})
    whole = "CHANNELS_PER_GROUP * KERNEL * KERNEL"
    assert f"    for start in range(0, {whole}, BLOCK_K):\n" in applied.source
    assert "        i = rounds[:, None] // KERNEL % KERNEL\n" in applied.source
    assert 'acc = tl.dot(w, x, acc, input_precision="tf32")' in applied.source
    assert f"mask=(inside) & (rounds[:, None] < {whole}), other=0.0" in applied.source
    assert "x_plane + i * W + j + corner" in applied.source, "a column of sums, then the block"
    assert undo(applied.source, applied.undo) == SIDE_BY_SIDE


def test_rounds_are_unrolled_only_where_their_number_is_known_when_compiling():
    assert "ends at what is not known" in says(SIDE_BY_SIDE, "sum-to-products", unroll=True)
    fixed = EDITS["constant-dimensions"].apply(SIDE_BY_SIDE, "group_conv_kernel", {}).source
    applied = EDITS["sum-to-products"].apply(fixed, "group_conv_kernel", {"unroll": True})
    whole = "CHANNELS_PER_GROUP * KERNEL * KERNEL"
    assert f"    for start in tl.static_range(0, {whole}, BLOCK_K):\n" in applied.source
    assert undo(applied.source, applied.undo) == fixed


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("acc += x * w", "acc += x + w", "does not add a product"),
        ("acc += x * w", "acc += x * x", "not a column times a row"),
        ("mask=inside, other=0.0", "mask=inside, other=1.0", "something else than zero"),
        ("x * w", "(x + 1.0) * w", "something else than loaded values"),
        ("range(KERNEL)", "range(1, KERNEL)", "count from zero"),
        ("dtype=tl.float32)\n    for", "dtype=tl.float16)\n    for", "in fp32"),
        ("acc.to(", "(acc + x_plane).to(", "outside of its loop"),
    ],
)
def test_sums_of_another_form_are_left_alone(old, new, why):
    text = SIDE_BY_SIDE.replace(old, new, 1)
    assert text != SIDE_BY_SIDE
    assert why in says(text, "sum-to-products")


# Descriptors.


def test_tiles_go_through_descriptors_that_follow_the_block_sizes():
    after = edited(SEEDS["gemm"], "descriptors")
    assert "x = x_ptr.load([pid_m * BLOCK_M, start])" in after
    assert "w = w_ptr.load([pid_n * BLOCK_N, start]).T" in after
    assert "x_tiles = TensorDescriptor(x, [m, k], [k, 1], [block_m, block_k])" in after
    assert "out_ptr.store([pid_m * BLOCK_M, pid_n * BLOCK_N], acc.to(out_ptr.dtype))" in after
    assert "mask" not in after
    loads_alone = edited(SEEDS["gemm"], "descriptors", stores=False)
    assert "tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=out_mask)" in loads_alone
    larger = edited(after, "tile", tile="128x256x64", num_warps=8)
    assert "block_k = 64" in larger


def test_a_tile_with_another_filler_or_mask_stays_on_pointers():
    text = SEEDS["gemm"].replace("mask=x_mask, other=0.0", "mask=x_mask, other=1.0")
    after = edited(text, "descriptors")
    assert "x = tl.load(x_ptr" in after
    assert "w_ptr.load" in after
    assert says(TUTORIAL_MATMUL, "descriptors")


def test_warps_are_specialized_only_where_descriptors_feed_the_product():
    assert "through descriptors alone" in says(SEEDS["gemm"], "warp-specialize")
    after = edited(edited(SEEDS["gemm"], "descriptors"), "warp-specialize")
    assert "tl.range(0, K, BLOCK_K, warp_specialize=True)" in after


# Sums.


def test_a_sum_is_reduced_once_behind_its_loop():
    after = edited(SEEDS["softmax"], "late-sum")
    assert "total = tl.zeros([BLOCK], dtype=tl.float32)" in after
    assert "        total += tl.exp(x - highest)\n" in after
    assert "\n    total = tl.sum(total, axis=0)\n" in after
    assert "reduces a block to one number" in says(after, "late-sum")


def test_parts_are_added_in_order_by_a_second_kernel():
    after = edited(SEEDS["matvec"], "split-kernel", parts=8)
    assert read_source(after).launched == ("matvec_kernel", "add_parts_of_matvec_kernel")
    assert "parts = torch.empty((8, out.numel()), dtype=torch.float32, device=out.device)" in after
    assert "tl.atomic_add" not in after
    assert "tl.zeros((m" not in after


# Launches.


def test_rows_in_cache_sets_programs_block_and_warps_together():
    after = edited(SEEDS["softmax"], "rows-in-cache", programs=64, block=8192, num_warps=32)
    assert "min(64, rows)" in after
    assert "BLOCK=8192, num_warps=32" in after


def test_an_autotuner_takes_the_place_of_stated_options_and_gives_it_back():
    tuned = edited(SEEDS["matvec"], "autotune", stages=4)
    assert read_source(tuned).autotuned(read_source(tuned).kernel("matvec_kernel"))
    assert 'key=["K"]' in tuned
    assert "BLOCK=512)" in tuned
    picked = edited(tuned, "pick-config", config=2)
    assert "@triton.autotune" not in picked
    assert "num_warps=8, num_stages=2)" in picked
    assert "there is no configuration 9" in says(tuned, "pick-config", config=9)
    assert "autotuned already" in says(CONFIGS, "autotune")
    clustered = edited(SEEDS["gemm"], "num-ctas", value=4)
    assert "states `num_ctas`" in says(clustered, "autotune")
    split = edited(edited(SEEDS["gemm"], "descriptors"), "warp-specialize")
    assert "split warps" in says(split, "autotune")


def test_a_loop_that_loads_what_it_stores_is_not_pipelined():
    """A pipelined load does not wait for the store of an earlier turn."""
    text = OWN["in_memory"]
    (kernel,) = read_source(text).launched
    assert EDITS["loop-unroll"].anchors(text, kernel)
    with pytest.raises(EditRefused, match="nothing that it may store"):
        EDITS["loop-stages"].apply(text, kernel, {"value": 3})
