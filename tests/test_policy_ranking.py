"""Which card goes first: cases, levels, evidence, this session's trials, and a person's word."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from cards_kit import twenty_nine_cards
from fact_kit import launch, softmax_launch, softmax_trace, static, tensor
from kernel_texts import SEEDS
from test_proposer import SM90, run, state

from workbench.measure.trust import calibration, why_not_trusted
from workbench.search.expectation import expected_gain
from workbench.search.proposer import NoProposal, Tried, propose
from workbench.search.ranking import had_setback
from workbench.skills.conditions import parse
from workbench.skills.evidence import rows_that_count
from workbench.skills.library import Library
from workbench.skills.policy_table import shipped_policy
from workbench.skills.records import Admission, Effect, EvidenceRow, Risk, Truth

TABLE = shipped_policy()


@pytest.fixture(scope="module")
def library():
    return twenty_nine_cards()


def with_card(library, card_id, **changes):
    """The library with one card changed, or the skill around it."""
    skill = library.skills[card_id]
    around = {k: changes.pop(k) for k in ("origin",) if k in changes}
    card = msgspec.structs.replace(skill.card, **changes)
    new = msgspec.structs.replace(skill, card=card, **around)
    return msgspec.structs.replace(library, skills={**library.skills, card_id: new})


def row(verdict="accepted", before=300.0, after=100.0, family="normalization"):
    return EvidenceRow(
        session="s",
        commit="0" * 40,
        device="NVIDIA H200",
        kind="measured",
        before_us=before,
        after_us=after,
        verdict=verdict,
        family=family,
        target="sm90",
    )


def expected(library, card_id, trials=(), **changes):
    card = with_card(library, card_id, **changes).skills[card_id].card
    return expected_gain(card, TABLE, "normalization", "sm90", trials)


def trial(number, accepted, speed=None):
    return Tried(number=number, parent=0, sha256=str(number), accepted=accepted, speed=speed)


def test_evidence_moves_what_is_expected_towards_what_was_seen(library):
    promised = expected(library, "grow-block", evidence=()).ratio
    better = expected(library, "grow-block", evidence=(row(),) * 4).ratio
    worse = expected(library, "grow-block", evidence=(row("rejected"),) * 4).ratio
    assert worse < promised < better < 3.0


def test_evidence_from_elsewhere_weighs_less(library):
    here = expected(library, "grow-block", evidence=(row(),) * 2).ratio
    elsewhere = expected(library, "grow-block", evidence=(row(family="gemm"),) * 2).ratio
    assert elsewhere < here


def test_a_gate_that_was_unproven_is_no_evidence_against_a_card(library):
    judged = expected(library, "grow-block", evidence=(row(),))
    doubted = expected(library, "grow-block", evidence=(row(), *[row("unproven")] * 5))
    assert doubted == judged
    assert "1 of 1 recorded transitions kept" in doubted.says


@pytest.mark.parametrize(("after", "counts"), [(300.0, 0), (299.9, 0), (290.0, 1)])
def test_a_model_that_does_not_see_the_change_is_no_evidence(after, counts):
    family, target = next(
        (one.family, one.target)
        for one in calibration()
        if not why_not_trusted(one.family, one.target)
    )
    modeled = msgspec.structs.replace(
        row("rejected", after=after, family=family), kind="modeled", target=target
    )
    assert len(rows_that_count([modeled])) == counts


@pytest.mark.parametrize(
    ("trial", "claims", "admitted"),
    [
        ({}, "down", True),
        ({"held_out": False}, "down", False),
        ({"accepted": False}, "down", False),
        ({"effect_observed": False}, "down", False),
        ({"kind": "modeled"}, "down", False),
        ({"kind": "modeled"}, "same", True),
        ({"kind": "modeled", "together": "row-on-chip"}, "same", False),
    ],
)
def test_only_a_held_out_trial_that_shows_what_is_claimed_admits(library, trial, claims, admitted):
    known = {"held_out": True, "accepted": True, "effect_observed": True, "kind": "measured"}
    admission = (Admission(target="gelu on NVIDIA H200", **{**known, **trial}),)
    effect = (Effect(metric="time", direction=claims),)
    card = with_card(library, "grow-block", admission=admission, effect=effect, evidence=())
    assert card.skills["grow-block"].admitted is admitted


def test_each_refusal_here_lowers_what_is_expected_and_a_gain_raises_it(library):
    plain = expected(library, "grow-block", evidence=())
    once = expected(library, "grow-block", [trial(1, False)], evidence=())
    twice = expected(library, "grow-block", [trial(1, False), trial(2, False)], evidence=())
    helped = expected(library, "grow-block", [trial(1, True, 2.0)], evidence=())
    assert 1.0 < twice.ratio < once.ratio < plain.ratio < helped.ratio
    assert "0 of 2 tries here kept" in twice.says


def test_a_refusal_here_says_more_than_one_of_another_session(library):
    elsewhere = expected(library, "grow-block", evidence=(row("rejected"),))
    here = expected(library, "grow-block", [trial(1, False)], evidence=())
    assert here.ratio < elsewhere.ratio


def test_a_card_without_a_promise_is_expected_to_gain_what_the_policy_assumes(library):
    got = expected(library, "hoist-loads", effect=(), evidence=())
    assert got.ratio == TABLE.file.default.gain
    assert "assumed" in got.says


def test_a_card_that_was_timed_and_refused_lets_every_other_card_go_first(library):
    done, _ = run(library, lambda _plan: False, steps=40)
    cards = [p.plan.card for p, _ in done if not any_unknown(p.plan)]
    first_tries = list(dict.fromkeys(cards))
    assert cards[: len(first_tries)] == first_tries
    assert len(cards) > len(first_tries), "then each may try its other values"


def any_unknown(plan):
    return any(c.truth is Truth.UNKNOWN for c in plan.checks)


def test_one_refusal_without_a_time_or_after_a_gain_is_no_setback():
    timed = trial(1, False, 0.9)
    assert had_setback([timed])
    assert not had_setback([])
    assert not had_setback([trial(1, False)])
    assert had_setback([trial(1, False), trial(2, False)])
    assert not had_setback([trial(1, True, 1.5), trial(2, False, 0.9)])
    assert had_setback([trial(1, True, 1.5), trial(2, False, 0.9), trial(3, False)])
    assert not had_setback([timed, trial(2, True, 1.5)])


def attention():
    shape = (8, 32, 512, 1024)
    return launch(
        "attention_kernel",
        (16, 256, 1),
        {name: tensor(*shape) for name in ("q_ptr", "k_ptr", "v_ptr", "out_ptr")},
        constexprs={"BLOCK_M": 32, "BLOCK_N": 32, "D": 1024},
        static=static(registers=255, occupancy=0.06, limiter="registers"),
    )


def test_fp32_attention_is_given_tensor_cores_before_any_launch_option(library):
    known = {
        "text": SEEDS["sdp_attention"],
        "family": "attention",
        "precision": "ieee",
        "launches": (attention(),),
    }
    plan = propose(state(library, **known)).plan
    assert plan.card == "dot-tf32x3"
    assert plan.policy.case == "gemm.tf32x3"
    done, _ = run(library, lambda _plan: True, steps=2, **known)
    assert [p.plan.card for p, _ in done] == ["dot-tf32x3", "tile-attention"]


def test_a_pinned_card_goes_first_where_its_conditions_hold(library):
    pinned = msgspec.structs.replace(library, pinned=frozenset({"evict-streamed", "tile-half"}))
    plan = propose(state(pinned)).plan
    assert plan.card == "evict-streamed"
    assert plan.reason.startswith("pinned by you")


def test_what_the_policy_vetoes_is_closed_unless_a_person_asks_for_it(library):
    trace = softmax_trace(rows=1024, cols=1024, passes=1)
    known = {
        "text": SEEDS["gelu"],
        "launches": (small_gelu(),),
        "traces": (msgspec.structs.replace(trace, kernel="gelu_kernel"),),
        "family": "activation",
    }
    # Data that fits L2 and is read once: no cache trick can help.
    bypass = with_card(library, "bypass-l1", precondition=())
    bypass = without_conditions(bypass, "bypass-l1")
    end = propose(state(only(bypass, "bypass-l1"), **known))
    assert isinstance(end, NoProposal)
    assert any("no-cache-tricks" in line for line in end.trail)
    asked = msgspec.structs.replace(bypass, pinned=frozenset({"bypass-l1"}))
    assert propose(state(only(asked, "bypass-l1"), **known)).plan.card == "bypass-l1"


def small_gelu():
    tensors = {name: tensor(1024, 1024) for name in ("x_ptr", "out_ptr")}
    return launch("gelu_kernel", (4096, 1, 1), tensors, {"n": 1 << 20}, {"BLOCK": 256})


def without_conditions(library, card_id):
    skill = msgspec.structs.replace(library.skills[card_id], preconditions=())
    return msgspec.structs.replace(library, skills={**library.skills, card_id: skill})


def without_risks(library, card_id):
    card = msgspec.structs.replace(library.skills[card_id].card, risk=())
    skill = msgspec.structs.replace(library.skills[card_id], card=card, risks=())
    return msgspec.structs.replace(library, skills={**library.skills, card_id: skill})


def test_a_disabled_card_is_never_chosen_and_the_trail_says_who_did_that(library):
    without = msgspec.structs.replace(library, disabled=frozenset({"online-softmax"}))
    plan = propose(state(without)).plan
    assert plan.card != "online-softmax"
    assert "online-softmax on softmax_kernel: disabled by you" in plan.trail


def only(library, *ids):
    return Library({i: library.skills[i] for i in ids}, library.disabled, library.pinned)


def test_a_card_of_ones_own_is_chosen_unasked_only_once_a_held_out_trial_admits_it(library):
    mine = with_card(library, "online-softmax", origin="user", evidence=(row(),))
    end = propose(state(only(mine, "online-softmax")))
    assert isinstance(end, NoProposal)
    assert any("workbench skills pin online-softmax" in line for line in end.trail)
    asked = msgspec.structs.replace(mine, pinned=frozenset({"online-softmax"}))
    assert propose(state(only(asked, "online-softmax"))).plan.card == "online-softmax"
    trial = Admission(target="softmax", held_out=True, accepted=True, effect_observed=True)
    admitted = with_card(mine, "online-softmax", admission=(trial,))
    assert propose(state(only(admitted, "online-softmax"))).plan.card == "online-softmax"


def test_an_edited_copy_of_a_shipped_card_goes_on_being_chosen(library):
    skill = library.skills["online-softmax"]
    copy = msgspec.structs.replace(skill, origin="user", replaces=skill.path)
    mine = Library({"online-softmax": copy})
    assert propose(state(mine)).plan.card == "online-softmax"


def test_a_shipped_draft_comes_after_what_was_tried_in_its_level_and_says_so(library):
    two = only(library, "loop-stages", "loop-unroll")
    for card in tuple(two.skills):  # a risk that was seen would come before standing
        two = without_risks(two, card)
    for tried, draft in (("loop-stages", "loop-unroll"), ("loop-unroll", "loop-stages")):
        mixed = with_card(two, tried, evidence=(row(after=299.0),))
        mixed = with_card(mixed, draft, evidence=())
        done, _ = run(mixed, lambda _plan: False, steps=9)
        cards = [p.plan.card for p, _ in done]
        assert cards.index(tried) < cards.index(draft)
        reasons = {p.plan.card: p.plan.reason for p, _ in done}
        assert "a draft" in reasons[draft]
        assert "a draft" not in reasons[tried]


def test_the_plan_keeps_the_whole_ruling(library):
    policy = propose(state(library)).plan.policy
    assert policy.case
    assert policy.chosen_by
    assert policy.ranking
    assert set(policy.allowed) <= set(library.skills)
    assert any("expected" in line for line in policy.ranking)
    assert "profile.limiter_pct" in policy.missing


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import msgspec
from fact_kit import softmax_launch, softmax_trace
from test_proposer import run, state
from cards_kit import twenty_nine_cards
library = twenty_nine_cards()
for known in ({{}}, {{"launches": (softmax_launch(cols=4096),)}}, {{"traces": (softmax_trace(),)}}):
    done, end = run(library, lambda plan: len(plan.card) % 2 == 0, steps=6, **known)
    sys.stdout.buffer.write(msgspec.json.encode([p for p, _ in done]) + msgspec.json.encode(end))
"""


