"""What a GPU's counters change: the file they come in, the limit, and the policy's answer."""

import msgspec
import pytest
from ncu_kit import PROFILING, SOFTMAX, page
from policy_kit import STREAM, facts

from workbench.engine.counters_file import read_counters
from workbench.errors import WorkbenchError
from workbench.measure.ncu.facts import ncu_facts
from workbench.skills.policy import decide
from workbench.skills.policy_table import shipped_policy

RAW = PROFILING + page(("softmax_kernel", SOFTMAX))


def test_a_raw_page_of_ncu_and_our_own_record_of_it_say_the_same(tmp_path):
    raw, own = tmp_path / "raw.csv", tmp_path / "own.json"
    raw.write_text(RAW)
    first = read_counters(raw)
    own.write_bytes(msgspec.json.encode(first))
    assert read_counters(own) == first
    assert ncu_facts(first, "softmax_kernel")["profile.dram_pct"] > 0


@pytest.mark.parametrize("text", ["", "no table", "{}", '{"state": "profiled"}', "\x00"])
def test_a_file_without_a_launch_says_what_to_give(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(WorkbenchError, match="no launch that can be read") as caught:
        read_counters(tmp_path / "x.csv")
    assert "ncu --csv --page raw" in caught.value.todo


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(WorkbenchError, match="cannot be read"):
        read_counters(tmp_path / "none.csv")


def ruled(**profile):
    return decide(facts(**STREAM, **profile), shipped_policy()).record


def test_counters_decide_where_they_are_and_the_model_where_not():
    modeled = ruled(profile__bottleneck="dram")
    measured = ruled(
        profile__bottleneck="dram",
        profile__limiter_pct=45.0,
        profile__dram_pct=45.0,
        profile__l2_pct=20.0,
        profile__sm_pct=12.0,
        profile__memory_stall_share=0.6,
    )
    assert (modeled.bottleneck, measured.bottleneck) == ("memory_bandwidth", "memory_latency")
    assert "measured" in measured.limit_because
    assert "modeled" in modeled.limit_because
    assert measured.headroom == "high"
    assert {"memory_not_dominant: neither DRAM nor L2 is busy", "memory_stalls"} <= {
        c.says if c.says.startswith("memory_not") else c.says.partition(":")[0]
        for c in measured.predicates
    }


def test_a_hot_l1_under_cold_sms_is_a_signature():
    record = ruled(
        profile__limiter_pct=35.0,
        profile__l1_pct=95.0,
        profile__sm_pct=20.0,
        profile__dram_pct=30.0,
        profile__l2_pct=35.0,
    )
    assert record.bottleneck == "l1_saturated_access_pathology"
    assert record.signature
    assert "95" in str([c.because for c in record.predicates])
