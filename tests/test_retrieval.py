"""Retrieval: which cards a place is in the scope of, and how far a recorded lineage carries."""

from fact_kit import launch, tensor
from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.lineages import lineage_of
from workbench.paths import shipped
from workbench.search.retrieval import (
    Input,
    Place,
    Recorded,
    Step,
    inputs_of,
    likeness,
    longest_way,
    outside,
    retrieve,
    unlike,
)
from workbench.skills.library import load_library
from workbench.skills.records import Card, Carrier, Scope

X = Input(dtype="float32", shape=(4096, 1024), order=(1, 0))


def place(**changes):
    values = {"family": "normalization", "platform": "sm90", "inputs": (X,), "statement": "softmax"}
    return Place(**{**values, **changes})


def card(**changes):
    return Card(id="c", title="t", intent="i", carrier=Carrier(sketch="x"), **changes)


def step(name, requires=(), provides=(), conflicts=(), before=None, after=None, **more):
    return Step(
        card=name,
        requires=requires,
        provides=provides,
        conflicts=conflicts,
        before_us=before,
        after_us=after,
        **more,
    )


def recorded(*steps, name="line", **changes):
    return Recorded(name=name, place=place(**changes), steps=steps)


def test_a_scope_covers_by_name_or_by_anything():
    assert outside(card(), place()) == ""
    assert outside(card(scope=Scope(families=("gemm",))), place()) == "made for gemm"
    assert outside(card(scope=Scope(languages=("cuda",))), place()) == "made for cuda"
    assert outside(card(scope=Scope(platforms=("sm100", "*"))), place()) == ""
    assert outside(card(scope=Scope(platforms=("sm100",))), place()) == "made for sm100"


def test_what_was_done_before_and_what_is_there_count():
    after = card(scope=Scope(after=("a",), not_after=("b",)))
    assert outside(after, place()) == "comes after a"
    assert outside(after, place(prior=("a",))) == ""
    assert outside(after, place(prior=("a", "b"))) == "does not follow b"
    needs = card(requires=("tile",), conflicts=("persistent",))
    assert outside(needs, place()) == "requires tile"
    assert outside(needs, place(features=frozenset({"tile"}))) == ""
    both = frozenset({"tile", "persistent"})
    assert outside(needs, place(features=both)) == "conflicts with persistent"


def test_the_cards_in_scope_come_in_the_plain_order(tmp_path):
    library = load_library(tmp_path)
    orders = [skill.card.order for skill in library.skills.values()]
    assert orders == sorted(orders)
    card = library.skill("tile-attention").card
    assert outside(card, place()) == "made for attention"
    assert outside(card, place(family="attention")) == ""


def test_a_lineage_speaks_only_of_the_like():
    assert unlike(place(), place()) == ""
    other = (
        ({"family": "gemm"}, "another family"),
        ({"platform": "sm80"}, "another platform"),
        ({"language": "cuda"}, "another language"),
        ({"inputs": (X, X)}, "2 inputs"),
        ({"inputs": (Input(dtype="bfloat16", shape=(1, 1), order=(1, 0)),)}, "other dtypes"),
        ({"inputs": (Input(dtype="float32", shape=(1,), order=(0,)),)}, "other ranks"),
        ({"inputs": (Input(dtype="float32", shape=(1, 1), order=(0, 1)),)}, "order of strides"),
    )
    for changes, says in other:
        assert says in unlike(place(**changes), place())


def test_the_longest_way_leaves_out_what_is_there_and_may_begin_in_the_middle():
    line = recorded(
        step("on-chip", provides=("row",)),
        step("warps"),
        step("masks", requires=("row",), provides=("unmasked",)),
    )
    way = longest_way(line, place(features=frozenset({"row"})))
    assert (way.first, way.cards, way.present) == (0, ("warps", "masks"), ("on-chip",))
    blocked = recorded(step("split", conflicts=("row",)), step("warps"), step("masks"))
    way = longest_way(blocked, place(features=frozenset({"row"})))
    assert (way.first, way.cards) == (1, ("warps", "masks"))


def test_a_way_stops_at_a_conflict_a_missing_requirement_or_a_step_by_hand():
    for last, says in (
        (step("b", requires=("tile",)), "b requires tile"),
        (step("b", conflicts=("row",)), "b conflicts with row"),
        (step(""), "no card led to"),
    ):
        way = longest_way(recorded(step("a", provides=("row",)), last), place())
        assert way.cards == ("a",)
        assert says in way.stopped


