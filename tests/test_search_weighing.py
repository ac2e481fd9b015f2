"""What a search rests on: chained gains, expected gains, values, ties, and its own history."""

import math

import pytest
from cards_kit import twenty_nine_cards
from fact_kit import softmax_launch
from msgspec import structs
from test_policy_ranking import TABLE, expected, only, row, trial, with_card
from test_proposer import SM90, state
from test_proposer import trial as tried

from workbench.kernels.source import normalized_sha256
from workbench.measure.records import Kind, Time
from workbench.measure.trust import calibration, why_not_trusted
from workbench.search.beam import Waiting, beam
from workbench.search.chain import combined_gain
from workbench.search.expectation import expected_gain, size_word
from workbench.search.grid import points
from workbench.search.ladder import shipped_ladder
from workbench.search.line import bound_to, line_of
from workbench.search.phase import rested
from workbench.search.profile import session_facts
from workbench.search.proposer import NoProposal, Tried, consider, propose
from workbench.search.ranking import had_setback, in_order, methods_of, rank
from workbench.search.rungs import RungResult
from workbench.skills.policy_table import shipped_policy

SPEC = shipped_ladder().search


@pytest.fixture(scope="module")
def library():
    return twenty_nine_cards()


# Gains of several steps


def gained(ratio, low=None, high=None, kind=Kind.MEASURED):
    return RungResult(rung="bench", passed=True, kind=kind, ratio=ratio, low=low, high=high)


def test_gains_of_several_steps_multiply_end_by_end():
    both = combined_gain([gained(1.2, 1.1, 1.3), gained(2.0, 1.9, 2.2)], gained(1.0))
    assert (both.rung, both.kind) == ("bench", Kind.MEASURED)
    found = (both.ratio, both.low, both.high)
    assert found == pytest.approx((1.2 * 2.0, 1.1 * 1.9, 1.3 * 2.2))


def test_an_end_that_one_step_does_not_know_is_not_known_of_all():
    open_ = combined_gain([gained(1.2, 1.1, 1.3), gained(2.0)], gained(1.0, 0.9, 1.1))
    assert (open_.ratio, open_.low, open_.high) == (2.4, None, None)


def test_a_step_of_another_kind_or_without_a_ratio_leaves_nothing_to_say():
    modeled = gained(1.2, kind=Kind.MODELED)
    assert combined_gain([gained(1.2), modeled], gained(1.0)) is None
    assert combined_gain([gained(1.2), gained(None)], gained(1.0)) is None
    assert combined_gain([modeled, modeled], modeled).ratio == pytest.approx(1.44)


# What a card is expected to gain


def test_evidence_of_another_gpu_weighs_as_little_as_that_of_another_family(library):
    rows = [row(), structs.replace(row(), target="sm80"), row(family="gemm")]
    here, gpu, family = (expected(library, "grow-block", evidence=(one,) * 2) for one in rows)
    assert gpu == family
    assert 1.0 < gpu.ratio < here.ratio


def test_modeled_evidence_weighs_less_than_measured(library):
    place = next(one for one in calibration() if not why_not_trusted(one.family, one.target))
    measured = structs.replace(row(family=place.family), target=place.target)
    modeled = structs.replace(measured, kind="modeled")
    card = library.skills["grow-block"].card
    told = [
        expected_gain(
            structs.replace(card, evidence=(one,) * 2), TABLE, place.family, place.target, ()
        )
        for one in (measured, modeled)
    ]
    assert all("2 of 2 recorded" in one.says for one in told)
    assert told[1].ratio < told[0].ratio


def test_a_try_here_weighs_one(library):
    promised = expected(library, "grow-block", evidence=()).ratio
    weight = TABLE.file.ranking.promise_weight
    helped = expected(library, "grow-block", [trial(1, True, 2.0)], evidence=()).ratio
    mean = (math.log(promised) * weight + math.log(2.0)) / (weight + 1)
    assert helped == pytest.approx(math.exp(mean), abs=2e-3)


def test_a_gain_is_called_by_the_bound_that_it_reaches():
    ranking = TABLE.file.ranking
    words = [size_word(one, TABLE) for one in (ranking.large, ranking.medium, 1.0)]
    assert words == ["large", "medium", "small"]


# Values of a parameter


def test_a_smaller_value_that_helped_is_followed_by_smaller_ones():
    axes = {"value": (1024, 512, 2048, 256, 128)}
    helped = tried(1, True, was={"value": 1024}, value=512)
    assert [p["value"] for p in points(axes, {"value": 512}, [helped])] == [256, 128, 1024]


