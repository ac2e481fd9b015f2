"""The ladder decides from results alone: who climbs, who waits, who is given up, and why."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from workbench.measure.records import Kind
from workbench.search.ladder import shipped_ladder
from workbench.search.prices import learned
from workbench.search.rungs import Action, Ladder, RungResult

LADDER = Ladder.load()
NAMES = [rung.name for rung in LADDER.rungs]


def measured(rung: str, ratio: float, low: float, high: float, **more: object) -> RungResult:
    """A passed result with an interval."""
    return RungResult(
        rung=rung, passed=True, kind=Kind.MEASURED, ratio=ratio, low=low, high=high,
        **more,
    )  # fmt: skip


@st.composite
def results(draw: st.DrawFn, *, passed: bool | None = None) -> RungResult:
    """Any result of any rung: timed or not, modeled or measured, with ends or without."""
    timed = draw(st.booleans())
    kind = draw(st.sampled_from([Kind.MODELED, Kind.MEASURED]))
    ratio = draw(st.floats(0.01, 50)) if timed else None
    ends = timed and kind is Kind.MEASURED and draw(st.booleans())
    return RungResult(
        rung=draw(st.sampled_from(NAMES)),
        passed=draw(st.booleans()) if passed is None else passed,
        unproven=draw(st.booleans()),
        kind=kind,
        ratio=ratio,
        low=ratio * draw(st.floats(0.5, 1)) if ends and ratio else None,
        high=ratio * draw(st.floats(1, 2)) if ends and ratio else None,
        gain=timed and kind is Kind.MEASURED and draw(st.booleans()),
        gpu_seconds=draw(st.floats(0, 100)),
        wall_seconds=draw(st.floats(0, 100)),
    )


@given(st.lists(results(), max_size=4, unique_by=lambda one: one.rung), st.booleans())
def test_the_same_results_give_the_same_standing(own: list[RungResult], trusted: bool) -> None:
    """Deterministic, whatever order the rungs are told in and whoever reads the ladder."""
    asked = [
        ladder.standing(order, trusted=trusted)
        for ladder in (LADDER, Ladder.load())
        for order in permutations(own)
    ]
    assert all(one == asked[0] for one in asked)


@given(results(passed=False), st.lists(results(), max_size=3), st.booleans())
def test_a_candidate_that_failed_is_never_promoted(
    failed: RungResult, others: list[RungResult], trusted: bool
) -> None:
    """Neither by a fast time nor by what it passed before."""
    standing = LADDER.standing([failed, *others], trusted=trusted)
    assert standing.action is not Action.PROMOTE or failed.unproven


def test_a_gain_over_another_kernel_is_none_over_the_incumbent() -> None:
    """The pairs' own test was against their base, which the incumbent has left behind."""
    over_base = measured("bench", 1.05, 1.02, 1.08, gain=True)
    incumbent = measured("bench", 1.20, 1.18, 1.22)
    assert LADDER.standing([over_base]).action is Action.PROMOTE
    assert LADDER.standing([over_base], incumbent=incumbent).action is Action.PRUNE


def test_what_the_machine_could_not_judge_is_held_and_not_given_up() -> None:
    unknown = RungResult(rung="bench", passed=False, unproven=True)
    assert LADDER.standing([unknown]).action is Action.HOLD
    given_up = LADDER.standing([structs.replace(unknown, unproven=False)])
    assert (given_up.action, given_up.score) == (Action.PRUNE, 0.0)


def test_what_may_be_a_gain_climbs_and_is_not_kept_at_the_top() -> None:
    maybe = measured("bench", 1.02, 0.99, 1.05)
    assert LADDER.standing([maybe]).rung == "profile"
    assert LADDER.without("profile").standing([maybe]).action is Action.HOLD


def test_a_price_is_learned_from_the_last_costs_alone() -> None:
    memory = int(LADDER.file.search.price_memory.value)
    history = [
        measured("bench", 1.0, 1.0, 1.0, gpu_seconds=seconds, wall_seconds=seconds)
        for seconds in (*[90.0] * 5 * memory, *[1.5] * memory)
    ]
    found = learned(history, LADDER.file)
    assert found == learned(history[-memory:], LADDER.file)
    assert (found.of("bench").gpu_seconds, found.of("bench").seen) == (1.5, memory)
    # One that hung until its time limit does not price a rung out of the budget.
    once, never = (learned(some, LADDER.file).of("bench") for some in (history[:1], []))
    assert once.gpu_seconds == never.gpu_seconds


def test_a_ratio_of_two_intervals_is_as_wide_as_both_allow() -> None:
    found = LADDER.interval(
        measured("bench", 1.2, 1.1, 1.3), measured("bench", 1.05, 1.0, 1.1), trusted=True
    )
    assert found is not None
    assert found.ratio == pytest.approx(1.2 / 1.05)
    assert (found.low, found.high) == (pytest.approx(1.1 / 1.1), pytest.approx(1.3 / 1.0))


@given(st.sampled_from(NAMES), st.floats(0.2, 5), st.floats(1.0, 1.5), st.floats(1.0001, 3))
def test_whose_interval_lies_above_the_incumbents_is_never_pruned(
    rung: str, middle: float, width: float, apart: float
) -> None:
    """Held at worst, because the gain is too small to count."""
    incumbent = measured("profile", middle, middle / width, middle * width)
    low = middle * width * apart
    candidate = measured(rung, low * width, low, low * width**2)
    standing = LADDER.standing([candidate], incumbent=incumbent)
    assert standing.action is not Action.PRUNE


