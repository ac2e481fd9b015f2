"""The rules by which steps become leaps and conditions, and what admission and verify leave out."""

from pathlib import Path

import pytest
from msgspec import structs
from test_induce import chain, facts, step

from workbench.engine.admitting import Ask, Untried, admissions, shows
from workbench.engine.roundtrips import roundtrips
from workbench.engine.trials import Where
from workbench.engine.verifying import Standing, verify
from workbench.errors import WorkbenchError
from workbench.lineage.induce import induce
from workbench.lineage.instances import leaps
from workbench.lineage.leaping import leap, loses, modeled, pays
from workbench.lineage.predicates import conditions
from workbench.measure.records import Kind, Speed, Time
from workbench.session.bundle import import_bundle
from workbench.session.store import SessionStore
from workbench.skills.card import read_card
from workbench.skills.records import Effect

ROOT = Path(__file__).parent.parent


def speed(ratio, low=None, high=None):
    return Speed(kind=Kind.MEASURED, ratio=ratio, low=low, high=high)


# Leaps.


def test_a_gain_counts_by_the_lower_end_and_a_loss_by_the_upper():
    assert [pays(speed(ratio)) for ratio in (1.005, 1.02)] == [False, True]
    assert not pays(speed(1.05, 0.99, 1.10))
    assert [loses(speed(ratio)) for ratio in (0.995, 0.98)] == [False, True]
    assert not loses(speed(0.95, 0.90, 1.01))
    assert not pays(None)
    assert not loses(None)


def test_a_leap_ends_with_a_step_that_pays_and_what_was_not_timed_changes_nothing():
    assert leap([speed(1.005), speed(1.009)]) == 1
    assert leap([speed(0.9), None, speed(1.2)]) == 3
    assert leap([speed(0.9), speed(1.2)]) == 2


def test_modeled_times_make_a_speedup_and_measured_ones_none():
    slow, fast = (Time(kind=Kind.MODELED, microseconds=us) for us in (30.0, 10.0))
    assert modeled(slow, fast).ratio == 3.0
    assert modeled(Time(kind=Kind.MEASURED, microseconds=30.0), fast) is None


def test_no_step_is_said_to_pay_with_one_beyond_a_step_that_is_missing():
    for numbers, requires in (((1, 2), ("m1",)), ((1, 3), ())):
        found = [
            structs.replace(one, number=number)
            for one, number in zip(chain(0.8, 1.4), numbers, strict=True)
        ]
        assert list(leaps(found))[1].requires == requires, numbers


# Conditions.


def when(good, bad):
    return [p.when for p in conditions([step(before=good)], [step(helped=False, before=bad)])[0]]


def test_a_flag_that_must_be_off_is_asked_to_be_off():
    assert when(facts(code__has_mask=False), facts(code__has_mask=True)) == ["not code.has_mask"]
    assert when(facts(code__has_mask=True), facts(code__has_mask=False)) == ["code.has_mask"]


def test_no_condition_rests_on_the_choice_itself_or_on_what_happened_before():
    """Such facts would tell success from failure only in the session that they come from."""
    for name in ("anchor__value", "profile__microseconds"):
        assert when(facts(**{name: 1}), facts(**{name: 9})) == [], name


def test_of_two_facts_that_tell_as_much_the_one_nearer_to_the_code_is_taken():
    good = facts(device__cc=90, loop__trip_count=8)
    assert when(good, facts(device__cc=80, loop__trip_count=1)) == ["loop.trip_count >= 8"]


# What is left out is told.


@pytest.fixture
def lineage(tmp_path):
    return import_bundle(ROOT / "sessions" / "conv2d-lineage.bundle", tmp_path)


def without(lineage, number):
    lineage.git.run("update-ref", "-d", f"refs/attempts/{number:04d}")
    return SessionStore.open(lineage.folder)


def test_verify_says_where_the_line_breaks_off(lineage):
    first = next(verify(without(lineage, 2), "cpu"))
    assert (first.number, first.what, first.standing) == (2, "record", Standing.DIFFERS)
    assert first.says.startswith("v3 was made from it, and it cannot be read: it is not there")


