"""Inverses: what is taken out is gone, what is left still computes, and the edit puts it back."""

from pathlib import Path

import pytest

from workbench.kernels.edits.registry import EDITS
from workbench.kernels.inverses.registry import INVERSES
from workbench.kernels.source import read_source
from workbench.lineage.removals import removable

HERE = Path(__file__).parent
EXPERTS = {path.stem: path.read_text() for path in sorted((HERE / "experts").glob("*.py"))}
HONEST = {path.stem: path.read_text() for path in sorted((HERE / "corpus" / "honest").glob("*.py"))}


def chain(source: str) -> list[tuple[str, str, str]]:
    """(category, text with it, text without it), from the expert down."""
    steps = []
    for _ in range(40):
        found = next(removable(source), None)
        if found is None:
            return steps
        inverse, _, removed = found
        steps.append((inverse.category, source, removed.source))
        source = removed.source
    pytest.fail("taking things out never ends")


@pytest.mark.parametrize("name", EXPERTS)
def test_an_expert_comes_apart_in_at_least_six_mechanisms_and_then_no_more(name):
    steps = chain(EXPERTS[name])
    assert len(steps) >= 6
    assert not list(removable(steps[-1][2]))


@pytest.mark.parametrize("name", EXPERTS)
def test_nothing_taken_out_is_found_again(name):
    categories = [category for category, _, _ in chain(EXPERTS[name])]
    once = [c for c in categories if c != "tile-size"]
    assert len(once) == len(set(once))


@pytest.mark.parametrize("name", EXPERTS | HONEST)
def test_the_edit_puts_back_what_its_inverse_took_out(name):
    """Not always to the letter: but what it puts back, the inverse finds again, the same."""
    text = (EXPERTS | HONEST)[name]
    while (found := next(removable(text), None)) is not None:
        inverse, kernel, removed = found
        assert not read_source(removed.source).fault
        forward = EDITS[inverse.edit].apply(removed.source, kernel, removed.parameters).source
        again = [r for r in inverse.removables(forward, kernel) if r.locus == removed.locus]
        assert [r.parameters for r in again] == [removed.parameters], inverse.category
        text = removed.source


def test_a_group_leaves_no_parameter_behind():
    _, source, _ = next(s for s in chain(EXPERTS["gemm_persistent"]) if s[0] == "grouped-tiles")
    without = next(s[2] for s in chain(EXPERTS["gemm_persistent"]) if s[0] == "grouped-tiles")
    assert "GROUP_M" in source
    assert "GROUP_M" not in without
    assert "span" not in without


def test_a_kernel_without_the_mechanism_has_no_removable():
    plain = """
import triton
import triton.language as tl

@triton.jit
def copy(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)

class ModelNew:
    def forward(self, x, o, n):
        copy[(triton.cdiv(n, 32),)](x, o, n, B=32, num_warps=4, num_stages=1)
"""
    assert list(removable(plain)) == []


def test_every_inverse_names_an_edit_and_no_category_twice():
    categories = [inverse.category for inverse in INVERSES]
    assert len(categories) == len(set(categories))
    assert all(inverse.edit in EDITS for inverse in INVERSES)


def test_two_loops_that_differ_in_an_option_are_left_alone():
    text = EXPERTS["attention_one_pass"].replace(
        "    out = acc / total",
        "    for _ in tl.range(0, 4, num_stages=3):\n        total = total * 1.0\n"
        "    out = acc / total",
    )
    assert "loop-pipeline" not in {inverse.category for inverse, _, _ in removable(text)}
