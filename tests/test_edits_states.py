"""Every edit on every shipped state it fits: Python again, another kernel, undone to the byte."""

from functools import cache

import pytest

from workbench.bench.card_states import states_of
from workbench.kernels.edits.base import EditRefused, undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import normalized_sha256, read_source
from workbench.problems.load import load_problem, shipped_problems


@cache
def sources(problem):
    """Of the problem's shipped states, by name. Not made while tests are collected."""
    return {state.name: state.source for state in states_of(load_problem(problem))}


def fitting(source):
    """Each edit that fits with what it makes of the text."""
    for edit in EDITS.values():
        for kernel in read_source(source).launched:
            for anchor in edit.anchors(source, kernel)[:1]:
                try:
                    yield edit.id, edit.apply(source, kernel, anchor.parameters)
                except EditRefused:
                    continue


@pytest.mark.parametrize("problem", shipped_problems())
def test_what_fits_is_changed_and_undone(problem):
    for state, source in sources(problem).items():
        made = list(fitting(source))
        assert made, state
        for edit, done in made:
            assert not read_source(done.source).fault, (state, edit)
            assert normalized_sha256(done.source) != normalized_sha256(source), (state, edit)
            assert undo(done.source, done.undo) == source, (state, edit)


def test_a_descriptors_load_is_bound_to_the_loop_of_its_offsets():
    source = sources("gemm")["tiles from descriptors"]
    (kernel,) = read_source(source).launched
    assert EDITS["hoist-loads"].anchors(source, kernel) == ()
