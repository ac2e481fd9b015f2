"""Edits that set a value: at the place that feeds it, in the file's own form, or not at all."""

import pytest
from edit_kit import changed, edited, says
from kernel_texts import ALIASED, CONFIGS, LITERALS, SEEDS, SHARED_CONSTANT, TUTORIAL_MATMUL

from workbench.kernels.edits.registry import EDITS


def test_a_block_is_set_at_the_name_that_feeds_launch_and_grid():
    after = edited(ALIASED, "block-size", block="B", value=1024)
    assert changed(ALIASED, after) == (
        ["ROWS_BLOCK = 512  # fed by name"],
        ["ROWS_BLOCK = 1024  # fed by name"],
    )


def test_a_block_is_set_at_every_place_that_feeds_it():
    after = edited(SHARED_CONSTANT, "block-size", "double", block="BLOCK", value=2048)
    assert changed(SHARED_CONSTANT, after) == (
        ["BLOCK = 256", "def run(kernel_input, block=128):"],
        ["BLOCK = 2048", "def run(kernel_input, block=2048):"],
    )


def test_a_block_left_to_its_default_is_set_in_the_signature():
    after = edited(SHARED_CONSTANT, "block-size", "bump", block="BLOCK", value=512)
    assert changed(SHARED_CONSTANT, after) == (
        ["def bump(x, y, n, BLOCK: tl.constexpr = 64):"],
        ["def bump(x, y, n, BLOCK: tl.constexpr = 512):"],
    )


def test_a_block_of_configurations_is_set_in_each():
    after = edited(CONFIGS, "block-size", block="BLOCK", value=512)
    assert after.count('"BLOCK": 512') == 1
    assert after.count("BLOCK=512") == 1


def test_blocks_kept_on_self_and_on_the_class_are_followed():
    after = edited(TUTORIAL_MATMUL, "tile", tile="128x64x64", num_warps=8)
    assert "BLOCK_K = 64" in after
    assert "self.block_m = 128" in after
    assert "self.block_n: int = 64" in after
    assert "num_warps=8,\n        )" in after


def test_a_value_that_the_grid_repeats_is_not_changed_alone():
    assert "repeats the value" in says(LITERALS, "block-size", block="BLOCK", value=256)


def test_an_extent_that_covers_a_dimension_alone_is_not_resized():
    text = SEEDS["sdp_attention"].replace("HEAD_DIM=head_dim", "HEAD_DIM=64")
    assert "covers a dimension alone" in says(text, "block-size", block="HEAD_DIM", value=32)


def test_a_block_computed_from_the_shape_is_not_overwritten():
    text = edited(SEEDS["softmax"], "row-on-chip")
    assert "BLOCK=triton.next_power_of_2(n)" in text
    assert EDITS["block-size"].anchors(text, "softmax_kernel") == ()


def test_a_name_set_in_two_places_is_refused():
    text = SHARED_CONSTANT.replace(
        "    n = kernel_input.numel()\n", "    n = kernel_input.numel()\n    block = 2 * block\n"
    )
    assert says(text, "block-size", "double", block="BLOCK", value=64)


@pytest.mark.parametrize("value", [0, -4, 3, 100, 1 << 20])
def test_a_block_that_is_no_power_of_two_is_refused(value):
    assert "power of two" in says(SEEDS["gelu"], "block-size", block="BLOCK", value=value)


def test_warps_are_set_where_stated_and_added_where_not():
    after = edited(SHARED_CONSTANT, "num-warps", "double", value=8)
    assert after.count("num_warps=8") == 2
    after = edited(SHARED_CONSTANT, "num-warps", "bump", value=8)
    assert "(z, w, n, num_warps=8)" in after
    after = edited(CONFIGS, "num-warps", value=2)
    assert after.count("num_warps=2") == 2


def test_a_trailing_comma_and_one_argument_a_line_are_kept():
    after = edited(SEEDS["group_conv"], "num-stages", value=4)
    assert "            num_warps=4,\n            num_stages=4,\n        )" in after
