"""Induction: every line of a card rests on recorded steps; its conditions hold where it helped."""

from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.inducing import induced_from, save
from workbench.errors import WorkbenchError
from workbench.kernels.facts import read_facts
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.kernels.records import Fact
from workbench.lineage.induce import card_text, induce
from workbench.lineage.instances import Instance, by_mechanism, leaps
from workbench.lineage.leaping import PAYS, leap
from workbench.lineage.predicates import conditions
from workbench.measure.records import Kind, Speed
from workbench.skills.card import parse_card, read_card
from workbench.skills.conditions import check, parse
from workbench.skills.records import Admission, Risk, Truth
from workbench.skills.writing import add_evidence, add_risks

SESSIONS = Path(__file__).parent.parent / "sessions"
KNOWN = {name: read_facts("", "")[name] for name in CATALOGUE}


def facts(**values) -> dict[str, Fact]:
    """All facts unknown but these, dots as double underscores."""
    found = dict(KNOWN)
    for name, value in values.items():
        dotted = name.replace("__", ".")
        old = found[dotted]
        found[dotted] = Fact(
            name=dotted, value=value, unit=old.unit, source=old.source, says=old.says
        )
    return found


def step(*, helped=True, ratio=1.5, before=None, after=None, edit="num-stages", **changes):
    plain = {
        "category": "pipelined-loads",
        "locus": "launch",
        "edit": edit,
        "kernel": "k",
        "parameters": {"value": 3},
        "helped": helped,
        "says": "10.0 us" if helped else "spills",
        "code": "" if helped else "profile.slower",
        "ratio": ratio,
        "before": before or facts(),
        "after": after or facts(),
        "session": "s",
        "commit": "c" * 40,
        "device": "sm90",
        "problem": "gemm",
        "family": "gemm",
        "target": "sm90",
        "accepted": helped,
    }
    return Instance(**(plain | changes))


def holds(when: str, known: dict[str, Fact]) -> Truth:
    return check("", parse(when), known).truth


def test_a_condition_separates_what_helped_from_what_failed_and_says_where():
    good = [step(before=facts(loop__trip_count=n)) for n in (8, 64)]
    bad = [step(helped=False, before=facts(loop__trip_count=1), session="t")]
    found = induce("num-stages", [*good, *bad])
    assert [p.when for p in found.card.precondition] == ["loop.trip_count >= 8"]
    assert "failed with 1 in t@ccccccccc" in found.card.precondition[0].says
    assert not found.card.risk


def test_a_failure_that_nothing_tells_apart_becomes_a_risk():
    alike = facts(loop__trip_count=8)
    found = induce("num-stages", [step(before=alike), step(helped=False, before=alike)])
    assert not found.card.precondition
    assert [r.says for r in found.card.risk] == ["spills"]
    assert found.card.risk[0].seen == "s@ccccccccc"


def test_a_step_that_pays_only_by_those_after_it_names_its_loss_as_a_risk():
    lost = step(ratio=0.94, position=0.5, measured=True)
    found = induce("num-stages", [lost, step(ratio=0.995, position=0.6), step(ratio=0.9)])
    (risk,) = found.card.risk
    assert "0.94x measured" in risk.says
    assert risk.seen == "s@ccccccccc"


def test_what_never_helped_makes_no_card():
    assert induce("num-stages", [step(helped=False)]) is None


def test_one_condition_is_enough_where_one_rules_out_all():
    good = [step(before=facts(loop__trip_count=9, device__cc=90))]
    bad = [step(helped=False, before=facts(loop__trip_count=n, device__cc=80)) for n in (1, 20)]
    found, left = conditions(good, bad)
    assert [p.when for p in found] == ["device.cc >= 90"]
    assert left == []


def test_an_unknown_fact_rules_nothing_out():
    good = [step(before=facts(loop__trip_count=9))]
    bad = [step(helped=False, before=facts())]
    assert conditions(good, bad) == ([], [0])


def test_parameters_that_worked_come_in_the_order_of_their_gain():
    group = [
        step(parameters={"value": 2}, ratio=1.1),
        step(parameters={"value": 4}, ratio=1.9),
        step(parameters={"value": 9}, ratio=0.4, helped=False),
    ]
    assert induce("num-stages", group).card.carrier.grid == {"value": (4, 2)}