def test_of_equally_many_changes_the_first_parameter_is_moved_first():
    axes = {"tile": (1, 2), "warps": (4, 8)}
    found = list(points(axes, {"tile": 1, "warps": 4}, ()))
    assert found == [
        {"tile": 2, "warps": 4},
        {"tile": 1, "warps": 8},
        {"tile": 2, "warps": 8},
    ]


# Candidates beside each other


def test_of_two_with_equal_scores_the_one_proposed_earlier_goes_first():
    late = Waiting(sha256="a", score=1.0, technique="order", place=1)
    early = Waiting(sha256="b", score=1.0, technique="tile", place=0)
    assert beam([late, early], SPEC) == (early, late)


# What a session says of the next choice


def test_tries_at_one_anchor_say_nothing_of_another():
    loads, stores = tried(1, False, accesses="loads"), tried(2, False, accesses="stores")
    assert bound_to([loads, stores], {"accesses": "loads"}) == (loads,)
    assert bound_to([loads, stores], {}) == (loads, stores)


def test_the_seed_is_no_round(library):
    seed = state(library).history[0]
    tries = [structs.replace(trial(number, False), parent=0) for number in range(1, 5)]
    assert rested(line_of((seed, *tries), 0), SPEC) == ""
    fifth = structs.replace(trial(5, False), parent=0)
    assert rested(line_of((seed, *tries, fifth), 0), SPEC)


def test_the_session_tells_how_near_the_bytes_are_and_how_often_it_failed(library):
    took = Time(kind=Kind.MODELED, microseconds=4.0)
    now = state(library, bytes=SM90.dram_gbps * 1e3, time=took)
    line = line_of((*now.history, trial(1, False), trial(2, False)), 0)
    facts = session_facts(now, line)
    assert facts["profile.efficiency"] == pytest.approx(0.25), "a microsecond of traffic in four"
    assert facts["history.failures"] == 2


def test_what_another_plan_has_led_to_is_not_proposed_again(library):
    """By hand, say, or by two edits that meet: the text counts, not the card."""
    first = propose(state(library))
    same = Tried(number=1, parent=0, sha256=normalized_sha256(first.source), accepted=False)
    now = state(library)
    second = propose(structs.replace(now, history=(*now.history, same)))
    assert second.source != first.source


def test_a_ruling_allows_the_cards_of_its_first_case_alone(library):
    now = state(library)
    (one,) = consider(now, line_of(now.history, 0))
    first = {r.choice.skill.card.id for r in one.ranked if r.case == 0}
    assert first == set(one.record.allowed)
    assert {r.case for r in one.ranked} > {0}


def test_a_phase_is_over_once_its_cards_lead_to_nothing_new(library):
    """Cards that still fit and whose every text was gated keep nobody from tuning."""
    now, table = state(library), shipped_policy()
    for number in range(1, 60):
        found = propose(now)
        if not table.coarse(table.level_of(library.skills[found.plan.card].card.order)):
            break
        same = Tried(
            number=number, parent=None, sha256=normalized_sha256(found.source), accepted=False
        )
        now = structs.replace(now, history=(*now.history, same))
    assert number > 1
    assert found.plan.phase == "fine"


# Values of a card


def test_a_value_may_be_told_by_what_the_code_has_now(library):
    half = (softmax_launch(block=512),)
    plan = propose(state(library, launches=half), ("fewer-warps", "softmax_kernel")).plan
    assert (plan.was, plan.parameters) == ({"value": 4}, {"value": 2})


def test_a_card_is_carried_out_only_where_its_own_grid_allows(library):
    """The kernel has reads that come again and stores, and nothing that is shared."""
    shared = propose(state(library), ("keep-shared", "softmax_kernel"))
    assert isinstance(shared, NoProposal)
    assert "keep-shared on softmax_kernel: every value was tried" in shared.trail
    stores = propose(state(library), ("evict-streamed", "softmax_kernel")).plan
    assert stores.parameters["accesses"] == "stores"


def test_what_is_expected_to_lose_is_not_made_better_by_counting_less(library):
    """A part of a gain is less; a part of a loss would be more."""

    def second(cards):
        now = state(cards)
        (one,) = consider(now, line_of(now.history, 0))
        return [r for r in one.ranked if r.case > 0 and not r.coarse]

    name = second(library)[0].choice.skill.card.id
    lost = with_card(library, name, evidence=(row(before=100.0, after=125.0),) * 9)
    (found,) = (r for r in second(lost) if r.choice.skill.card.id == name)
    assert found.expected.ratio < 1
    assert found.worth == pytest.approx(math.log(found.expected.ratio))
    gains = second(library)[0]
    assert 0 < gains.worth < math.log(gains.expected.ratio)