def test_verify_vouches_for_no_session_without_an_accepted_line(lineage):
    lineage.git.run("update-ref", "-d", "refs/heads/main")
    with pytest.raises(WorkbenchError, match="nothing says which versions were accepted"):
        next(verify(SessionStore.open(lineage.folder), "cpu"))


def learned(name):
    return read_card(ROOT / "skills" / "learned" / f"{name}.toml")


def test_a_lineage_without_a_step_of_a_card_is_told(lineage):
    (trial,) = roundtrips(learned("learned-block-inverse"), lineage.folder, lambda _event: None)
    assert not trial.applied
    assert "is one that learned-block-inverse makes" in trial.says


def test_a_trial_that_had_no_time_is_told_by_its_place(tmp_path):
    skill = learned("learned-warps")
    where = Where(device="cpu", target="sm90", sessions=tmp_path)
    ask = Ask(
        skills=(skill,),
        problems=("gelu", "softmax"),
        lineages=(),
        jobs=1,
        seconds=0.0,
        where=where,
    )
    found = list(admissions(ask, lambda _event: None))
    assert all(isinstance(one, Untried) for one in found)
    assert sorted(one.reasons[0].partition(":")[0] for one in found) == ["gelu", "softmax"]


# What a trial must show.


@pytest.mark.parametrize(
    ("direction", "ratio", "shown"),
    [
        *(("down", ratio, shown) for ratio, shown in ((1.2, True), (1.0, False), (0.995, False))),
        *(("same", ratio, shown) for ratio, shown in ((1.0, True), (0.995, True), (0.98, False))),
        *(("up", ratio, shown) for ratio, shown in ((0.995, True), (0.9, False))),
        ("down", None, False),
    ],
)
def test_a_promised_gain_must_be_one_and_a_cost_only_no_loss(direction, ratio, shown):
    assert shows(Effect(metric="time", direction=direction), step(ratio=ratio)) is shown


@pytest.mark.parametrize("direction", ["up", "down", "same"])
def test_a_fact_must_move_in_the_direction_that_a_card_names(direction):
    effect = Effect(metric="static.registers", direction=direction)
    moves = {"up": 60, "down": 40, "same": 50}
    for way, after in moves.items():
        made = step(before=facts(static__registers=50), after=facts(static__registers=after))
        assert shows(effect, made) is (way == direction), way
    assert not shows(effect, step(after=facts(static__registers=60)))


# Cards.


def test_a_card_says_how_it_was_timed():
    row = induce("num-stages", [step(speed=speed(1.5), measured=True)]).card.evidence[0]
    assert (row.kind, row.paired) == ("measured", 1.5)
    row = induce("num-stages", [step()]).card.evidence[0]
    assert (row.kind, row.paired) == ("modeled", None)


def test_a_range_of_losses_is_read_from_the_least_to_the_worst():
    card = induce("num-stages", [step(ratio=0.5), step(ratio=0.8)]).card
    assert [(e.direction, e.low, e.high) for e in card.effect] == [("up", 1.25, 2.0)]


def test_a_gain_that_the_gate_would_not_count_is_called_the_same():
    card = induce("num-stages", [step(ratio=1.005)]).card
    assert card.effect[0].direction == "same"
    assert induce("num-stages", [step(ratio=0.995)]).card.effect[0].direction == "same"


def test_a_small_change_of_a_fact_is_no_effect():
    group = [
        step(before=facts(static__registers=100), after=facts(static__registers=more))
        for more in (103, 104)
    ]
    card = induce("num-stages", group).card
    assert [e.metric for e in card.effect] == ["time"], "3 and 4 % may be the compiler's"
    group = [structs.replace(one, after=facts(static__registers=110)) for one in group]
    effects = [(e.metric, e.direction) for e in induce("num-stages", group).card.effect]
    assert ("static.registers", "up") in effects


def test_a_step_that_was_refused_is_a_row_that_says_so():
    card = induce("num-stages", [step(), step(helped=False)]).card
    assert [(row.verdict, row.says) for row in card.evidence] == [
        ("accepted", ""),
        ("rejected", "spills"),
    ]
