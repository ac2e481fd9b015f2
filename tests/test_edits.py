"""Edits as text: what they change, what they refuse, and that undo gives every byte back."""

import ast
import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_texts import (
    ALIASED,
    CONFIGS,
    EVERY,
    LITERALS,
    ROW_NORM,
    SEEDS,
    SHARED_CONSTANT,
    STRANGE,
    TABBED,
    TUTORIAL_MATMUL,
)

from workbench.errors import WorkbenchError
from workbench.kernels.edits.base import EditRefused, Undo, undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts import read_facts
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.kernels.source import normalized_sha256, read_source


def edited(text, edit, kernel="", **parameters):
    return EDITS[edit].apply(text, kernel or read_source(text).launched[0], parameters).source


def says(text, edit, kernel="", **parameters):
    with pytest.raises(EditRefused) as caught:
        edited(text, edit, kernel, **parameters)
    return caught.value.why


def changed(before, after):
    """The lines of each that the other does not have."""
    old, new = before.splitlines(), after.splitlines()
    return [x.strip() for x in old if x not in new], [x.strip() for x in new if x not in old]


def choices(text, kernel):
    """Every edit at every anchor with every value of its grid."""
    for edit in EDITS.values():
        for anchor in edit.anchors(text, kernel):
            open_ones = [p for p in edit.parameters if p.name not in anchor.parameters]
            yield edit, anchor.parameters
            for parameter in open_ones:
                for value in parameter.grid:
                    yield edit, {**anchor.parameters, parameter.name: value}


# Undo.


@pytest.mark.parametrize("name", EVERY)
def test_every_edit_parses_changes_something_and_undoes_to_the_byte(name):
    text = EVERY[name]
    done = 0
    for kernel in read_source(text).launched:
        for edit, parameters in choices(text, kernel):
            try:
                applied = edit.apply(text, kernel, parameters)
            except EditRefused:
                continue
            done += 1
            ast.parse(applied.source)
            assert normalized_sha256(applied.source) != normalized_sha256(text)
            assert undo(applied.source, applied.undo) == text
    assert done >= (0 if name == "literals" else 3)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_composition_undone_in_reverse_gives_the_original_bytes(data):
    original = data.draw(st.sampled_from(sorted(EVERY.items())), label="candidate")[1]
    text, ways_back = original, []
    for _ in range(data.draw(st.integers(1, 5), label="edits")):
        kernel = data.draw(st.sampled_from(read_source(text).launched))
        edit = EDITS[data.draw(st.sampled_from(sorted(EDITS)), label="edit")]
        anchors = edit.anchors(text, kernel)
        if not anchors:
            continue
        parameters = dict(data.draw(st.sampled_from(anchors)).parameters)
        for parameter in edit.parameters:
            if parameter.grid and parameter.name not in parameters:
                parameters[parameter.name] = data.draw(st.sampled_from(parameter.grid))
        try:
            applied = edit.apply(text, kernel, parameters)
        except EditRefused:
            continue
        ast.parse(applied.source)
        text = applied.source
        ways_back.append(applied.undo)
    for way_back in reversed(ways_back):
        text = undo(text, way_back)
    assert text == original


def test_an_undo_can_be_stored_as_json():
    applied = EDITS["row-on-chip"].apply(SEEDS["softmax"], "softmax_kernel", {})
    stored = json.dumps(msgspec.to_builtins(applied.undo))
    way_back = msgspec.convert(json.loads(stored), Undo)
    assert undo(applied.source, way_back) == SEEDS["softmax"]


def test_an_undo_fits_no_other_text():
    applied = EDITS["num-warps"].apply(SEEDS["softmax"], "softmax_kernel", {"value": 8})
    with pytest.raises(EditRefused, match="has changed since"):
        undo(applied.source + "\n", applied.undo)


def test_tabs_and_line_ends_of_the_file_are_kept():
    after = edited(TABBED, "online-softmax")
    assert "größtes" in after
    assert after.count("\n") == after.count("\r\n")
    assert "\r\n\t\tshift = " in after


# Values where they are written.


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


# Algorithms.


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


def test_offsets_are_unwrapped_only_where_the_grid_covers_the_dimension():
    after = edited(TUTORIAL_MATMUL, "contiguous-offsets")
    assert after.count("tl.max_contiguous(tl.multiple_of(") == 2
    assert "does not cover" in says(SEEDS["group_conv"], "contiguous-offsets")


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


# Requests that make no sense.


def test_unknown_parameters_and_wrong_kinds_are_told():
    with pytest.raises(WorkbenchError, match="has no parameter `warps`"):
        edited(SEEDS["gelu"], "num-warps", warps=8)
    with pytest.raises(WorkbenchError, match="wants a whole number"):
        edited(SEEDS["gelu"], "num-warps", value="8")
    with pytest.raises(WorkbenchError, match="wants a whole number"):
        edited(SEEDS["gelu"], "num-warps", value=True)


def test_a_kernel_that_is_not_there_is_refused():
    assert "no kernel `nobody`" in says(SEEDS["gelu"], "num-warps", "nobody", value=8)
    assert EDITS["num-warps"].anchors(SEEDS["gelu"], "nobody") == ()


def test_an_edit_that_changes_nothing_is_refused():
    assert "changes nothing" in says(SEEDS["gelu"], "num-warps", value=4)


@pytest.mark.parametrize("name", STRANGE)
def test_strange_files_are_refused_without_an_error(name):
    text = STRANGE[name]
    for kernel in [*(k.name for k in read_source(text).kernels), "k"]:
        for edit in EDITS.values():
            anchors = edit.anchors(text, kernel)
            assert anchors or edit.refusal(text, kernel)
            for anchor in anchors:
                try:
                    applied = edit.apply(text, kernel, anchor.parameters)
                except EditRefused:
                    continue
                assert undo(applied.source, applied.undo) == text


TOKENS = ["tl.load", "N", "BLOCK", "0", "range", "None", "[:, None]", "*a", "**k", "(1,)", "self.x"]


@st.composite
def damaged(draw):
    """A candidate with lines lost, doubled or swapped and words replaced, that is still Python."""
    lines = draw(st.sampled_from(sorted(EVERY.values()))).split("\n")
    for _ in range(draw(st.integers(1, 3))):
        i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match draw(st.integers(0, 3)):
            case 0:
                lines[i] = ""
            case 1:
                lines.insert(i, lines[j])
            case 2:
                lines[i], lines[j] = lines[j], lines[i]
            case _:
                words = re.findall(r"\w+|\s+|[^\w\s]", lines[i]) or [""]
                place = draw(st.integers(0, len(words) - 1))
                words[place] = draw(st.sampled_from(TOKENS))
                lines[i] = "".join(words)
    return "\n".join(lines)


@settings(deadline=None, max_examples=60)
@given(damaged())
def test_a_damaged_file_is_read_edited_or_refused_without_an_error(text):
    source = read_source(text)
    for kernel in source.kernels:
        assert list(read_facts(text, kernel.name)) == list(CATALOGUE)
        for edit in EDITS.values():
            for anchor in edit.anchors(text, kernel.name)[:1]:
                try:
                    applied = edit.apply(text, kernel.name, anchor.parameters)
                except EditRefused:
                    continue
                assert undo(applied.source, applied.undo) == text