def test_an_effect_is_a_fact_that_moved_one_way_every_time():
    group = [
        step(
            before=facts(static__shared_bytes=100, static__registers=50),
            after=facts(static__shared_bytes=200 + n, static__registers=40 + 20 * n),
        )
        for n in (0, 1)
    ]
    effects = {e.metric: e for e in induce("num-stages", group).card.effect}
    assert effects["static.shared_bytes"].direction == "up"
    assert (effects["static.shared_bytes"].low, effects["static.shared_bytes"].high) == (2.0, 2.01)
    assert "static.registers" not in effects
    assert (effects["time"].low, effects["time"].high) == (1.5, 1.5)


def test_what_one_step_changed_is_no_effect_but_its_time():
    one = step(before=facts(static__registers=10), after=facts(static__registers=90))
    assert [e.metric for e in induce("num-stages", [one]).card.effect] == ["time"]


def test_a_card_is_read_back_as_it_was_written_and_is_a_draft_at_most_tried(tmp_path):
    group = [
        step(before=facts(code__has_mask=True, code__dot_precision="ieee")),
        step(helped=False, before=facts(code__has_mask=False)),
    ]
    card = induce("num-stages", group).card
    skill = parse_card(card_text(card), Path(tmp_path / "x.toml"))
    assert skill.card == card
    assert not skill.admitted
    assert len(card.evidence) == len(group)


def test_a_card_that_is_lifted_again_keeps_its_trials_where_that_is_asked_for(tmp_path):
    path = save(induce("num-stages", [step()]), tmp_path)
    trial = Admission(
        target="gelu on x", held_out=True, accepted=True, effect_observed=True, session="admit-1"
    )
    add_evidence(path, [], [trial])
    met = Risk(says="slower there", seen="admit-1 v1: 0.9x")
    add_risks(path, {}, [met, Risk(says="from elsewhere", seen="another v1")])
    more = induce("num-stages", [step(was={"value": 1}), step(session="t")])
    with pytest.raises(WorkbenchError, match="there is a card learned-pipelined-loads already"):
        save(more, tmp_path)
    card = read_card(save(more, tmp_path, renew=True)).card
    assert card.admission == (trial,)
    assert card.risk == (met,)
    assert [row.was for row in card.evidence] == [{"value": 1}, {}]


def test_recorded_runs_say_when_a_lineage_s_mechanism_fails_and_make_no_card():
    lineage, run = (SESSIONS / f"{name}.bundle" for name in ("fmha-lineage", "sdp-attention-h200"))
    alone = {found.card.id: found.card for found in induced_from([lineage]).cards}
    both = {found.card.id: found.card for found in induced_from([lineage], [run]).cards}
    assert both.keys() == alone.keys()
    assert not any(card.precondition for card in alone.values())
    conditions = [p for card in both.values() for p in card.precondition]
    assert conditions
    assert all("failed with" in p.says and "sdp-attention-h200@" in p.says for p in conditions)


def test_steps_of_lineages_and_runs_meet_in_their_edit():
    groups = by_mechanism([step(category="num-stages", locus=""), step(), step(edit="num-warps")])
    assert {edit: len(group) for edit, group in groups.items()} == {"num-stages": 2, "num-warps": 1}


def test_a_place_that_other_kernels_name_alike_is_a_card_of_its_own():
    group = [
        step(edit="block-size", locus=b, parameters={"block": b, "value": v})
        for b, v in (("BLOCK_M", 128), ("BLOCK_N", 256), ("BLOCK_N", 128))
    ]
    groups = by_mechanism(group)
    assert list(groups) == ["block-size BLOCK_M", "block-size BLOCK_N"]
    card = induce("block-size", groups["block-size BLOCK_N"]).card
    assert card.id == "learned-pipelined-loads-block-n"
    assert card.carrier.grid == {"block": ("BLOCK_N",), "value": (256, 128)}
    assert parse_card(card_text(card), Path("x.toml")).card == card


