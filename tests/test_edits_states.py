"""Every edit on every shipped state it fits: Python again, another kernel, undone to the byte."""

import pytest

from workbench.bench.card_states import states_of
from workbench.kernels.edits.base import EditRefused, undo
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import normalized_sha256, read_source
from workbench.problems.load import load_problem, shipped_problems

STATES = {
    f"{name}, {state.name}": state.source
    for name in shipped_problems()
    for state in states_of(load_problem(name))
}


@pytest.mark.parametrize("state", STATES)
def test_what_fits_is_changed_and_undone(state):
    source = STATES[state]
    for edit in EDITS.values():
        for kernel in read_source(source).launched:
            for anchor in edit.anchors(source, kernel)[:1]:
                try:
                    done = edit.apply(source, kernel, anchor.parameters)
                except EditRefused:
                    continue
                assert not read_source(done.source).fault
                assert normalized_sha256(done.source) != normalized_sha256(source)
                assert undo(done.source, done.undo) == source, edit.id


def test_a_descriptors_load_is_bound_to_the_loop_of_its_offsets():
    source = STATES["gemm, tiles from descriptors"]
    (kernel,) = read_source(source).launched
    assert EDITS["hoist-loads"].anchors(source, kernel) == ()
