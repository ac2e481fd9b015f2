"""Every program runs where a sample leaves something open, and only where that takes seconds."""

import pytest
from msgspec import structs

from workbench.gate.correctness.full.looks import FullLook
from workbench.gate.correctness.full.whole import RUN_ALL, whole_look
from workbench.gate.records import Finding
from workbench.kernels.records import LaunchTrace
from workbench.kernels.requests import Traced, TraceRequest

TRACE = LaunchTrace(
    kernel="k",
    grid=(200, 1, 1),
    programs=200,
    sampled=9,
    traffic={},
    masked_fraction=0.0,
    sector_efficiency=1.0,
    dot_flops={},
    vector_flops=0.0,
    special_ops=0.0,
    reduced_elements=0.0,
    atomics=0.0,
    loads=1.0,
)
ASKED = TraceRequest(source="", target="sm90", init=(), inputs=(), **RUN_ALL)


def look(trace=TRACE, *, compared=True, **evidence):
    found = {"elements": 9, "stood_for": 1.0, "blind": False, **evidence}
    return FullLook(says="", evidence=found, traced=Traced(traces=(trace,), compared=compared))


def asked_for_all(first):
    """Whether a look at every program follows."""
    return whole_look(first, lambda _: look(elements=1000), ASKED) is not None


@pytest.mark.parametrize(
    ("first", "follows"),
    [
        (look(), False),
        (look(blind=True), True),
        (look(stood_for=0.99), True),
        (look(compared=False), True),
    ],
)
def test_every_program_runs_where_a_sample_leaves_something_open(first, follows):
    assert asked_for_all(first) is follows


def test_no_more_is_run_where_it_takes_long_or_where_something_was_wrong():
    many = structs.replace(TRACE, programs=10_000_000)
    assert not asked_for_all(look(many, blind=True))
    wrong = Finding(code="correctness.error-above-bound", says="")
    assert not asked_for_all(structs.replace(look(blind=True), findings=(wrong,)))
