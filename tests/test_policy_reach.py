"""Every row of the decision policy is reached: a profile for each case, a card for each method."""

import pytest
from policy_kit import MATMUL, STREAM, facts

from workbench.skills.library import load_library
from workbench.skills.policy import decide
from workbench.skills.policy_table import shipped_policy

TABLE = shipped_policy()
LARGE = {
    **MATMUL,
    "arg__dot_dtype": "bfloat16",
    "launch__block_elements": 16384,
    "static__uses_async_copies": True,
}
"""A product in 16 bits whose tiles are large enough."""
ROWS = {
    **STREAM,
    "code__reduction_count": 1,
    "code__rereads_input": True,
    "code__loop_count": 2,
    "loop__trip_count": 32,
}
"""Rows that two loops read."""
DRAM = {"profile__bottleneck": "dram", "profile__efficiency": 0.5}
LATENCY = {"profile__bottleneck": "latency"}
SELECTED = {
    "gemm.tf32": {**MATMUL, "problem__precision": "tf32"},
    "gemm.tf32x3": MATMUL,
    "gemm.fp32": {**MATMUL, "problem__precision": None},
    "gemm.tile": {**MATMUL, "arg__dot_dtype": "bfloat16"},
    "gemm.split": {**LARGE, "launch__waves": 0.2, "loop__trip_count": 64},
    "gemm.pipeline": {**LARGE, "static__uses_async_copies": False},
    "gemm.order": {**LARGE, **DRAM},
    "l1.pattern": {**STREAM, "trace__sector_efficiency": 0.3},
    "registers.spill": {**STREAM, "static__spills": 64},
    "registers.occupancy": {
        **STREAM,
        "static__registers": 168,
        "static__limiter": "registers",
        "static__occupancy": 0.25,
    },
    "bytes.reread": {**ROWS, **DRAM},
    "bytes.fuse": {**STREAM, **DRAM, "code__kernel_count": 2},
    "bytes.redundant": {**STREAM, **DRAM, "trace__load_redundancy": 3.0},
    "bytes.sectors": {**STREAM, **DRAM, "trace__sector_efficiency": 0.7},
    "bytes.in-flight": {**STREAM, **DRAM},
    "bytes.floor": {**STREAM, **DRAM, "profile__efficiency": 0.95},
    "launch.fuse": {**STREAM, "code__kernel_count": 3, "profile__bottleneck": "launch"},
    "launch.programs": {**STREAM, "profile__microseconds": 5.0},
    "compute.products": {**LARGE, "profile__bottleneck": "tensor"},
    "compute.special": {**STREAM, "profile__bottleneck": "special"},
    "compute.instructions": {**STREAM, "profile__bottleneck": "integer"},
    "compute.parallel": {**STREAM, "profile__bottleneck": "fp32"},
    "divergence.masks": {**STREAM, "profile__divergent_pct": 20.0, "profile__sm_pct": 20.0},
    "latency.programs": {**STREAM, **LATENCY, "launch__waves": 0.2},
    "latency.reuse": {**ROWS, **LATENCY},
    "latency.prefetch": {**STREAM, **LATENCY, "code__loop_count": 1, "loop__trip_count": 64},
    "latency.occupancy": {**STREAM, **LATENCY},
    "structure.reuse": LARGE,
    "structure.stream": STREAM,
}
"""By case, what a kernel looks like for which it comes first."""
NO_STEP = {"CUDA_Graph_Capture_Replay_StaticBuffers"}
"""Methods that the gate leaves nothing of."""


def test_the_table_of_profiles_has_every_case():
    assert list(SELECTED) == [case.id for case in TABLE.file.case]


@pytest.mark.parametrize("case", SELECTED)
def test_some_profile_selects_a_case_before_all_others(case):
    assert decide(facts(**SELECTED[case]), TABLE).record.case == case


@pytest.mark.parametrize("method", [method.id for method in TABLE.file.method])
def test_a_method_is_opened_by_a_case_and_carried_by_a_card(method, tmp_path):
    assert any(method in case.allow for case in TABLE.file.case)
    belonging = {
        card_id
        for card_id, skill in load_library(tmp_path).skills.items()
        if method in methods(skill)
    }
    assert bool(belonging) == (method not in NO_STEP)


def test_some_case_opens_every_shipped_card(tmp_path):
    opened = {name for case in TABLE.file.case for name in case.allow}
    closed = [i for i, s in load_library(tmp_path).skills.items() if not methods(s) & opened]
    assert closed == []


def methods(skill):
    card = skill.card
    return TABLE.methods_of(card.id, card.carrier.edit, card.provides) | set(card.methods)
