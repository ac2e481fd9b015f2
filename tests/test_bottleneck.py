"""A bottleneck is named by the first threshold that is passed, and by nothing that is unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ncu_kit import SOFTMAX, page

from workbench.kernels.facts import read_facts
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.measure.bottleneck import BottleneckClass, Headroom
from workbench.measure.bottleneck_rules import MEASURED, PARTS, UNMEASURED, classify
from workbench.measure.ncu.facts import ncu_facts
from workbench.measure.ncu.parse import parse_raw
from workbench.measure.ncu.records import NcuRecord, NcuState
from workbench.measure.records import Kind


def facts(**known):
    """Facts by their names after the dot's group: `profile__dram_pct=90`."""
    return read_facts("", "k", problem={n.replace("__", "."): v for n, v in known.items()})


CALM = {
    "profile__limiter_pct": 30.0,
    "profile__sm_pct": 30.0,
    "profile__dram_pct": 25.0,
    "profile__l2_pct": 20.0,
    "profile__duration_us": 500.0,
}


@pytest.mark.parametrize(
    ("known", "limit"),
    [
        ({"profile__dram_pct": 91.0, "profile__limiter_pct": 91.0}, BottleneckClass.DRAM),
        ({"profile__l2_pct": 85.0, "profile__limiter_pct": 85.0}, BottleneckClass.L2),
        ({"profile__tensor_pct": 82.0, "profile__limiter_pct": 84.0}, BottleneckClass.TENSOR),
        ({"profile__fma_pct": 75.0, "profile__limiter_pct": 77.0}, BottleneckClass.ARITHMETIC),
        ({"profile__special_pct": 75.0, "profile__limiter_pct": 77.0}, BottleneckClass.SPECIAL),
        ({"profile__l1_pct": 92.0, "profile__limiter_pct": 40.0}, BottleneckClass.L1),
        ({"profile__l1_pct": 92.0, "profile__bank_conflicts": 0.6}, BottleneckClass.BANK_CONFLICTS),
        (
            {"profile__load_sector_use": 0.25, "profile__limiter_pct": 90.0},
            BottleneckClass.UNCOALESCED,
        ),
        ({"profile__duration_us": 4.0}, BottleneckClass.LAUNCH),
        ({"launch__tail": 0.4}, BottleneckClass.TAIL),
        ({"static__spills": 64, "profile__local_bytes": 4096.0}, BottleneckClass.SPILLS),
        (
            {
                "profile__occupancy_possible": 0.25,
                "profile__eligible_warps": 0.3,
                "profile__occupancy_limiter": "registers",
            },
            BottleneckClass.OCCUPANCY,
        ),
        (
            {"profile__memory_stall_share": 0.6, "profile__stall": "long_scoreboard"},
            BottleneckClass.LATENCY,
        ),
        ({}, BottleneckClass.LATENCY),
    ],
)  # fmt: skip
def test_measured_numbers_name_the_class(known, limit):
    found = classify(facts(**{**CALM, **known}))
    assert found.limit is limit
    assert found.kind is Kind.MEASURED
    assert found.evidence[0].limit is limit
    assert all(line.source for line in found.evidence)


def test_a_limit_says_by_what():
    known = {"profile__occupancy_possible": 0.25, "profile__eligible_warps": 0.3}
    found = classify(facts(**CALM, **known, profile__occupancy_limiter="shared"))
    assert found.limiter == "shared"
    assert "by shared" in found.says


def test_waste_is_named_before_the_resource_that_it_wastes_and_the_resource_too():
    known = {
        "profile__load_sector_use": 0.2,
        "profile__dram_pct": 90.0,
        "profile__limiter_pct": 90.0,
    }
    found = classify(facts(**{**CALM, **known}))
    assert (found.limit, found.others[0]) == (BottleneckClass.UNCOALESCED, BottleneckClass.DRAM)


@pytest.mark.parametrize(
    ("percent", "tier"),
    [(59.9, Headroom.HIGH), (60.0, Headroom.MEDIUM), (80.0, Headroom.MEDIUM), (80.1, Headroom.LOW)],
)
def test_headroom_follows_the_busiest_resource(percent, tier):
    assert classify(facts(**{**CALM, "profile__limiter_pct": percent})).headroom is tier


def test_without_counters_the_modeled_time_decides_and_says_so():
    found = classify(facts(profile__bottleneck="special", profile__bottleneck_share=0.4))
    assert (found.limit, found.kind) == (BottleneckClass.SPECIAL, Kind.MODELED)
    assert "40%" in found.says
    assert "profile.limiter_pct" in found.missing


def test_exact_facts_accompany_a_modeled_limit_and_stand_alone_without_one():
    both = classify(facts(profile__bottleneck="fp32", static__spills=16))
    assert (both.limit, both.others) == (BottleneckClass.ARITHMETIC, (BottleneckClass.SPILLS,))
    alone = classify(facts(static__spills=16))
    assert (alone.limit, alone.kind) == (BottleneckClass.SPILLS, Kind.EXACT)


def test_nothing_known_is_unknown_and_names_what_is_missing():
    found = classify(facts())
    assert (found.limit, found.evidence, found.kind) == (BottleneckClass.UNKNOWN, (), None)
    assert found.headroom is Headroom.UNKNOWN
    assert found.missing


def test_a_profile_of_a_memory_bound_kernel_reads_as_one():
    launches = parse_raw(page(("softmax", SOFTMAX))).launches
    record = NcuRecord(state=NcuState.PROFILED, says="", launches=launches)
    found = classify(read_facts("", "softmax", problem=ncu_facts(record, "softmax")))
    assert (found.limit, found.headroom) == (BottleneckClass.DRAM, Headroom.LOW)
    assert found.evidence[0].says().startswith("profile.dram_pct 91.62 % >= 80")


def test_every_rule_is_over_facts_of_the_catalogue():
    for rule in (*MEASURED, *UNMEASURED):
        assert all(test.fact in CATALOGUE for test in rule.tests)
        assert not rule.limiter or rule.limiter in CATALOGUE


NUMBERS = sorted({test.fact for rule in (*MEASURED, *UNMEASURED) for test in rule.tests})


@given(
    st.dictionaries(st.sampled_from(NUMBERS), st.floats(0, 1e6)),
    st.none() | st.sampled_from(sorted(PARTS)),
)
def test_every_line_of_evidence_is_a_known_fact_beyond_its_threshold(known, part):
    found = classify(read_facts("", "k", problem={**known, "profile.bottleneck": part}))
    for line in found.evidence:
        if line.fact == "profile.bottleneck":
            assert line.value == part
            continue
        assert line.value == known[line.fact]
        operation, bound = line.threshold.split()
        holds = {
            ">=": known[line.fact] >= float(bound),
            ">": known[line.fact] > float(bound),
            "<=": known[line.fact] <= float(bound),
            "<": known[line.fact] < float(bound),
        }
        assert holds[operation]
    assert (found.limit is BottleneckClass.UNKNOWN) == (not found.evidence)
    if "profile.limiter_pct" not in known:
        assert found.kind is not Kind.MEASURED
