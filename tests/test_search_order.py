"""In which order a search works: coarse before fine, different techniques, and when to stop."""

from itertools import permutations

from cards_kit import twenty_nine_cards
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from test_proposer import run, state

from workbench.search.beam import Waiting, beam
from workbench.search.ladder import shipped_ladder
from workbench.search.line import line_of
from workbench.search.phase import Phase, phase_of, rested
from workbench.search.proposer import propose
from workbench.search.stops import near_limit, plateau_reached, round_gain
from workbench.skills.policy_table import shipped_policy

SPEC = shipped_ladder().search
LIBRARY = twenty_nine_cards()
COARSE = {
    card
    for card, skill in LIBRARY.skills.items()
    if shipped_policy().coarse(shipped_policy().level_of(skill.card.order))
}


def test_a_search_chooses_an_algorithm_before_it_tunes_one() -> None:
    """Coarse cards come first whatever their case, and the trail says the phase."""
    done, _ = run(LIBRARY, lambda plan: plan.card == "online-softmax", steps=12)
    first = done[0][0].plan
    assert (first.card, first.phase) == ("online-softmax", "coarse")
    assert first.trail[0].startswith("phase coarse: ")
    phases = [proposal.plan.phase for proposal, _ in done]
    assert phases == sorted(phases), "coarse, then fine"
    assert phases[-1] == "fine"
    for proposal, _ in done:
        plan = proposal.plan
        assert (plan.card in COARSE) >= (plan.phase == "coarse")
        assert plan.phase == plan.trail[0].split(":")[0].removeprefix("phase ")


def test_five_rounds_without_a_gain_end_the_coarse_phase() -> None:
    """Then a card that tunes may go before one that would change the algorithm."""
    done, _ = run(LIBRARY, lambda _plan: False, steps=30)
    fine = [p.plan for p, _ in done if p.plan.phase == "fine"]
    assert fine
    rest = [plan for plan in fine if "5 rounds in a row" in plan.trail[0]]
    assert rest, "the plateau rule is named once it holds"


def test_a_person_may_give_the_coarse_phase_more_rounds() -> None:
    """The state carries the rules; the proposer reads no file."""
    patient = structs.replace(SPEC, plateau_rounds=structs.replace(SPEC.plateau_rounds, value=50.0))
    done, _ = run(LIBRARY, lambda _plan: False, steps=12, search=patient)
    assert not any("rounds in a row" in p.plan.trail[0] for p, _ in done)
    assert propose(state(LIBRARY, search=patient)).plan.phase == "coarse"


def test_what_was_set_back_does_not_keep_the_phase_coarse() -> None:
    """A phase that waits for a refused card would never end."""

    class Card:
        def __init__(self, *, coarse: bool, setback: bool) -> None:
            self.coarse, self.setback = coarse, setback

    tuning = Card(coarse=False, setback=False)
    refused = Card(coarse=True, setback=True)
    assert phase_of([tuning, refused], "")[0] is Phase.FINE
    assert phase_of([tuning, Card(coarse=True, setback=False)], "")[0] is Phase.COARSE
    assert phase_of([Card(coarse=True, setback=False)], "at rest") == (Phase.FINE, "at rest")


def test_a_seed_alone_is_not_at_rest() -> None:
    """There were no rounds yet."""
    assert rested(line_of(state(LIBRARY).history, 0), SPEC) == ""


def test_small_gains_add_up_before_a_search_is_at_rest() -> None:
    """Five rounds below 0.1 % together, not each."""
    assert plateau_reached([1.0] * 4, SPEC) == ""
    assert plateau_reached([2.0, *[1.0] * 5], SPEC)
    assert plateau_reached([1.0, 1.0, 1.0005, 1.0005, 1.0005], SPEC) == ""
    assert plateau_reached([SPEC.plateau_gain.value, *[1.0] * 4], SPEC) == "", "it is enough"
    assert "less than 0.1 % faster" in plateau_reached([1.0] * 5, SPEC)


def test_a_round_gains_by_what_was_accepted_and_faster_alone() -> None:
    assert round_gain(accepted=True, speed=1.2) == 1.2
    assert round_gain(accepted=False, speed=1.2) == 1.0
    assert round_gain(accepted=True, speed=0.98) == 1.0, "kept for another reason"
    assert round_gain(accepted=True, speed=None) == 1.0


def test_a_search_ends_near_the_limit_and_nowhere_else() -> None:
    """An unknown limit ends nothing."""
    assert near_limit(None, SPEC) == ""
    assert near_limit(0.94, SPEC) == ""
    assert near_limit(SPEC.near_limit.value, SPEC)
    assert near_limit(0.962, SPEC) == "the best reaches 96.2 % of the limit, at least 95 %"


WAITING = st.builds(
    Waiting,
    sha256=st.text("abcdef", min_size=6, max_size=6),
    score=st.floats(0, 3),
    technique=st.sampled_from(["", "tile", "order", "split"]),
)


@given(st.lists(WAITING, max_size=6, unique_by=lambda one: one.sha256))
def test_a_beam_is_the_same_in_any_order_and_no_wider_than_told(waiting: list[Waiting]) -> None:
    """Ties are broken by names, never by arrival."""
    first = beam(waiting, SPEC)
    assert len(first) == min(len(waiting), int(SPEC.lines.value))
    assert all(beam(order, SPEC) == first for order in list(permutations(waiting))[:20])
    if waiting:
        assert first[0].score == max(one.score for one in waiting)
    if len({one.technique for one in waiting}) > 1:
        assert len({one.technique for one in first}) == len(first)
