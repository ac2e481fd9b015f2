"""Edits that change how a kernel goes about its work: what they write, and where they stay away."""

import pytest
from edit_kit import edited, says
from kernel_texts import ROW_NORM, SEEDS, SHARED_CONSTANT, TUTORIAL_MATMUL

from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import read_source


def test_row_on_chip_reads_the_row_once_and_keeps_the_comments():
    after = edited(ROW_NORM, "row-on-chip", num_warps=8)
    kernel = read_source(after).kernel("row_norm")
    assert kernel.loops == ()
    assert sorted(a.base for a in kernel.loads) == ["w_ptr", "x_ptr"]
    assert "# the columns of this block" in after
    assert "BLOCK_SIZE=triton.next_power_of_2(x.shape[1]),  # elements" in after
    assert "block = 128" not in after


def test_a_load_with_another_filler_is_shared_under_where():
    text = SEEDS["layernorm"].replace(
        "x = tl.load(x_row + cols, mask=cols < N, other=0.0).to(tl.float32)\n        w =",
        "x = tl.load(x_row + cols, mask=cols < N, other=1.0).to(tl.float32)\n        w =",
    )
    assert text != SEEDS["layernorm"]
    after = edited(text, "row-on-chip")
    assert "x = tl.where(cols < N, x, 1.0)" in after
    assert after.count("tl.load(x_row") == 1


def test_a_row_without_masks_is_not_widened():
    text = SEEDS["softmax"].replace(', mask=cols < N, other=-float("inf")', "")
    assert "no mask that ends at `N`" in says(text, "row-on-chip")


def test_a_row_that_was_stored_in_between_is_loaded_again():
    text = SEEDS["softmax"].replace(
        "    total = 0.0\n", "    tl.store(x_row + N - 1, 0.0)\n    total = 0.0\n"
    )
    after = edited(text, "row-on-chip")
    assert after.count("tl.load(x_row") == 2


def test_a_loop_that_breaks_is_left_alone():
    text = SEEDS["softmax"].replace(
        "        total += ", "        if start > 5:\n            break\n        total += "
    )
    assert "leaves the loop early" in says(text, "row-on-chip")


def test_online_softmax_merges_maximum_and_sum():
    after = edited(SEEDS["softmax"], "online-softmax")
    kernel = read_source(after).kernel("softmax_kernel")
    assert len(kernel.loops) == 2
    assert len(kernel.loads) == 2
    assert 'shift = tl.where(new_highest == -float("inf"), 0.0, new_highest)' in after


def test_online_softmax_needs_a_sum_of_exponentials_of_the_maximum():
    text = SEEDS["softmax"].replace("tl.exp(x - highest), axis=0", "x - highest, axis=0")
    assert "does not sum exponentials" in says(text, "online-softmax")


def test_loop_to_tile_adds_a_dimension_and_reads_once():
    after = edited(SEEDS["rmsnorm"], "loop-to-tile", num_warps=8)
    kernel = read_source(after).kernel("rmsnorm_kernel")
    assert kernel.loops == ()
    assert len(kernel.loads) == 1
    assert "C_BLOCK=triton.next_power_of_2(channels)" in after


def test_loop_to_tile_refuses_what_one_iteration_hands_to_the_next():
    text = SEEDS["rmsnorm"].replace(
        "        squares += x * x\n", "        squares += x * before\n        before = x\n"
    )
    assert "goes from one iteration to the next" in says(text, "loop-to-tile")


def test_group_order_follows_names_and_both_kinds_of_grid():
    after = edited(SEEDS["gemm"], "group-order", group=4)
    assert "GROUP_M: tl.constexpr = 4," in after
    assert "    pid_m = first_m + pid % group_span % group_rows\n" in after
    after = edited(TUTORIAL_MATMUL, "group-order")
    assert "pid = tl.program_id(0) + tl.program_id(1) * tl.num_programs(0)" in after
    assert "already visited in groups" in says(after, "group-order")


def test_split_needs_a_plain_sum():
    assert "more than the sum" in says(SEEDS["linear_relu_div"], "split-reduction")
    after = edited(SEEDS["matvec"], "split-reduction", parts=8)
    assert "torch.zeros((m, 1)" in after
    assert "matvec_kernel[(m, 8)]" in after
    assert "tl.atomic_add(out_ptr + row" in after


def test_masks_are_dropped_by_a_flag_that_the_launch_computes():
    after = edited(SEEDS["gelu"], "drop-masks", dimension="*")
    assert '@triton.heuristics({"EVEN_N": lambda args: args["N"] % args["BLOCK"] == 0})' in after
    assert "mask=None if EVEN_N else places < N" in after
    assert EDITS["drop-masks"].anchors(after, "gelu_kernel") == ()


