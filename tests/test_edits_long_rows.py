"""Edits of passes over long rows and over channels, on other forms than softmax and rmsnorm."""

import pytest
from edit_kit import edited
from kernel_texts import SEEDS
from test_edits_suite import outcome, wrong

from workbench.kernels.edits.base import undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import read_source

NORM = SEEDS["layernorm2d"]
NAMED = NORM.replace(
    "        total += tl.load(x_image + c * P + pixels, mask=inside, other=0.0).to(tl.float32)\n",
    "        x = tl.load(x_image + c * P + pixels, mask=inside, other=0.0).to(tl.float32)\n"
    "        total = total + x\n",
)
"""The load has a name before it is added."""
LONG_MASK = NORM.replace("mask=inside", "mask=(image >= 0) & inside")
PADDED = NORM.replace("total += tl.load(", "total += 0.0 + tl.load(").replace(
    ".to(tl.float32)\n    mean", ".to(tl.float32) * 1.0\n    mean"
)
"""The load stands inside a larger expression that is added."""
CHANNELS = {"seed": NORM, "named": NAMED, "a mask of two parts": LONG_MASK, "inside": PADDED}

LOSS = SEEDS["cross_entropy"]
LONG_ROWS = {
    "online-softmax": {},
    "part-on-chip": {"part": 4, "block": 128},
    "rows-in-cache": {"programs": 2, "block": 256, "num_warps": 8},
}


def test_a_load_inside_what_a_loop_adds_is_masked_there_and_shared():
    after = edited(NORM, "loop-to-tile", num_warps=8)
    kernel = read_source(after).kernel("layernorm2d_kernel")
    assert kernel.loops == ()
    assert [access.base for access in kernel.loads] == ["x_ptr", "w_ptr", "b_ptr"]
    assert "tl.sum(tl.where(c < C, x, 0.0), axis=0)" in after


@pytest.mark.parametrize("form", CHANNELS)
def test_channels_as_a_tile_are_undone_to_the_byte(form):
    text = CHANNELS[form]
    done = EDITS["loop-to-tile"].apply(text, "layernorm2d_kernel", {"num_warps": 4})
    assert undo(done.source, done.undo) == text


def test_channels_as_a_tile_stay_right(tmp_path):
    jobs = {}
    for form, text in CHANNELS.items():
        after = edited(text, "loop-to-tile")
        for channels in (1, 6, 8, 9):
            values = {"BATCH": 1, "CHANNELS": channels}
            case = {"problem": "layernorm2d", "source": after, "values": values}
            jobs[f"{form}, {channels} channels"] = case
    assert wrong(outcome("interpret", jobs, tmp_path, TRITON_INTERPRET="1")) == {}


def test_losses_over_vocabularies_of_every_length_stay_right_and_are_undone(tmp_path):
    jobs = {}
    for edit, chosen in LONG_ROWS.items():
        done = EDITS[edit].apply(LOSS, "cross_entropy_kernel", chosen)
        assert undo(done.source, done.undo) == LOSS
        for words in (1, 127, 512, 1030):
            values = {"TOKENS": 3, "VOCABULARY": words}
            case = {"problem": "cross_entropy", "source": done.source, "values": values}
            jobs[f"{edit}, {words} words"] = case
    assert wrong(outcome("interpret", jobs, tmp_path, TRITON_INTERPRET="1")) == {}