def test_nothing_that_can_be_gone_is_no_way():
    assert longest_way(recorded(), place()) is None
    assert longest_way(recorded(step("a", requires=("x",))), place()) is None


def test_a_gain_is_that_of_the_span_and_never_a_product():
    modeled = recorded(
        step("a", before=100.0, after=80.0, modeled=True),
        step("b", before=80.0, after=50.0, modeled=True),
    )
    assert longest_way(modeled, place()).gain == 2.0
    measured = recorded(
        step("a", before=100.0, after=80.0, versus_seed=1.25),
        step("b", before=81.0, after=50.0, versus_seed=1.9),
    )
    assert longest_way(measured, place()).gain == 1.9
    middle = recorded(step("z", requires=("no",)), *measured.steps)
    assert longest_way(middle, place()).gain is None, "two runs make no ratio"
    one = recorded(step("a", before=100.0, after=80.0))
    assert longest_way(one, place()).gain == 1.25


def test_the_longest_comes_first_and_then_the_likest():
    long = recorded(step("a"), step("b"), name="long", statement="other words")
    like = recorded(step("a"), name="like", statement="softmax")
    far = recorded(step("a"), name="far", statement="nothing alike")
    small = Input(dtype="float32", shape=(8, 8), order=(1, 0))
    tiny = recorded(step("a"), name="tiny", statement="softmax", inputs=(small,))
    gemm = recorded(step("a"), step("b"), step("c"), name="gemm", family="gemm")
    found = retrieve([far, tiny, like, gemm, long], place())
    assert [w.lineage for w in found] == ["long", "like", "tiny", "far"]
    assert likeness(like, place())[:2] == (1.0, 1.0)


def test_of_two_alike_the_one_that_gained_more_comes_first():
    less, more = (
        recorded(step("a", before=before, after=80.0), name=name)
        for name, before in (("a-line", 90.0), ("b-line", 160.0))
    )
    assert [way.lineage for way in retrieve([less, more], place())] == ["b-line", "a-line"]


def test_a_feature_that_the_way_itself_provides_is_made_again_where_it_comes_again():
    twice = recorded(step("a", provides=("x",)), step("b", provides=("x",)))
    assert longest_way(twice, place()).cards == ("a", "b")
    there = longest_way(recorded(*twice.steps, step("c")), place(features=frozenset("x")))
    assert (there.cards, there.present) == (("c",), ("a", "b"))


def test_of_equal_strides_the_later_dimension_is_the_smaller():
    (found,) = inputs_of((launch("k", (1,), {"x": tensor(4, 1, 1, strides=(1, 1, 1))}),))
    assert found.order == (2, 1, 0)
    (rows,) = inputs_of((launch("k", (1,), {"x": tensor(4, 8)}),))
    assert rows.order == (1, 0)


STEPS = st.lists(
    st.builds(
        Step,
        card=st.sampled_from(["a", "b", ""]),
        requires=st.lists(st.sampled_from("xyz"), max_size=2).map(tuple),
        provides=st.lists(st.sampled_from("xyz"), max_size=2).map(tuple),
        conflicts=st.lists(st.sampled_from("xyz"), max_size=1).map(tuple),
    ),
    max_size=6,
)


@given(STEPS, st.frozensets(st.sampled_from("xyz")))
def test_every_step_of_a_way_could_really_be_taken(steps, features):
    way = longest_way(recorded(*steps), place(features=features))
    if way is None:
        return
    have, taken = set(features), []
    for one in steps[way.first :]:
        if len(taken) == len(way.cards):
            break
        if one.provides and set(one.provides) <= features:
            continue
        assert set(one.requires) <= have
        assert not set(one.conflicts) & have
        have |= set(one.provides)
        taken.append(one.card)
    assert tuple(taken) == way.cards


def test_a_recorded_session_is_a_lineage(tmp_path):
    line = lineage_of(shipped("sessions") / "rmsnorm-h200.bundle", load_library(tmp_path))
    assert (line.place.family, line.place.platform) == ("normalization", "sm90")
    assert [s.card for s in line.steps] == ["loop-to-tile"]
    assert line.place.inputs[0].dtype == "float32"
    way = longest_way(line, line.place)
    assert way.cards == ("loop-to-tile",)
    assert round(way.gain, 3) == 1.443
