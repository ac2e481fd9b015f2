"""The decision policy: what it makes of facts, what it says of them, and what it does not know."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_kit import MATMUL, STREAM, facts

from workbench.errors import WorkbenchError
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.skills.library import load_library
from workbench.skills.policy import decide, told
from workbench.skills.policy_table import PATH, parse_policy, shipped_policy
from workbench.skills.records import Truth

TABLE = shipped_policy()


def ruling(**values):
    return decide(facts(**values), TABLE)


def test_the_table_has_the_papers_bottlenecks_cases_and_methods():
    file = TABLE.file
    assert len({*(b.id for b in file.bottleneck), file.default.bottleneck}) == 9
    assert len(file.case) == 28 + 1, "with one of ours"
    assert sum(m.source == "KernelSkill" for m in file.method) == 24
    assert {c.bottleneck for c in file.case} == {
        *(b.id for b in file.bottleneck),
        file.default.bottleneck,
    }


def test_every_threshold_names_its_source():
    file = TABLE.file
    for rules in (file.structure, file.predicate, file.bottleneck, file.case, file.veto):
        assert all(rule.source.strip() for rule in rules)


def test_every_shipped_card_belongs_to_a_method(tmp_path):
    for card_id, skill in load_library(tmp_path).skills.items():
        card = skill.card
        methods = TABLE.methods_of(card_id, card.carrier.edit, card.provides) | set(card.methods)
        assert methods, card_id


def test_fp32_products_are_told_by_the_code_before_any_profile_is_asked():
    record = ruling(**MATMUL).record
    assert (record.structure, record.bottleneck) == (
        "S1: reuse: products over tiles",
        "gemm_tiling_needed",
    )
    assert record.signature
    assert record.case == "gemm.tf32x3"
    assert "GEMM_Rewrite_CUBLASLT_TF32" in record.allowed_methods
    assert "float32 == float32 -> yes" in str([c.because for c in record.predicates])


def test_a_promise_of_tf32_opens_the_other_case():
    assert ruling(**{**MATMUL, "problem__precision": "tf32"}).record.case == "gemm.tf32"
    assert ruling(**{**MATMUL, "problem__precision": None}).record.case == "gemm.fp32"


def test_a_tile_that_is_large_enough_is_no_signature():
    grown = {**MATMUL, "arg__dot_dtype": "bfloat16", "launch__block_elements": 16384}
    record = ruling(**grown, profile__bottleneck="tensor").record
    assert (record.bottleneck, record.case) == ("compute", "compute.products")


def test_rows_that_are_read_again_are_answered_by_keeping_them():
    row = {**STREAM, "code__reduction_count": 2, "code__rereads_input": True}
    record = ruling(**row, profile__bottleneck="dram", profile__bottleneck_share=0.8).record
    assert record.structure == "S3: reduction or scan"
    assert (record.bottleneck, record.case) == ("memory_bandwidth", "bytes.reread")
    assert record.case_because == "code.rereads_input -> yes"


def test_at_the_roofline_only_small_gains_are_expected_and_they_are_allowed():
    record = ruling(**STREAM, profile__bottleneck="dram", profile__efficiency=0.95).record
    assert (record.headroom, record.case, record.size) == ("low", "bytes.floor", "small")


def test_spills_come_before_bytes():
    spilled = {**STREAM, "static__spills": 64}
    assert ruling(**spilled, profile__bottleneck="dram").record.bottleneck == "register_pressure"


def test_too_few_programs_under_latency_are_answered_by_more():
    few = {**STREAM, "launch__waves": 0.2}
    record = ruling(**few, profile__bottleneck="latency").record
    assert (record.bottleneck, record.case) == ("memory_latency", "latency.programs")


def test_the_cases_that_hold_follow_the_first_one():
    row = {**STREAM, "code__rereads_input": True, "trace__sector_efficiency": 0.7}
    cases = ruling(**row, profile__bottleneck="dram", profile__efficiency=0.5).record.cases
    assert cases == ("bytes.reread", "bytes.sectors", "bytes.in-flight", "bytes.floor")


def test_without_a_profile_it_decides_by_structure_and_says_what_it_could_not_see():
    record = ruling(**STREAM).record
    assert record.limit == "unknown"
    assert (record.bottleneck, record.case) == ("code_structure_fallback", "structure.stream")
    assert {"profile.bottleneck", "profile.microseconds"} <= set(record.missing)
    assert any("headroom unknown: treated as medium" in text for text in record.defaults)
    assert any(line.startswith("could not see") for line in told(record))


def test_with_nothing_known_it_decides_nothing_and_says_so():
    nothing = ruling()
    assert nothing.record.structure == ""
    assert nothing.record.bottleneck == "code_structure_fallback"
    assert all(c.truth is Truth.UNKNOWN for c in nothing.record.predicates)
    assert len(nothing.record.defaults) >= 2


def test_a_veto_closes_a_card_only_when_it_closes_all_its_methods():
    streaming = ruling(**STREAM, arg__bytes=4096, device__l2_bytes=1 << 20)
    assert "no cache tricks" in streaming.veto(frozenset({"Cache_Policy"}))
    assert streaming.veto(frozenset({"Cache_Policy", "Launch_Tuning"})) == ""
    assert streaming.veto(frozenset()) == ""


def test_what_the_first_case_forbids_comes_after_everything_else():
    wasteful = ruling(**{**STREAM, "trace__sector_efficiency": 0.3})
    assert wasteful.record.case == "l1.pattern"
    allowed = wasteful.place(frozenset({"Improve_Coalescing_and_TransactionSize"}))
    other = wasteful.place(frozenset({"MultiKernelScheduling"}))
    forbidden = wasteful.place(frozenset({"Cache_Policy"}))
    assert allowed < other < forbidden


VALUES = {
    "number": st.integers(-3, 200) | st.floats(allow_nan=True, allow_infinity=True),
    "flag": st.booleans(),
    "text": st.sampled_from(["", "dram", "float32", "latency", "odd", "registers"]),
    "names": st.lists(st.text(max_size=3), max_size=2).map(tuple),
}


@given(st.data())
def test_any_facts_give_a_ruling_whose_record_survives_being_written(data):
    names = data.draw(st.lists(st.sampled_from(sorted(CATALOGUE)), max_size=25, unique=True))
    drawn = {n: data.draw(st.none() | VALUES[CATALOGUE[n].type]) for n in names}
    record = decide(facts(**{n.replace(".", "__"): v for n, v in drawn.items()}), TABLE).record
    assert msgspec.json.decode(msgspec.json.encode(record), type=type(record)) == record
    assert record.bottleneck
    assert set(record.missing) <= set(CATALOGUE)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("code.kernel_count > 1", "code.kernels > 1", "the nearest is `code.kernel_count`"),
        ("policy.memory_dominant", "policy.memory_dominating", "`policy.memory_dominating`"),
        ('allow = ["KernelFission"]', 'allow = ["KernelFision"]', "the nearest is 'KernelFission'"),
        ('"split-reduction"', '"split"', "edit 'split' does not exist"),
        ('bottleneck = "compute"', 'bottleneck = "computing"', "the nearest is 'compute'"),
        ('id = "S4"', 'id = "S1"', "two rules of [[structure]] are named 'S1'"),
        ("format = 1", "format = 2", "format"),
        ("signature = true", "signatures = true", "signatures"),
        ("format = 1", "format = 1 1", "not TOML"),
    ],
)
def test_a_wrong_policy_names_the_rule_and_the_nearest_right_word(old, new, says):
    text = PATH.read_text()
    assert old in text
    with pytest.raises(WorkbenchError) as caught:
        parse_policy(text.replace(old, new, 1), PATH)
    assert says in str(caught.value)
    assert str(PATH) in str(caught.value)


def test_a_predicate_may_not_name_what_is_decided_after_it():
    text = PATH.read_text().replace(
        'when = "profile.sm_pct < 40"', 'when = "policy.l1_hot and profile.sm_pct < 40"', 1
    )
    with pytest.raises(WorkbenchError, match="predicate sm_cold"):
        parse_policy(text, PATH)
