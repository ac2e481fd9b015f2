"""The proposer: deterministic, in order, never twice the same, and honest about what it knows."""

import math

import msgspec
import pytest
from cards_kit import twenty_nine_cards
from fact_kit import softmax_launch, softmax_trace, static
from kernel_texts import SEEDS

from workbench.kernels.source import normalized_sha256, read_source
from workbench.kernels.target import target
from workbench.measure.records import Kind, Time
from workbench.search.grid import patience, points
from workbench.search.line import line_of
from workbench.search.proposer import NoProposal, Proposal, ProposerState, Tried, consider, propose
from workbench.skills.records import Truth

SM90 = target("sm90")


@pytest.fixture(scope="module")
def library():
    return twenty_nine_cards()


def state(library, text=SEEDS["softmax"], history=None, number=0, **known):
    seed = Tried(number=0, parent=None, sha256=normalized_sha256(text), accepted=True)
    return ProposerState(
        source=text,
        number=number,
        library=library,
        target=SM90,
        launches=known.pop("launches", (softmax_launch(),)),
        family=known.pop("family", "normalization"),
        history=history or (seed,),
        **known,
    )


def run(library, accept, steps=20, text=SEEDS["softmax"], **known):
    """Steps of a session whose gate is `accept(plan)`; the proposals with their answers."""
    now, done = state(library, text, **known), []
    for number in range(1, steps + 1):
        proposal = propose(now)
        if isinstance(proposal, NoProposal):
            break
        plan, accepted = proposal.plan, accept(proposal.plan)
        done.append((proposal, accepted))
        tried = Tried(
            number=number,
            parent=now.number,
            sha256=normalized_sha256(proposal.source),
            accepted=accepted,
            card=plan.card,
            kernel=plan.kernel,
            parameters=plan.parameters,
            was=plan.was,
            speed=1.2 if accepted else 0.9,
        )
        changes = {"source": proposal.source, "number": number} if accepted else {}
        now = msgspec.structs.replace(now, history=(*now.history, tried), **changes)
    return done, propose(now)


def test_the_same_state_gives_the_same_proposal_to_the_byte(library):
    first, second = propose(state(library)), propose(state(library))
    assert isinstance(first, Proposal)
    assert msgspec.json.encode(first.plan) == msgspec.json.encode(second.plan)
    assert first.source == second.source


def test_a_long_row_gets_the_online_softmax_first(library):
    plan = propose(state(library)).plan
    assert plan.card == "online-softmax"
    assert all(c.truth is Truth.YES for c in plan.checks)


def test_a_short_row_is_kept_on_the_chip_first(library):
    plan = propose(state(library, launches=(softmax_launch(cols=4096),))).plan
    assert (plan.card, plan.parameters) == ("row-on-chip", {"num_warps": 8})
    assert "4096" in str([c.because for c in plan.checks])


def test_a_plan_shows_checks_risks_reason_and_how_it_was_chosen(library):
    time = Time(kind=Kind.MODELED, microseconds=1500, detail={"dram": 1200.0, "fp32": 300.0})
    plan = propose(state(library, time=time)).plan
    assert plan.bottleneck == "dram"
    assert plan.checks[0].because == "code.rereads_input -> yes"
    assert "draft" in plan.reason
    assert plan.expected.startswith("loads down 1.3x to 1.5x; time down")
    assert plan.trail[-1] == "online-softmax on softmax_kernel: chosen"
    assert any("393216 <= 131072 -> no" in line for line in plan.trail)


def test_no_source_is_ever_proposed_twice(library):
    done, _ = run(library, lambda plan: hash(plan.card) % 2 == 0, steps=25)
    hashes = [normalized_sha256(p.source) for p, _ in done]
    hashes.append(normalized_sha256(SEEDS["softmax"]))
    assert len(set(hashes)) == len(hashes)


def test_every_step_is_one_edit_of_the_incumbent(library):
    done, _ = run(library, lambda plan: plan.card != "grow-block", steps=12)
    assert len(done) > 5
    for proposal, _ in done:
        assert not read_source(proposal.source).fault
        assert proposal.plan.edit
        assert proposal.plan.kernel == "softmax_kernel"


def test_softmax_has_a_sequence_of_techniques_within_ten_steps(library):
    done, _ = run(library, lambda _plan: True, steps=10)
    cards = [p.plan.card for p, _ in done]
    assert cards[0] == "online-softmax"
    assert len(set(cards)) >= 4