@pytest.mark.parametrize(
    ("ratio", "trusted", "action"),
    [(0.4, True, Action.PRUNE), (0.9, True, Action.PROMOTE), (0.4, False, Action.PROMOTE)],
)
def test_a_modeled_loss_prunes_only_where_the_model_is_trusted_and_beyond_its_doubt(
    ratio: float, trusted: bool, action: Action
) -> None:
    """Elsewhere the next rung has to tell."""
    modeled = RungResult(rung="static", passed=True, ratio=ratio)
    assert LADDER.standing([modeled], trusted=trusted).action is action


def test_without_a_gpu_a_modeled_loss_is_held_where_the_model_is_not_trusted() -> None:
    """The top rung there measures nothing: a gain is kept as modeled, a loss refuses nobody."""
    ladder = Ladder.load().without_gpu()
    slow = RungResult(rung="smoke", passed=True, ratio=0.9)
    fast = RungResult(rung="smoke", passed=True, ratio=1.2)
    assert ladder.standing([slow], trusted=False).action is Action.HOLD
    assert ladder.standing([slow], trusted=True).action is Action.PRUNE
    kept = ladder.standing([fast], trusted=False)
    assert (kept.action, kept.rung) == (Action.PROMOTE, "")
    assert "not trusted to rank here" in kept.reason
    at_the_bound = RungResult(rung="smoke", passed=True, ratio=1.01)
    assert ladder.standing([at_the_bound], trusted=True).action is Action.PRUNE


def test_a_gain_that_the_pairs_prove_climbs_though_a_short_kernels_interval_is_wide() -> None:
    """The interval holds what processes differ by, which the test asks for once only."""
    found = measured("bench", 1.03, 1.004, 1.06)
    assert LADDER.standing([found]).action is Action.PROMOTE
    assert LADDER.standing([measured("profile", 1.03, 1.004, 1.06)]).action is Action.HOLD
    proven = measured("profile", 1.03, 1.004, 1.06, gain=True)
    assert LADDER.standing([proven]).action is Action.PROMOTE


def test_kinds_are_never_mixed_in_one_ratio() -> None:
    """A measured incumbent says nothing of a modeled candidate."""
    incumbent = measured("bench", 1.5, 1.4, 1.6)
    modeled = RungResult(rung="static", passed=True, ratio=0.1)
    assert LADDER.standing([modeled], incumbent=incumbent, trusted=True).action is Action.PROMOTE


def test_a_price_is_the_median_of_what_a_rung_cost() -> None:
    """One candidate that hung until its time limit changes little."""
    cheap = [measured("smoke", 1, 0.9, 1.1, gpu_seconds=2.0, wall_seconds=3.0)] * 9
    hung = measured("smoke", 1, 0.9, 1.1, gpu_seconds=600.0, wall_seconds=600.0)
    price = learned([*cheap, hung], LADDER.file).of("smoke")
    assert (price.gpu_seconds, price.wall_seconds, price.seen) == (2.0, 3.0, 10)
    assert learned([], LADDER.file).of("smoke").gpu_seconds == LADDER.rung("smoke").spec.gpu.value


def changed(rung: str, **numbers: float) -> Ladder:
    """The shipped ladder with other numbers at a rung."""
    file = shipped_ladder()
    spec = file.rung[rung]
    new = {key: structs.replace(getattr(spec, key), value=value) for key, value in numbers.items()}
    rungs = {**file.rung, rung: structs.replace(spec, **new)}
    return Ladder(structs.replace(file, rung=rungs))


def test_what_may_be_slower_is_no_gain_whatever_bound_a_person_sets() -> None:
    lax = changed("profile", promote_above=0.9, prune_below=0.5)
    maybe = measured("profile", 1.0, 0.95, 1.05)
    assert lax.standing([maybe]).action is Action.HOLD
    assert lax.standing([measured("profile", 1.05, 1.001, 1.1)]).action is Action.PROMOTE


def test_who_has_proven_more_goes_before_an_equal_one() -> None:
    """By the rung's own term of the score."""
    scores = [LADDER.standing([measured(name, 1.2, 1.1, 1.3)]).score for name in NAMES[1:]]
    terms = [LADDER.rung(name).spec.bonus.value for name in NAMES[1:]]
    assert scores == pytest.approx([1.1 + term for term in terms])
    assert scores == sorted(set(scores))


def test_a_declared_price_holds_where_costs_are_not_to_be_remembered() -> None:
    """And each kind of seconds has its own."""
    file = LADDER.file
    none = structs.replace(file.search.price_memory, value=0.0)
    forgetful = structs.replace(file, search=structs.replace(file.search, price_memory=none))
    dear = [measured("bench", 1, 0.9, 1.1, gpu_seconds=99.0, wall_seconds=99.0)] * 9
    told = learned(dear, forgetful).of("bench")
    assert (told.gpu_seconds, told.seen) == (file.rung["bench"].gpu.value, 0)
    free = structs.replace(file, search=structs.replace(file.search, price_prior=none))
    bottom = learned([], free).of("static")
    assert (bottom.gpu_seconds, bottom.wall_seconds) == (0.0, file.rung["static"].wall.value)
    assert bottom.wall_seconds > 0