def test_gains_that_differ_by_less_than_is_known_leave_it_to_the_case(library):
    """To three digits of the logarithm: a promise is no finer than that."""
    now = state(library)
    (one,) = consider(now, line_of(now.history, 0))
    first = one.ranked[0]
    case, gain = (
        structs.replace(first, worth=0.1, case=0),
        structs.replace(first, worth=0.10004, case=1),
    )
    assert in_order([gain, case]) == [case, gain]
    more = structs.replace(gain, worth=0.102)
    assert in_order([case, more]) == [more, case]


def test_once_a_search_is_at_rest_no_card_waits_for_those_that_change_the_algorithm(library):
    now = state(library)
    tries = [trial(number, False) for number in range(1, 6)]
    rests = structs.replace(now, history=(*now.history, *tries))
    waits = [
        {r.later for one in consider(at, line_of(at.history, 0)) for r in one.ranked}
        for at in (now, rests)
    ]
    assert waits == [{True, False}, {False}]


# Which card goes first

BETTER = (
    ("pinned", True, False),
    ("unknown", False, True),
    ("setback", False, True),
    ("later", False, True),
    ("again", False, True),
    ("worth", 0.2, 0.1),
    ("case", 0, 1),
    ("level", 0, 1),
    ("risky", False, True),
    ("kernel", 0, 1),
)
"""What decides, in this order: a field of a ranked card, and which value goes first."""


def test_each_criterion_decides_only_where_those_before_it_do_not(library):
    now = state(library)
    (one,) = consider(now, line_of(now.history, 0))
    plain = {name: good for name, good, _ in BETTER}
    for at, (name, _, bad) in enumerate(BETTER):
        worse = {name: bad}
        earlier_alike = {n: b for n, _, b in BETTER[at + 1 :]}
        ahead = structs.replace(one.ranked[0], **{**plain, **earlier_alike})
        behind = structs.replace(one.ranked[0], **{**plain, **worse})
        assert in_order([behind, ahead]) == [ahead, behind], name


def test_a_gain_counts_whole_in_the_first_case_alone(library):
    parts = TABLE.file.ranking
    now = state(library)
    (one,) = consider(now, line_of(now.history, 0))
    cases = len(one.ruling.cases)
    counts = {0: 1.0, **dict.fromkeys(range(1, cases), parts.other_case)}
    counts |= {cases: parts.beyond_cases, cases + 1: parts.forbidden}
    assert {0, cases} <= {r.case for r in one.ranked}
    for r in one.ranked:
        part = counts[r.case] * own_part(r)
        assert r.worth == pytest.approx(part * math.log(r.expected.ratio)), r.says


def own_part(ranked):
    """The part of its gain that counts by its own standing and risks."""
    parts = TABLE.file.ranking
    return (parts.draft if ranked.draft else 1.0) * (parts.warned if ranked.warned else 1.0)


def test_what_the_first_case_forbids_counts_least(library):
    parts, now = TABLE.file.ranking, state(library)
    line = line_of(now.history, 0)
    (one,) = consider(now, line)
    first = one.ranked[0]
    held = one.ruling.cases[0]
    methods = methods_of(first.choice.skill, TABLE)
    against = structs.replace(held.case, allow=(), forbid=tuple(methods))
    ruling = structs.replace(one.ruling, cases=(structs.replace(held, case=against),))
    found = rank(first.choice, ruling, now, line, TABLE, place=0)
    part = parts.forbidden * own_part(first)
    assert found.worth == pytest.approx(part * math.log(found.expected.ratio))
    assert parts.forbidden < parts.beyond_cases


def test_a_gain_wipes_out_the_refusals_before_it():
    assert not had_setback([trial(1, False), trial(2, True, 1.5), trial(3, False)])


@pytest.mark.parametrize("changes", [{"kind": "modeled"}, {"verdict": "unproven"}])
def test_only_what_was_measured_and_judged_gives_a_draft_up(library, changes):
    place = next(one for one in calibration() if not why_not_trusted(one.family, one.target))
    rows = tuple(
        structs.replace(
            row("rejected", family=place.family),
            **{"problem": name, "commit": name, "target": place.target, **changes},
        )
        for name in ("a", "b")
    )
    one = only(with_card(library, "loop-unroll", evidence=rows), "loop-unroll")
    assert propose(state(one)).plan.card == "loop-unroll"
