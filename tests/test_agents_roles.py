"""The roles: what they are told, what they may answer, and what is handed back."""

import pytest
from agents_kit import (
    SEED,
    bad,
    diagnosis,
    model_plan,
    plan_reply,
    refused,
    said,
    shown,
    situation,
    transition,
)
from msgspec import structs

from workbench.agents.memory import REPAIRS, chain, remember
from workbench.agents.prompts import DoesNotFit, fill, template_of
from workbench.agents.records import Role
from workbench.agents.reply_records import HandedBack
from workbench.agents.roles import diagnoser, generator, optimizer, planner, repairer
from workbench.agents.roles.features import facts_text
from workbench.agents.roles.reviewer import LOG_LIMIT, cleaned, review, shortened
from workbench.agents.roles.slots import situation_slots
from workbench.gate.records import Blame, Stage
from workbench.session.records import Answer
from workbench.skills.records import Plan

ROOM = 60_000


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    return situation(tmp_path_factory.mktemp("cards"))


def text_of(prompt) -> str:
    return "\n".join(m.content for m in prompt.messages)


# -- planner ------------------------------------------------------------------------------------


def test_a_plan_that_cites_what_is_there_is_taken(now):
    plan = planner.read(plan_reply(now), now)
    assert isinstance(plan, Plan)
    assert plan.method == now.allowed[0].id
    assert plan.policy is not None
    assert plan.checks
    assert "launch." in plan.reason
    assert "not divergence" in plan.reason


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"skill": "tile-half"}, "not allowed"),
        ({"skill": "rewrite-everything"}, "not allowed"),
        ({"kernel": "other"}, "no kernel 'other'"),
        ({"bottleneck": "magic"}, "none of"),
        ({"evidence": []}, "at least one"),
        ({"evidence": [{"fact": "profile.warp_stalls", "value": 3}]}, "no known fact"),
        ({"evidence": [{"fact": "launch.num_warps", "value": 8}]}, "launch.num_warps is 4, not 8"),
        ({"evidence": [{"fact": "code.has_mask", "value": True}]}, "at least one number"),
        ({"modification": "faster"}, "does not say"),
        ({"expected": [{"metric": "time", "direction": "down"}]}, "two different metrics"),
        ({"expected": [{"metric": "time", "direction": "sideways"}]}, "does not fit the form"),
        ({"ruled_out": {"bottleneck": "divergence", "fact": "x", "value": 1}}, "no known fact 'x'"),
    ],
)
def test_a_claim_that_is_not_in_the_profile_is_handed_back_with_what_is_wrong(now, changes, wrong):
    found = planner.read(plan_reply(now, **changes), now)
    assert isinstance(found, HandedBack)
    assert wrong in found.reason


def test_a_bottleneck_cannot_be_claimed_and_ruled_out(now):
    bottleneck = now.considered[0].record.bottleneck
    fact = {"fact": "launch.num_warps", "value": 4, "bottleneck": bottleneck}
    found = planner.read(plan_reply(now, ruled_out=fact), now)
    assert "at once" in found.reason


def test_values_agree_to_the_digits_that_were_shown(now):
    for name, value in now.facts("softmax_kernel").items():
        assert planner.agrees(shown(value), value), name
    assert not planner.agrees(0.5, 0.51)
    assert not planner.agrees("many", 4)
    assert not planner.agrees(1, True)


def test_all_facts_with_values_are_in_the_prompt_and_no_other_numbers_are_citable(now):
    text = text_of(planner.prompt(now, ROOM))
    for name in now.facts("softmax_kernel"):
        if not name.startswith(("history.", "anchor.")):
            assert f"{name} = " in text
    assert facts_text(now) in text


def test_every_skill_on_offer_is_allowed_by_the_policy_and_none_fails_a_condition(now):
    assert now.allowed
    for skill in now.allowed:
        assert not [c for c in skill.checks if c.truth == "no"]
        assert f"{skill.id} on {skill.kernel}" in text_of(planner.prompt(now, ROOM))
    forbidden = set(now.considered[0].record.forbidden_methods)
    assert not forbidden & {skill.id for skill in now.allowed}


