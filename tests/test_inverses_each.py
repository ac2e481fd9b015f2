"""Each inverse on what its edit made: what comes out is what the edit was given."""

from pathlib import Path

import pytest
from kernel_texts import CONFIGS, SEEDS

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.inverses.registry import INVERSES
from workbench.kernels.source import normalized_sha256, read_source

BY_CATEGORY = {inverse.category: inverse for inverse in INVERSES}
EXACT = [
    *("dropped-masks", "offset-hints", "static-loops", "split-reduction"),
    "warp-specialized",
]
"""Mechanisms that leave no trace: the inverse gives the text before the edit, but for layout."""


GROUND = {
    "warp-specialized": "descriptors",
    "loop-flatten": "persistent",
    "packed-counts": "two-bits-a-look",
}
"""What a mechanism rests on."""


def made(inverse):
    """(seed, kernel, text before, text with the mechanism) wherever the edit fits."""
    edit, ground = EDITS[inverse.edit], EDITS.get(GROUND.get(inverse.category, ""))
    for name, seed in SEEDS.items():
        kernel = read_source(seed).launched[0]
        stands = ground is not None and ground.anchors(seed, kernel)
        text = ground.apply(seed, kernel, {}).source if stands else seed
        for anchor in edit.anchors(text, kernel):
            try:
                edited = edit.apply(text, kernel, anchor.parameters).source
            except EditRefused:
                continue
            yield name, kernel, text, edited


def without(category, text, kernel):
    return BY_CATEGORY[category].removables(text, kernel)


@pytest.mark.parametrize("category", EXACT)
def test_an_inverse_gives_back_what_its_edit_was_given(category):
    tried = 0
    for name, kernel, before, edited in made(BY_CATEGORY[category]):
        assert without(category, before, kernel) == (), name
        found = without(category, edited, kernel)
        assert len(found) == 1, name
        plain = found[0].source.replace("tl.range(0, ", "range(0, ")
        assert normalized_sha256(plain) == normalized_sha256(before), name
        tried += 1
    assert tried


@pytest.mark.parametrize("category", [i.category for i in INVERSES])
def test_what_an_edit_made_comes_out_and_goes_back_in(category):
    """The removal is of what was put in: put back, it is found with the same parameters."""
    inverse, tried = BY_CATEGORY[category], 0
    for name, kernel, _, edited in made(inverse):
        for found in without(category, edited, kernel):
            forward = EDITS[inverse.edit].apply(found.source, kernel, found.parameters).source
            again = [r for r in without(category, forward, kernel) if r.locus == found.locus]
            assert [r.parameters for r in again] == [found.parameters], name
            tried += 1
    # These are in experts alone: test_rewrites takes them out.
    experts_alone = {"block-inverse", "doubled-inverse", "square-tiles", "prefix-scan"}
    assert tried or category in {"hoisted-loads", "pipelined-loads", "warps"} | experts_alone


# Masks.


def test_masks_that_were_never_written_are_put_at_the_ends_that_parameters_name():
    text = SEEDS["gemm"]
    for masked in (", mask=x_mask, other=0.0", ", mask=w_mask, other=0.0", ", mask=out_mask"):
        assert masked in text
        text = text.replace(masked, "")
    found = without("dropped-masks", text, "gemm_kernel")
    assert len(found) == 1
    # The grid is one axis of tiles, so that only the loop's dimension is known.
    assert "mask=ks[None, :] < K, other=0.0" in found[0].source
    assert "mask=ks[:, None] < K, other=0.0" in found[0].source
    assert "tl.store(out, acc.to(out_ptr.dtype.element_ty))" in found[0].source


def test_a_grid_that_counts_blocks_of_a_parameter_names_the_end():
    text = (
        SEEDS["gelu"].replace(", mask=places < N, other=0.0", "").replace(", mask=places < N", "")
    )
    found = without("dropped-masks", text, "gelu_kernel")
    assert "tl.load(x_ptr + places, mask=places < N, other=0.0)" in found[0].source
    assert "mask=places < N)" in found[0].source.split("tl.store")[1]


def test_an_extent_that_covers_a_dimension_alone_needs_no_mask():
    assert without("dropped-masks", SEEDS["sdp_attention"], "attention_kernel") == ()


# Loads.


