"""What modeled times are worth: ranks against a recording, and where they must not decide."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.bench.model import (
    RECORDED,
    Recording,
    Variant,
    read_recording,
    table,
    write_recording,
)
from workbench.bench.model_protocol import JOB
from workbench.bench.model_runs import time_here, timed
from workbench.bench.variants import variants
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.judge import JOB_MODULES
from workbench.gate.profile import Profiled, doubted
from workbench.gate.records import Finding, Outcome, Stage, StageReport
from workbench.isolation.workshop import Workshop
from workbench.measure.records import Kind, Speed
from workbench.measure.trust import (
    Judgement,
    agreement,
    calibration,
    gain_told,
    judged,
    spearman,
    why_not_trusted,
)
from workbench.problems.load import load_problem

NAMES = {"problem": "gemm", "family": "gemm"}
ORDERS = st.lists(st.floats(1.0, 1e6), min_size=2, max_size=12, unique=True)


@given(ORDERS)
def test_ranks_know_order_and_nothing_else(times):
    assert spearman(times, [t**3 for t in times]) == pytest.approx(1.0)
    assert spearman(times, [-t for t in times]) == pytest.approx(-1.0)


def test_ties_share_their_rank_and_a_constant_has_none():
    assert spearman([1.0, 2.0, 2.0, 3.0], [1.0, 2.0, 2.0, 3.0]) == pytest.approx(1.0)
    assert spearman([1.0, 1.0], [1.0, 2.0]) is None
    assert spearman([1.0], [1.0]) is None


def test_pairs_within_noise_ask_nothing_of_the_model():
    assert agreement([2.0, 1.0], [100.0, 101.0]) is None
    assert agreement([2.0, 1.0], [100.0, 200.0]) == 0.0


def test_trust_needs_enough_variants_in_the_right_order():
    up, down = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    assert judged(NAMES, "sm90", up, up).trusted
    assert not judged(NAMES, "sm90", down, up).trusted
    assert not judged(NAMES, "sm90", up[:5], up[:5]).trusted


def test_what_was_never_compared_is_not_trusted():
    up = [float(n) for n in range(1, 8)]
    known = [judged(NAMES, "sm90", up, up)]
    assert why_not_trusted("gemm", "sm90", known) == ""
    assert "never compared" in why_not_trusted("gemm", "sm80", known)
    assert "never compared" in why_not_trusted("sort", "sm90", known)
    worse = msgspec.structs.replace(known[0], problem="other", rank=0.3)
    assert "on other" in why_not_trusted("gemm", "sm90", [*known, worse])


def test_the_shipped_judgements_are_those_of_the_shipped_recording():
    rows = [row.judgement for row in table(read_recording(RECORDED))]
    text = msgspec.json.encode(rows)
    assert tuple(msgspec.json.decode(text, type=list[Judgement])) == calibration()


def test_a_recording_reads_back_as_it_was_written(tmp_path):
    recording = read_recording(RECORDED)
    write_recording(tmp_path / "again.json", recording)
    assert read_recording(tmp_path / "again.json") == recording


def test_a_file_that_is_no_recording_is_refused_by_name(tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(WorkbenchError, match="no recording") as told:
        read_recording(tmp_path / "bad.json")
    assert "bad.json" in told.value.where


def test_variants_are_different_deterministic_and_begin_with_the_seed():
    seed = load_problem("softmax").seed.read_text()
    found = variants(seed, 8)
    assert next(iter(found)) == "seed"
    assert len(found) == len(set(found.values())) == 8
    assert variants(seed, 8) == found


def test_only_what_runs_and_is_right_gets_a_time():
    """The whole conversation, rehearsed on the CPU by variants that need no GPU."""
    right = load_problem("top_k").source.replace("class Model(", "class ModelNew(")
    sources = {
        "right": right,
        "wrong": right.replace("torch.topk(x", "torch.topk(-x"),
        "raises": right.replace("return ", "raise RuntimeError; return "),
        "takes the worker with it": right.replace("return ", "import os; os.abort(); return "),
        "no model": "x = 1",
        "right again": right,
    }
    made = tuple(Variant(name=n, problem="top_k", source=s) for n, s in sources.items())
    kept = Variant(name="bare", us=1.0)
    told = []
    with Workshop(preload=(*JOB_MODULES, JOB)) as workshop:
        recording = Recording(target="sm90", variants=(kept, *made))
        after = timed(recording, workshop, "here, today", told.append)
    by_name = {one.name: one for one in after.variants}
    assert [one.name for one in after.variants] == ["bare", *sources]
    assert by_name["bare"] == kept
    assert min(by_name[name].us for name in ("right", "right again")) > 0
    for name in ("wrong", "raises", "takes the worker with it", "no model"):
        assert by_name[name].us is None, name
        assert by_name[name].fault, name
    assert (len(told), after.source) == (len(sources), "here, today")


def modeled(ratio, outcome=Outcome.PASSED, findings=()):
    report = StageReport(
        stage=Stage.PROFILE, outcome=outcome, says=f"{ratio}x its parent", findings=findings
    )
    return Profiled(report=report, speed=Speed(kind=Kind.MODELED, ratio=ratio))


def test_where_the_model_may_not_rank_a_gain_counts_only_beyond_what_it_errs_by():
    least = gain_told("of its own", "sm90")
    near, far = modeled((1.01 + least) / 2), modeled(least * 1.01)
    assert doubted(near, "gemm", "sm90", 1.01) == near
    said = doubted(near, "of its own", "sm90", 1.01).report
    assert said.outcome is Outcome.UNPROVEN
    assert said.findings[0].code == "profile.model-not-trusted"
    assert f"a gain counts above {least:.2f}x" in said.says
    kept = doubted(far, "of its own", "sm90", 1.01).report
    assert kept.outcome is Outcome.PASSED
    assert "modeled, not trusted to rank here" in kept.says
    assert kept.findings[0].evidence["counts_above"] == least
    alone = Profiled(report=near.report)
    assert doubted(alone, "of its own", "sm90", 1.01).report == near.report


def test_a_walk_that_asks_for_no_gain_is_told_of_no_missing_one():
    slower = modeled(0.7)
    assert doubted(slower, "of its own", "sm90", 0.5).report.outcome is Outcome.PASSED


def test_a_familys_own_errors_say_what_gain_is_told():
    near = Judgement(
        problem="a", family="f", target="sm90", variants=9, rank=0.5, agreement=0.5, error=0.1
    )
    far = msgspec.structs.replace(near, problem="b", family="g", error=0.4)
    assert gain_told("f", "sm90", [near, far]) == pytest.approx(1.1)
    assert gain_told("never compared", "sm90", [near, far]) == pytest.approx(1.4)
    assert gain_told("f", "sm80", [near, far]) == pytest.approx(1.1)
    assert gain_told("f", "sm90", []) == float("inf")


def test_a_modeled_loss_refuses_nobody_where_the_model_was_never_shown_to_rank():
    slow = Finding(code="profile.slower", says="0.6x modeled")
    profiled = modeled(0.6, Outcome.FAILED, (slow,))
    assert doubted(profiled, "gemm", "sm90", 1.01) == profiled
    said = doubted(profiled, "of its own", "sm90", 1.01).report
    assert said.outcome is Outcome.UNPROVEN
    assert [one.code for one in said.findings] == ["profile.model-not-trusted", "profile.slower"]


def test_what_another_compiler_made_is_not_timed_here():
    place = Place(device="a GPU", target="sm90", index=0)
    recording = msgspec.structs.replace(read_recording(RECORDED), compiler="triton 1.0, ptxas 1.0")
    with pytest.raises(WorkbenchError, match=r"compiled by triton 1\.0, ptxas 1\.0") as told:
        time_here(recording, place, print)
    assert "--anew" in told.value.todo


def test_the_shipped_recording_says_what_compiled_it():
    assert read_recording(RECORDED).compiler.startswith("triton 3.6.0")