def test_a_card_that_failed_twice_is_passed_over(library):
    done, end = run(library, lambda _plan: False, steps=80)
    assert isinstance(end, NoProposal)
    tries = {}
    for proposal, _ in done:
        key = proposal.plan.card, proposal.plan.parameters.get("accesses")
        tries[key] = tries.get(key, 0) + 1
    assert max(tries.values()) == 2
    assert "nothing is left to try" in end.reason
    assert any("failed 2 times" in line for line in end.trail)


def test_a_value_that_helped_is_pushed_further(library):
    done, _ = run(library, lambda plan: plan.card == "loop-stages", steps=20)
    values = [p.plan.parameters["value"] for p, _ in done if p.plan.card == "loop-stages"]
    assert values[:2] == [3, 4]
    pushed = [p.plan for p, _ in done if p.plan.card == "loop-stages"][1]
    assert pushed.was == {"value": 3}
    assert "it helped last time (1.20x); now value 4" in pushed.reason


def test_an_accepted_earlier_technique_lets_a_later_one_try_again(library):
    refused = trial(1, False, card="grow-block", kernel="softmax_kernel", value=4096)
    helped = trial(2, True, card="online-softmax", kernel="softmax_kernel")
    seed = Tried(number=0, parent=None, sha256="0", accepted=True)
    line = line_of([seed, refused, helped], 2)
    early, late = (load_order(library, "online-softmax", order) for order in (20, 50))
    assert line.trials("grow-block", "softmax_kernel", early) == ()
    assert line.trials("grow-block", "softmax_kernel", late) == (refused,)


def load_order(library, card_id, order):
    """The library with one card's rank changed."""
    skill = library.skills[card_id]
    card = msgspec.structs.replace(skill.card, order=order)
    skills = {**library.skills, card_id: msgspec.structs.replace(skill, card=card)}
    return msgspec.structs.replace(library, skills=skills)


def test_unknown_conditions_wait_until_no_other_card_is_left(library):
    plan = propose(state(library, launches=())).plan
    unknown = [c for c in plan.checks if c.truth is Truth.UNKNOWN]
    known_first, _ = run(library, lambda _plan: False, steps=80, launches=())
    truths = [any(c.truth is Truth.UNKNOWN for c in p.plan.checks) for p, _ in known_first]
    assert truths == sorted(truths)
    assert not unknown
    last = known_first[-1][0].plan
    assert "no card is left whose conditions are all known" in last.reason


def test_the_gain_that_counts_goes_first_and_a_risk_is_told(library):
    spilled = softmax_launch(static=static(occupancy=0.25))
    start = state(library, launches=(spilled,))
    (considered,) = consider(start, line_of(start.history, start.number))
    for phase in (False, True):
        worth = [round(r.worth, 3) for r in considered.ranked if not r.unknown and r.later == phase]
        assert worth == sorted(worth, reverse=True)
    done, _ = run(library, lambda _plan: False, steps=80, launches=(spilled,))
    plans = [p.plan for p, _ in done]
    known = [p for p in plans if all(c.truth is Truth.YES for c in p.checks)]
    risky = [any(r.truth is Truth.YES for r in p.risks) for p in known]
    assert risky != sorted(risky), "a risky technique is tried before a later one without risk"
    assert all(("at a risk:" in p.reason) == risk for p, risk in zip(known, risky, strict=True))


def test_a_gain_counts_less_for_a_draft_a_seen_risk_and_outside_of_the_first_case(library):
    start = state(library, launches=(softmax_launch(static=static(occupancy=0.25)),))
    (considered,) = consider(start, line_of(start.history, start.number))
    ranked = considered.ranked
    assert {(r.draft, r.warned) for r in ranked} == {(True, False), (True, True)}
    for one in ranked:
        whole = one.case == 0 and not one.draft and not one.warned
        assert math.isclose(math.exp(one.worth), one.expected.ratio) == whole, one.says
        assert ("counts as" in one.says) <= (not whole)


def test_a_card_of_another_family_is_out_of_scope(library):
    text = SEEDS["sdp_attention"]
    done, end = run(library, lambda _plan: False, steps=80, text=text, family="gemm", launches=())
    assert "tile-attention" not in {p.plan.card for p, _ in done}
    assert any(x == "tile-attention on attention_kernel: made for attention" for x in end.trail)


def test_a_file_without_a_launched_kernel_gives_a_reason():
    empty = load_library_of_nothing()
    answer = propose(state(empty, text="x = 1\n"))
    assert answer == NoProposal(reason="no kernel is launched in a form that can be read")