def test_a_load_that_one_loop_reads_goes_into_it_and_one_that_two_read_stays():
    text = SEEDS["sdp_attention"]
    found = without("hoisted-loads", text, "attention_kernel")
    assert "    for start in range(0, L, BLOCK_N):\n        q = tl.load(" in found[0].source
    both = text.replace("    out = (acc / total", "    acc += q\n    out = (acc / total")
    assert without("hoisted-loads", both, "attention_kernel") == ()


# Shares.


def test_an_autotuner_leaves_its_first_configuration():
    found = without("autotuned-options", CONFIGS, "add")
    assert "@triton.autotune" not in found[0].source
    assert "BLOCK=256, num_warps=4, num_stages=2" in found[0].source


def test_rows_of_a_program_leave_no_parameter_behind():
    edited = EDITS["rows-per-program"].apply(SEEDS["gelu"], "gelu_kernel", {"rows": 4}).source
    assert "ROWS" in edited
    found = without("rows-per-program", edited, "gelu_kernel")
    assert "ROWS" not in found[0].source
    assert found[0].parameters == {"rows": 4}


# Forms of the wild.

TUNED = """
@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 64, "GROUP": 8, "BLOCK_N": 64}, num_warps=8),
        triton.Config({"BLOCK_M": 128, "GROUP": 8, "BLOCK_N": 64}, num_warps=8),
    ],
    key=["M"],
)
"""
ATTENTION = SEEDS["sdp_attention"]


def test_a_group_leaves_the_configurations_of_an_autotuner_too():
    expert = Path(__file__).parent / "experts" / "gemm_persistent.py"
    text = expert.read_text()
    text = text.replace("GROUP_M", "GROUP").replace(
        "@triton.jit", TUNED.strip() + "\n@triton.jit", 1
    )
    text = "\n".join(line for line in text.splitlines() if "GROUP=" not in line)
    found = without("grouped-tiles", text, "gemm_kernel")
    assert [one.parameters for one in found] == [{"group": 8}]
    assert "GROUP" not in found[0].source
    assert '{"BLOCK_M": 128, "BLOCK_N": 64}' in found[0].source


@pytest.mark.parametrize(
    "made",
    [
        "to_base_2 = scale * 1.44269504",
        "to_base_2 = 1.44269504 * scale",
        "to_base_2 = scale\n    to_base_2 *= 1.44269504",
        "scale *= 1.44269504",
        "scale = scale * 1.44269504",
    ],
)
def test_a_scale_of_the_base_2_is_found_however_it_is_written(made):
    two = EDITS["base-two"].apply(ATTENTION, "attention_kernel", {}).source
    line = next(one for one in two.splitlines() if "1.44269504" in one).strip()
    text = two.replace(line, made)
    if made.startswith("scale"):
        text = text.replace("to_base_2", "scale")
    (found,) = without("base-two", text, "attention_kernel")
    assert normalized_sha256(found.source) == normalized_sha256(ATTENTION)
    other = text.replace("1.44269504", "1.5")
    assert without("base-two", other, "attention_kernel") == ()


def test_a_loop_with_products_is_told_to_have_one_stage_where_the_launch_has_more():
    """Without its own number it would have the launch's: nothing would be taken out."""
    staged = EDITS["loop-stages"].apply(ATTENTION, "attention_kernel", {"value": 4}).source
    (found,) = without("loop-pipeline", staged, "attention_kernel")
    assert "num_stages=1" in found.source
    assert found.parameters == {"value": 4}
    assert (
        EDITS["loop-stages"].apply(found.source, "attention_kernel", {"value": 4}).source == staged
    )
    assert without("loop-pipeline", found.source, "attention_kernel") == ()


def test_two_passes_up_to_a_diagonal_become_one_and_come_apart_again():
    last = "last = tl.minimum((tl.program_id(0) + 1) * BLOCK_M, L)"
    loop = "    for start in range(0, L, BLOCK_N):"
    header = loop.replace(" L,", " last,")
    (found,) = without(
        "one-pass-softmax", ATTENTION.replace(loop, f"    {last}\n{header}"), "attention_kernel"
    )
    assert found.source.count(header) == 2
    before, between, after = found.source.split(header)
    changed = header.join([before, f"{between}    last = last + 0\n", after])
    with pytest.raises(EditRefused, match="do not walk the same dimension"):
        EDITS["online-softmax"].apply(changed, "attention_kernel", {})