def test_masks_stay_where_a_default_hides_the_block():
    assert "leaves `BLOCK` to its default" in says(SHARED_CONSTANT, "drop-masks", "bump")


def test_offsets_wrap_where_their_block_begins_if_the_dimension_is_even():
    after = edited(TUTORIAL_MATMUL, "contiguous-offsets")
    assert after.count("tl.max_contiguous(tl.multiple_of(") == 2
    assert "wrapped" in says(after, "contiguous-offsets")
    after = edited(SEEDS["group_conv"], "contiguous-offsets")
    assert "(tl.program_id(0) * BLOCK) % OUT_W + tl.arange(0, BLOCK)" in after


@pytest.mark.parametrize(
    "offsets",
    [
        "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + 1",
        "tl.program_id(0) * BLOCK + 1 + tl.arange(0, BLOCK)",
        "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) * 2",
        "tl.program_id(0) + tl.arange(0, BLOCK)",
        "(BLOCK + 1) * tl.program_id(0) + tl.arange(0, BLOCK)",
    ],
)
def test_a_block_that_begins_unevenly_or_steps_is_not_called_contiguous(offsets):
    text = (
        SEEDS["gelu"]
        .replace("mask=places < N, other=0.0", "")
        .replace("x_ptr + places", f"x_ptr + ({offsets}) % N")
    )
    assert "no block of offsets is wrapped" in says(text, "contiguous-offsets")


def test_a_start_that_means_something_else_by_now_is_not_repeated():
    text = SEEDS["gelu"].replace("x_ptr + places, mask=places < N, other=0.0", "x_ptr + places % N")
    assert "tl.multiple_of(" in edited(text, "contiguous-offsets")
    text = text.replace(
        "    places = tl.program_id(0).to(tl.int64)", "    at = tl.program_id(0)\n    places = at"
    )
    assert "(at * BLOCK) % N + " in edited(text, "contiguous-offsets")
    later = text.replace("    x = tl.load", "    at = at + 1\n    x = tl.load")
    assert "no block of offsets is wrapped" in says(later, "contiguous-offsets")
    shorter = text.replace("    x = tl.load", "    N = N - 1\n    x = tl.load")
    assert "no block of offsets is wrapped" in says(shorter, "contiguous-offsets")


def test_products_change_their_precision_in_either_spelling():
    after = edited(TUTORIAL_MATMUL, "dot-precision", precision="tf32x3")
    assert 'tl.dot(a, b, input_precision="tf32x3")' in after
    after = edited(SEEDS["linear_relu_div"], "dot-precision", precision="tf32")
    assert 'input_precision="tf32")' in after


def test_what_is_read_again_is_kept_until_its_last_pass():
    after = edited(SEEDS["softmax"], "eviction-policy", accesses="rereads", policy="evict_last")
    assert after.count('"evict_last"') == 2
    assert after.count('"evict_first"') == 1


def test_a_cache_modifier_and_an_eviction_policy_exclude_each_other():
    after = edited(SEEDS["gelu"], "eviction-policy", accesses="streamed", policy="evict_first")
    assert "excludes" in says(after, "cache-modifier", accesses="streamed", policy=".cg")


def test_a_persistent_kernel_walks_every_tile_of_the_old_grid():
    after = edited(SEEDS["softmax"], "persistent", programs=264)
    assert "softmax_kernel[(min(264, rows),)]" in after
    assert "num_tiles=rows" in after
    after = edited(SEEDS["gemm"], "persistent", programs=132)
    header = "for pid in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), "
    assert header + "tl.num_programs(0)):" in after


def test_grouped_order_still_counts_tiles_in_a_persistent_kernel():
    grouped = edited(SEEDS["gemm"], "group-order")
    after = edited(grouped, "persistent", programs=132)
    assert "(tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)) // num_n" in after


def test_a_kernel_that_returns_early_is_not_looped():
    text = SEEDS["gelu"].replace("    y = 0.5", "    if N == 0:\n        return\n    y = 0.5")
    assert "returns early" in says(text, "persistent")


def test_a_pointer_that_is_moved_in_place_is_not_looped():
    assert "`x_ptr` is changed on the way" in says(ROW_NORM, "persistent")
    assert "`x_ptr` is changed on the way" in says(ROW_NORM, "rows-per-program")


def test_loads_that_no_iteration_changes_move_in_front():
    text = SEEDS["matvec"].replace(
        "        acc += a * b\n", "        s = tl.load(out_ptr + row)\n        acc += a * b * s\n"
    )
    after = edited(text, "hoist-loads")
    assert "    s = tl.load(out_ptr + row)\n    for start" in after


def test_a_block_is_divided_once():
    after = edited(SEEDS["softmax"], "divide-once")
    assert "tl.exp(x - highest) * (1.0 / total)" in after