# -- memory -------------------------------------------------------------------------------------


def test_the_same_plan_on_the_same_state_is_refused(tmp_path, now):
    plan = planner.read(plan_reply(now), now)
    memory = remember([transition(0), transition(1, parent=0, plan=plan, report=bad())], {})
    again = situation(tmp_path, memory=memory)
    found = planner.read(plan_reply(again), again)
    assert "exactly this plan was tried from v0 as v1" in found.reason


def test_a_method_that_was_tried_must_name_the_attempt_and_a_concrete_difference(tmp_path, now):
    plan = planner.read(plan_reply(now), now)
    memory = remember([transition(0), transition(1, parent=0, plan=plan, report=bad())], {})
    again = situation(tmp_path, memory=memory)
    new = {"modification": "keep two running maxima, one for each half of the row"}
    found = planner.read(plan_reply(again, **new), again)
    assert "name one in `earlier`" in found.reason
    found = planner.read(plan_reply(again, **new, earlier=1, difference="better"), again)
    assert "concretely different" in found.reason
    relabelled = plan.intent.upper() + "!"
    found = planner.read(plan_reply(again, **new, earlier=1, difference=relabelled), again)
    assert "concretely different" in found.reason
    plan = planner.read(
        plan_reply(again, **new, earlier=1, difference="two accumulators, not one"), again
    )
    assert isinstance(plan, Plan)
    assert "unlike v1" in plan.reason


def test_what_was_tried_vetoed_and_hinted_reaches_the_next_prompt(tmp_path):
    vetoed = transition(
        2, parent=0, plan=model_plan(), answer=Answer.VETOED, reason="reads past the row"
    )
    tried = [transition(0), transition(1, parent=0, plan=model_plan(), report=bad()), vetoed]
    memory = remember(tried, {})
    after = situation(tmp_path, memory=memory, hints=("try two rows a program",))
    for prompt in (
        planner.prompt(after, ROOM),
        optimizer.prompt(after, model_plan(), ROOM),
    ):
        text = text_of(prompt)
        assert "v1 from v0: online-softmax on softmax_kernel" in text
        assert "reads past the row" in text
        assert "try two rows a program" in text


def test_only_a_models_refused_candidate_is_mended_and_only_so_often():
    seed = transition(0)
    first = transition(1, parent=0, plan=model_plan(), report=bad())
    assert chain([seed, first]) == (first,)
    assert chain([seed, transition(1, parent=0, plan=model_plan(method=""), report=bad())]) == ()
    assert chain([seed, transition(1, parent=0, plan=model_plan())]) == ()
    slow = transition(1, parent=0, plan=model_plan(), report=bad(Stage.PROFILE))
    assert chain([seed, slow]) == ()
    sick = transition(1, parent=0, plan=model_plan(), report=bad(blame=Blame.MACHINE))
    assert chain([seed, sick]) == ()
    links = [seed, first]
    for number in range(2, REPAIRS + 2):
        plan = model_plan(repairs=number - 1)
        links.append(transition(number, parent=0, plan=plan, report=bad()))
        expected = tuple(links[1:]) if number <= REPAIRS else ()
        assert chain(links) == expected


# -- reviewer and diagnoser ---------------------------------------------------------------------


def test_the_review_holds_findings_and_evidence_but_no_folder_and_no_key():
    report = bad(
        says="error in /home/someone/.cache/x/kernel.py line 4",
        evidence={"bound": 1e-5, "log": "/usr/lib/python3/site.py: sk-abcdefgh12345678"},
    )
    text = review(report)
    assert "bound = 1e-05" in text
    assert "kernel.py line 4" in text
    assert "/home" not in text
    assert "/usr" not in text
    assert "sk-abcdefgh" not in text
    assert cleaned("a / b and x/y") == "a / b and x/y"


def test_a_long_log_is_cut_in_its_middle_and_says_so():
    text = shortened("a" * 5000 + "b" * 5000, LOG_LIMIT)
    assert len(text) <= LOG_LIMIT
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert "left out" in text