def load_library_of_nothing():
    from workbench.skills.library import Library

    return Library({})


def test_the_kernel_that_moves_most_bytes_comes_first(library):
    two = SEEDS["softmax"].replace(
        "        return out\n",
        "        again[(rows,)](x, out, n, BLOCK=1024)\n        return out\n",
    ) + SEEDS["softmax"].split("@triton.jit")[1].split("class ModelNew")[0].replace(
        "\ndef softmax_kernel", "\n\n@triton.jit\ndef again"
    )
    assert read_source(two).launched == ("softmax_kernel", "again")
    trace = msgspec.structs.replace(softmax_trace(), kernel="again")
    launches = (softmax_launch(), msgspec.structs.replace(softmax_launch(), kernel="again"))
    plan = propose(state(library, text=two, launches=launches, traces=(trace,))).plan
    assert plan.kernel == "again"


# The grid.


def trial(number, accepted, was=None, card="c", kernel="", **parameters):
    return Tried(
        number=number,
        parent=0,
        sha256=str(number),
        accepted=accepted,
        card=card,
        kernel=kernel,
        parameters=parameters,
        was=was or {},
    )


def test_points_come_in_the_grids_order_without_what_is_there_now():
    axes = {"value": (8, 4, 16, 2)}
    assert [p["value"] for p in points(axes, {"value": 4}, ())] == [8, 16, 2]


def test_nothing_is_tried_beyond_a_value_that_failed():
    axes = {"value": (8, 4, 16, 2)}
    assert [p["value"] for p in points(axes, {"value": 4}, [trial(1, False, value=8)])] == [2]


def test_nothing_is_tried_behind_a_value_that_was_left_for_a_better_one():
    axes = {"value": (1024, 4096, 256, 2048, 512)}
    helped = trial(1, True, was={"value": 512}, value=1024)
    assert [p["value"] for p in points(axes, {"value": 1024}, [helped])] == [4096, 2048, 512]


def test_one_change_comes_before_several():
    axes = {"tile": ("a", "b"), "warps": (4, 8), "stages": (2, 3)}
    here = {"tile": "b", "warps": 8, "stages": 2}
    got = list(points(axes, here, ()))
    assert [sum(p[n] != here[n] for n in axes) for p in got] == [1, 1, 1, 2, 2, 2, 3]


def test_an_edit_without_choices_has_one_point():
    assert list(points({}, {}, ())) == [{}]
    assert list(points({}, {}, [trial(1, False)])) == []
    assert patience({}) == 2
    assert patience({"a": (1, 2), "b": (1, 2), "c": (1,)}) == 3


# The line.


def test_the_line_follows_parents_and_forgets_other_branches():
    history = [
        Tried(number=0, parent=None, sha256="a", accepted=True),
        Tried(number=1, parent=0, sha256="b", accepted=True, card="x"),
        Tried(number=2, parent=1, sha256="c", accepted=False, card="y"),
        Tried(number=3, parent=1, sha256="d", accepted=True, card="z"),
    ]
    line = line_of(history, 3)
    assert line.cards == ("x", "z")
    assert line.tried_cards == ("x", "y", "z")
    assert line.failures == 0
    assert line_of(history, 1).failures == 1
    assert line.seen == {"a", "b", "c", "d"}


def test_a_history_with_gaps_or_a_circle_still_gives_a_line():
    assert line_of([], 5).steps == ()
    looped = [Tried(number=1, parent=1, sha256="a", accepted=True, card="x")]
    assert line_of(looped, 1).cards == ("x",)


def test_what_helped_here_comes_again_behind_what_was_not_tried(library):
    done, _ = run(library, lambda plan: plan.card in {"loop-stages", "loop-unroll"}, steps=20)
    cards = [p.plan.card for p, _ in done]
    first, second = (cards.index(name) for name in ("loop-stages", "loop-unroll"))
    again = cards.index("loop-stages", first + 1)
    assert max(first, second) < again


def test_a_kernel_whose_launch_only_a_run_shows_has_facts_and_edits_of_its_own_text(library):
    hidden = "(lambda: softmax_kernel)()[(rows,)]"
    start = state(library, text=SEEDS["softmax"].replace("softmax_kernel[(rows,)]", hidden))
    (considered,) = consider(start, line_of(start.history, start.number))
    assert considered.facts["code.loop_count"].value == 3
    assert considered.facts["launch.programs"].value
    assert "num-warps" not in {r.choice.edit.id for r in considered.ranked}
    assert propose(start).plan.card == "online-softmax"
