"""Forms of a computation written for one another, and the five shipped experts taken apart."""

import pytest

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import normalized_sha256, read_source
from workbench.lineage.removals import removable
from workbench.problems.load import load_problem

MECHANISMS = {
    "gemm": {"loop-flatten", "persistent-programs", "grouped-tiles", "tensor-descriptors"},
    "fmha": {"tensor-descriptors", "even-values", "base-two", "one-pass-softmax"},
    "conv2d": {"fused-loops", "square-tiles", "pipelined-loads", "tile-size"},
    "gdn": {"prefix-scan", "block-inverse", "pipelined-loads", "tile-size"},
    "top_k_unsorted": {"early-exit", "packed-counts", "two-bits-a-look", "packed-scans", "warps"},
}
"""What must come out of each."""
LOOKS = """
import triton
import triton.language as tl


@triton.jit
def look(x, o, n, k, B: tl.constexpr):
    i = tl.arange(0, B)
    keys = tl.load(x + i, mask=i < n, other=0)
    t = tl.zeros([], dtype=tl.uint32)
    for b in range(31, -1, -1):
        {first}
        # how many keys reach it
        c = tl.sum((keys >= g).to(tl.int32), axis=0)
        t = tl.where(c >= k + 1, g, t)
    tl.store(o, {last})


class ModelNew:
    def forward(self, x, o, n, k):
        look[(1,)](x, o, n, k, B=1024)
"""


def expert(name):
    return load_problem(name).expert.read_text()


def seed(name):
    return load_problem(name).seed.read_text()


def chain(source):
    """(inverse, kernel, removed, state) until nothing is left."""
    while (found := next(removable(source), None)) is not None:
        yield *found, source
        source = found[2].source


def looks(first="g = t | (tl.full([], 1, tl.uint32) << b)", last="t"):
    return LOOKS.format(first=first, last=last)


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_makes_an_expert_one_comes_out_and_goes_back_in(name):
    steps = list(chain(expert(name)))
    assert {inverse.category for inverse, _, _, _ in steps} >= MECHANISMS[name]
    for inverse, kernel, found, _ in steps:
        forward = EDITS[inverse.edit].apply(found.source, kernel, found.parameters).source
        again = [r for r in inverse.removables(forward, kernel) if r.locus == found.locus]
        assert [r.parameters for r in again] == [found.parameters], inverse.category


@pytest.mark.parametrize("name", ["conv2d", "gdn", "top_k_unsorted"])
def test_a_rewritten_form_comes_back_as_the_expert_wrote_it(name):
    for inverse, kernel, found, state in chain(expert(name)):
        forward = EDITS[inverse.edit].apply(found.source, kernel, found.parameters).source
        assert normalized_sha256(forward) == normalized_sha256(state), inverse.category


def test_a_form_is_found_under_other_names_and_keeps_what_is_not_its():
    after = EDITS["two-bits-a-look"].apply(looks(), "look", {}).source
    assert "for b in range(30, -1, -2):" in after
    assert "third = tl.sum((keys >= three).to(tl.int32), axis=0)" in after
    assert "t = tl.where(count >= (k + 1), better, t)" in after.replace("c >=", "count >=")
    early = EDITS["stop-when-settled"].apply(looks(), "look", {}).source
    assert "# how many keys reach it" in early
    assert "b = tl.where(c == (k + 1), -1, b - 1)" in early


def test_a_form_that_differs_in_a_number_or_whose_name_is_read_later_is_left_alone():
    other = looks(first="g = t | (tl.full([], 2, tl.uint32) << b)")
    assert EDITS["two-bits-a-look"].anchors(other, "look") == ()
    with pytest.raises(EditRefused, match="reads `g`, which would be gone"):
        EDITS["two-bits-a-look"].apply(looks(last="g"), "look", {})


def test_two_loops_become_one_with_what_stands_around_the_inner_one():
    after = EDITS["fuse-loops"].apply(seed("conv2d"), "conv_kernel", {}).source
    assert "depth = tl.cdiv(C, BLOCK_K)" in after
    assert "for step in range((KERNEL * KERNEL) * depth):" in after
    assert "channels = step % depth * BLOCK_K + tl.arange(0, BLOCK_K)" in after
    assert len(read_source(after).kernel("conv_kernel").loops) == 1


SCAN = """
import triton
import triton.language as tl


@triton.jit
def scan(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    values = tl.load(x + i, mask=i < n, other=0.0)
    sums = tl.cumsum(values, axis=0)
    tl.store(o + i, {last}, mask=i < n)


class ModelNew:
    def forward(self, x, o, n):
        scan[(1,)](x, o, n, B=256)
"""


def scans(text):
    return [found for inverse, _, found in removable(text) if inverse.category == "prefix-scan"]


def test_prefix_sums_come_out_all_at_once_and_go_back_in_as_they_were():
    for last in ("sums", "sums + tl.cumsum(values * values, axis=0)"):
        text = SCAN.format(last=last)
        (found,) = scans(text)
        assert "sums = tl.zeros_like(values)\n    for i2 in range(B):" in found.source
        back = EDITS["scan-prefixes"].apply(found.source, "scan", {}).source
        assert normalized_sha256(back) == normalized_sha256(text)
    two = SCAN.format(last="sums").replace(
        "    tl.store", "    more = tl.cumsum(sums, axis=0)\n    tl.store"
    )
    (found,) = scans(two)
    assert "cumsum" not in found.source
    back = EDITS["scan-prefixes"].apply(found.source, "scan", {}).source
    assert normalized_sha256(back) == normalized_sha256(two)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mask=i < n, other=0.0)", "mask=i < n, other=0.0) + tl.arange(0, 2 * B)"),
        ("B=256", "B=4096"),
        ("B=256", "B=n"),
    ],
)
def test_prefixes_of_what_no_single_short_range_counts_stay_a_scan(old, new):
    text = SCAN.format(last="sums")
    assert old in text
    assert scans(text.replace(old, new)) == []


def test_exponents_with_a_part_that_is_not_scaled_stay_to_the_base_e():
    text = seed("fmha")
    assert "exp2(scores" in EDITS["base-two"].apply(text, "attention_kernel", {}).source
    added = text.replace("tl.exp(scores -", "tl.exp(scores + 1.0 -")
    assert EDITS["base-two"].anchors(added, "attention_kernel") == ()


def test_values_are_replaced_only_where_a_block_ends_beyond_its_dimension():
    text = seed("sdp_attention")
    after = EDITS["even-values"].apply(text, "attention_kernel", {}).source
    assert 'args["L"] % args["BLOCK_N"] == 0' in after
    assert after.count("if not EVEN_L:") == 1
    (found,) = [r for inverse, _, r in removable(after) if inverse.category == "even-values"]
    assert normalized_sha256(found.source) == normalized_sha256(text)


def test_a_kernel_without_loops_that_load_has_no_pipeline_to_take_out():
    assert "pipelined-loads" not in {i.category for i, _, _ in removable(expert("top_k_unsorted"))}