def test_the_same_inputs_give_the_same_plans_to_the_byte_whatever_the_hash_seed():
    script = SCRIPT.format(tests=str(Path(__file__).parent))
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(said) == 1
    assert b"policy" in said.pop()


def test_the_order_of_the_cards_at_hand_decides_nothing(library):
    turned = Library(dict(reversed(library.skills.items())))
    for known in ({}, {"launches": (softmax_launch(cols=4096),)}):
        first, second = (propose(state(one, **known)).plan for one in (library, turned))
        assert (first.card, first.parameters) == (second.card, second.parameters)
        assert first.policy == second.policy


def test_a_measured_time_without_parts_is_explained_by_the_model(library):
    from workbench.measure.records import Kind, Time

    time = Time(kind=Kind.MEASURED, microseconds=1500)
    plan = propose(state(library, time=time, traces=(softmax_trace(),))).plan
    assert plan.bottleneck
    assert "modeled" in plan.policy.limit_because
    assert SM90.name == "sm90"


def test_a_thousand_cards_are_ranked_and_a_plan_stays_short(library):
    many = dict(library.skills)
    for number in range(1000 // len(many) + 1):
        for skill in library.skills.values():
            card = msgspec.structs.replace(skill.card, id=f"{skill.card.id}-{number}")
            many[card.id] = msgspec.structs.replace(skill, card=card)
    assert len(many) > 1000
    plan = propose(state(Library(many))).plan
    assert plan.card == propose(state(library)).plan.card
    assert len(plan.policy.ranking) == 20


@pytest.mark.parametrize("at_risk", ["loop-stages", "loop-unroll"])
def test_a_risk_that_was_seen_comes_behind_the_others_of_its_level(library, at_risk):
    two = only(library, "loop-stages", "loop-unroll")
    risk = Risk(says="it loops", when="code.loop_count > 0", seen="a session, v3: 0.7x")
    for name in two.skills:
        own = (risk,) if name == at_risk else ()
        two = with_card(two, name, evidence=(), effect=(), risk=own)
        whens = tuple(parse(one.when) for one in own)
        skill = msgspec.structs.replace(two.skills[name], risks=whens)
        two = msgspec.structs.replace(two, skills={**two.skills, name: skill})
    plan = propose(state(two)).plan
    assert plan.card != at_risk
    assert any("at a risk that was seen" in line for line in plan.policy.ranking)


def test_a_draft_that_was_measured_twice_and_never_kept_must_be_asked_for(library):
    refused = [
        msgspec.structs.replace(row("rejected"), problem=name, commit=name) for name in ("a", "b")
    ]
    one = only(library, "loop-unroll")
    once = with_card(one, "loop-unroll", evidence=tuple(refused[:1]))
    assert propose(state(once)).plan.card == "loop-unroll"
    twice = with_card(one, "loop-unroll", evidence=tuple(refused))
    found = propose(state(twice))
    assert isinstance(found, NoProposal)
    assert any("measured on 2 problems and kept on none" in line for line in found.trail)
    asked = msgspec.structs.replace(twice, pinned=frozenset({"loop-unroll"}))
    assert propose(state(asked)).plan.card == "loop-unroll"