def test_a_diagnosis_rests_on_the_gates_own_words_and_one_place():
    assert not isinstance(diagnoser.read(diagnosis(), refused()), HandedBack)
    for changes, wrong in [
        ({"evidence": ["segmentation fault"]}, "the gate did not say"),
        ({"evidence": []}, "needs a part"),
        ({"patch_anchor": "tl.load"}, "times in the candidate"),
        ({"patch_anchor": "nowhere"}, "0 times"),
        ({"must_hold_invariants": ["a", "b", "c", "d"]}, "does not fit"),
        ({"root_cause": 7}, "does not fit"),
    ]:
        found = diagnoser.read(diagnosis(**changes), refused())
        assert isinstance(found, HandedBack)
        assert wrong in found.reason


def test_a_repair_changes_at_most_three_places(now):
    everywhere = SEED.replace('"""Softmax', '"""My softmax').replace("(0)", "(axis=0)")
    everywhere = everywhere.replace("total = 0.0", "total = 0.0 + 0.0").replace("1024", "256")
    assert repairer.places(SEED, everywhere) > 3
    found = repairer.read(said(f"```python\n{everywhere}\n```"), now, refused(SEED))
    assert found.code == "too-many-places"
    one = SEED.replace("BLOCK=1024", "BLOCK=512")
    found = repairer.read(said(f"```python\n{one}\n```"), now, refused())
    assert found.source.rstrip() == one.rstrip()


# -- prompts ------------------------------------------------------------------------------------


def prompts(now):
    return [
        planner.prompt(now, ROOM),
        optimizer.prompt(now, model_plan(), ROOM),
        diagnoser.prompt(now, refused(), ROOM),
        repairer.prompt(now, refused(), diagnoser.read(diagnosis(), refused()), ROOM),
        generator.prompt(now.problem, now.state.library, now.state.target, ROOM),
    ]


def test_all_prompts_begin_with_the_same_words_so_that_they_can_be_cached(now):
    begun = {prompt.messages[0].content for prompt in prompts(now)}
    assert len(begun) == 1
    shared = begun.pop()
    assert "online-softmax: Maximum and sum in one pass" in shared
    assert "arithmetic on a tensor" in shared
    assert "empty_like" in shared


def test_prompts_have_a_version_name_the_precision_promise_and_leave_no_slot_open(now):
    for prompt in prompts(now):
        text = text_of(prompt)
        assert prompt.version >= 1
        assert "{{" not in text
        assert 'input_precision="ieee"' in text
        assert now.problem.source.strip() in text
        assert prompt.trimmed == ()


def test_no_prompt_holds_a_folder_of_this_machine_or_a_shipped_answer(now, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    for prompt in prompts(now):
        text = text_of(prompt)
        assert "sk-0123" not in text
        assert str(now.problem.path.parent) not in text
        assert str(tmp_path) not in text
        assert "site-packages" not in text


def test_what_does_not_fit_gives_way_in_the_stated_order_and_is_told(now):
    whole = planner.prompt(now, ROOM)
    less = planner.prompt(now, whole.tokens - 1)
    assert less.trimmed == ("library: shorter (1 of 2)",)
    assert less.tokens < whole.tokens
    order = template_of(Role.PLANNER).head.trim
    hints = tuple(f"hint {number}" for number in range(9))
    now = structs.replace(now, hints=hints)
    tight = fill(Role.PLANNER, situation_slots(now), least(now))
    assert [what.partition(":")[0] for what in tight.trimmed] == list(order)
    assert now.state.source.strip() in text_of(tight)
    with pytest.raises(DoesNotFit, match="tokens"):
        planner.prompt(now, 2000)


def least(now) -> int:
    """Tokens of the shortest planner prompt."""
    slots = {name: texts[-1:] for name, texts in situation_slots(now).items()}
    return fill(Role.PLANNER, slots, ROOM).tokens


def test_the_code_in_a_prompt_is_never_taken_for_a_slot(tmp_path):
    odd = SEED + "\n# {{history}}\n"
    assert "# {{history}}" in text_of(planner.prompt(situation(tmp_path, source=odd), ROOM))
