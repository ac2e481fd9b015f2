"""A part of a long row held on the chip, and loops over tiles merged with the loops inside them."""

import pytest
from edit_kit import edited, says
from kernel_texts import ROW_NORM, SEEDS
from test_edits_suite import outcome, wrong

from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import read_source

ONLINE = edited(SEEDS["softmax"], "online-softmax")
SUMS = (
    SEEDS["layernorm"]
    .replace("tl.zeros([BLOCK], dtype=tl.float32)", "0.0")
    .replace(
        "+= tl.load(x_row + cols, mask=cols < N, other=0.0).to(tl.float32)",
        "+= tl.sum(tl.load(x_row + cols, mask=cols < N, other=0.0).to(tl.float32), axis=0)",
    )
    .replace("mean = tl.sum(total, axis=0) / N", "mean = total / N")
    .replace("squares += centred * centred", "squares += tl.sum(centred * centred, axis=0)")
    .replace("tl.sum(squares, axis=0) / N", "squares / N")
)
"""Layer normalization that sums each block at once."""
CASES = {
    "softmax": (ONLINE, (1500, 1, 128, 129, 260)),
    "layernorm": (SUMS, (1000, 130, 7)),
}
"""Lengths that are held whole, in part, and not at all, with and without a broken last block."""


def test_loops_end_where_the_held_part_begins_and_it_is_loaded_once():
    after = edited(ONLINE, "part-on-chip")
    assert after.count("in range(0, first, BLOCK):") == 2
    assert after.count("in range(0, N, BLOCK):") == 0
    assert after.count("tl.load(x_row + ") == 3
    assert "HELD=max(1, triton.next_power_of_2(n) // 4)" in after


def test_the_last_pass_begins_with_what_is_held_and_may_walk_back():
    after = edited(ONLINE, "part-on-chip", back=True)
    assert after.index("held_y = ") < after.index("for back in range(0, first, BLOCK):")
    assert "        start = first - BLOCK - back\n" in after


def test_a_sum_that_is_carried_on_is_never_walked_back():
    after = edited(SUMS, "part-on-chip", back=True)
    assert after.count("for back in ") == 1
    assert after.count("for start in ") == SUMS.count("for start in ") - 1


def test_a_block_of_sums_that_a_loop_carries_is_refused():
    assert "is a block that the loop" in says(SEEDS["layernorm"], "part-on-chip")


def test_a_value_of_an_iteration_before_is_refused():
    text = ONLINE.replace(
        "        y = tl.exp(x - highest) / total\n",
        "        y = tl.exp(x - highest) / total + shift\n",
    )
    assert "`shift` comes to line" in says(text, "part-on-chip")
    later = ONLINE.rindex("    for start in range")
    text = ONLINE[:later] + "    total = total + shift * 0\n" + ONLINE[later:]
    assert "reads `shift` of the last iteration" in says(text, "part-on-chip")


def test_a_part_is_held_only_once():
    assert "no two loops" in says(edited(ONLINE, "part-on-chip"), "part-on-chip")


@pytest.mark.parametrize("part", [0, 1, 3, 64])
def test_parts_that_are_no_power_of_two_are_refused(part):
    assert "is not 2, 4, 8, 16 or 32" in says(ONLINE, "part-on-chip", part=part)


def test_rows_of_every_length_stay_right(tmp_path):
    jobs = {}
    for name, (text, lengths) in CASES.items():
        kernel = read_source(text).launched[0]
        for cols in lengths:
            for part, back in ((2, True), (4, False), (8, True)):
                chosen = {"part": part, "block": 128, "back": back}
                source = EDITS["part-on-chip"].apply(text, kernel, chosen).source
                values = {"ROWS": 2, "COLS": cols}
                jobs[f"{name} {cols} {chosen}"] = {
                    "problem": name,
                    "source": source,
                    "values": values,
                }
    assert wrong(outcome("interpret", jobs, tmp_path, TRITON_INTERPRET="1")) == {}


def test_a_loop_over_tiles_is_merged_only_with_one_loop_inside():
    after = edited(SEEDS["gemm"], "persistent", programs=132, flatten=True)
    assert "tl.num_programs(0), flatten=True):" in after
    assert "not one loop" in says(SEEDS["softmax"], "persistent", flatten=True)
    assert "carry over" in says(ROW_NORM, "persistent", flatten=True)