def test_a_card_comes_where_its_lineages_have_it():
    early, late = step(position=0.2), step(position=0.4)
    assert induce("num-stages", [early, late]).card.order == 30
    assert induce("num-stages", [step()]).card.order == 62


def chain(*ratios, **changes):
    """The steps of a lineage, naive first, each of a mechanism of its own."""
    return [
        step(
            category=f"m{place}",
            ratio=ratio,
            speed=Speed(kind=Kind.MODELED, ratio=ratio),
            position=place / len(ratios),
            **changes,
        )
        for place, ratio in enumerate(ratios, start=1)
    ]


def test_a_step_that_loses_alone_is_required_by_the_one_that_makes_it_pay():
    found = list(leaps(chain(1.9, 0.8, 1.4, 1.2)))
    assert [one.requires for one in found] == [(), (), ("m2",), ()]
    # Neither what nothing above it makes up for, nor a step of a run, is there for another.
    assert not any(one.requires for one in leaps(chain(0.8, 1.1)))
    assert not any(one.requires for one in leaps([step(ratio=0.8), step(ratio=1.4)]))


@given(st.lists(st.floats(0.2, 5.0), min_size=1, max_size=8))
def test_a_leap_gains_as_a_whole_and_ends_with_a_step_that_pays(ratios):
    speeds = [Speed(kind=Kind.MODELED, ratio=one) for one in ratios]
    steps = leap(speeds)
    if steps > 1:
        assert prod(ratios[:steps]) > PAYS >= ratios[0]
        assert ratios[steps - 1] > PAYS
    elif ratios[0] <= PAYS:
        assert all(
            prod(ratios[:n]) <= PAYS or ratios[n - 1] <= PAYS for n in range(2, len(ratios) + 1)
        )


def test_every_step_of_a_lineage_makes_a_card_and_says_what_it_gained():
    groups = by_mechanism(list(leaps(chain(0.8, 1.4))))
    assert list(groups) == ["num-stages", "num-stages m1"]
    alone, after = (induce("num-stages", group).card for group in groups.values())
    assert (alone.id, after.id) == ("learned-m1", "learned-m2-after-m1")
    assert (alone.provides, after.requires) == (("m1",), ("m1",))
    assert [(e.direction, e.low, e.high) for e in alone.effect] == [("up", 1.25, 1.25)]
    assert [(e.direction, e.low, e.high) for e in after.effect] == [("down", 1.4, 1.4)]
    assert after.evidence[0].parameters == {"value": 3}
    flat = induce("num-stages", [step(ratio=0.997), step(ratio=1.004)]).card
    assert [(e.direction, e.low, e.high) for e in flat.effect] == [("same", 0.997, 1.004)]


NUMBERS = st.integers(-50, 50) | st.floats(-1e9, 1e9, allow_nan=False)
SOME = st.fixed_dictionaries(
    {},
    optional={
        "loop__trip_count": NUMBERS,
        "static__registers": NUMBERS,
        "code__has_mask": st.booleans(),
        "arg__dot_dtype": st.sampled_from(["float32", "bfloat16"]),
    },
)


@given(st.lists(SOME, min_size=1, max_size=5), st.lists(SOME, max_size=5))
def test_every_condition_holds_where_it_helped_and_not_where_it_says_it_failed(good, bad):
    helped = [step(before=facts(**known)) for known in good]
    failed = [step(helped=False, before=facts(**known)) for known in bad]
    found, left = conditions(helped, failed)
    for predicate in found:
        assert all(holds(predicate.when, one.before) is Truth.YES for one in helped)
        assert all(
            holds(predicate.when, failed[place].before) is Truth.NO for place in predicate.excludes
        )
    ruled_out = {place for predicate in found for place in predicate.excludes}
    assert ruled_out | set(left) == set(range(len(failed)))
    assert not ruled_out & set(left)


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_the_record_does_not_matter(order):
    group = [
        step(before=facts(loop__trip_count=n, static__registers=n), helped=n > 3) for n in range(8)
    ]
    card = induce("num-stages", group[::order]).card
    assert [p.when for p in card.precondition] == ["loop.trip_count >= 4"]
