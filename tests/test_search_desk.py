"""What the replay of `bench search` charges for a look, a run of pairs, and waiting."""

import random

import pytest
from msgspec import structs
from test_search_bench import COSTS, OPENED, PAIR, SETUP, looks, recorded

from workbench.bench.search_desk import Desk
from workbench.bench.search_policies import Beaming, Climbing, a_run, everything, halving
from workbench.bench.search_records import BASE, Looked
from workbench.bench.search_stream import Candidate, Stream, streams
from workbench.bench.search_table import ENGINE, as_fast, summary, table
from workbench.measure.pairs import PairRule
from workbench.measure.records import Kind
from workbench.search.rungs import Ladder, RungResult

__all__ = ["recorded"]

PAIRS_AT_TOP = 100


def begun(looked: list[Looked], seconds: float) -> Stream:
    """The stream of a recording whose policy and compiler took so long for each candidate."""
    return streams(
        [
            structs.replace(one, begun_seconds=seconds) if one.rung == "static" else one
            for one in looked
        ]
    )[0]


def desk_of(stream: Stream) -> tuple[Desk, list[Candidate]]:
    return Desk(stream, random.Random(0)), list(stream.candidates)


def test_where_the_model_may_not_rank_nobody_waits_for_a_modeled_time(
    recorded: list[Looked],
) -> None:
    desk, (first, *_) = desk_of(begun(recorded, 2.0))
    assert not desk.stream.trusted
    desk.bottom(first, desk.stream.base, side_by_side=False)
    assert desk.cost.wall_seconds == pytest.approx(2.0), "policy and compiler alone"
    trusted, _ = desk_of(structs.replace(desk.stream, trusted=True))
    trusted.bottom(first, desk.stream.base, side_by_side=False)
    assert trusted.cost.wall_seconds == pytest.approx(COSTS["static"][1])


def test_what_is_begun_side_by_side_is_waited_for_once(recorded: list[Looked]) -> None:
    stream = begun(recorded, 2.0)
    for side_by_side, seconds in ((True, 2.0), (False, 4.0)):
        desk, (first, second, *_) = desk_of(stream)
        desk.bottom(first, stream.base, side_by_side=side_by_side)
        desk.bottom(second, stream.base, side_by_side=side_by_side)
        assert desk.cost.wall_seconds == pytest.approx(seconds)


def test_without_a_gpu_one_candidate_begins_after_the_other(recorded: list[Looked]) -> None:
    """Nothing else is at work that it could be compiled beside."""
    modeled = structs.replace(begun(recorded, 2.0), kind=Kind.MODELED, rungs=("static", "smoke"))
    desk, (first, second, *_) = desk_of(modeled)
    desk.begin(first)
    desk.looked(first, "smoke")
    after = desk.cost.wall_seconds
    desk.begin(second)
    assert desk.cost.wall_seconds == pytest.approx(after + 2.0)


def test_full_fidelity_times_each_candidate_twice_whatever_it_finds(
    recorded: list[Looked],
) -> None:
    desk, every = desk_of(streams(recorded)[0])
    (slow,) = (one for one in every if one.name == "warps 16")
    assert everything(desk, [slow]) is desk.stream.base
    pairs = 2 * (SETUP + 14 * PAIR)
    expected = COSTS["profile"][0] + OPENED["profile"] + pairs
    assert desk.cost.gpu_seconds == pytest.approx(expected)


def test_a_seeds_verdict_is_a_look_at_the_top_without_the_sanitizer_and_a_second_run(
    recorded: list[Looked],
) -> None:
    told = [
        structs.replace(one, sanitizer_seconds=12.0) if one.rung == "profile" else one
        for one in recorded
    ]
    desk, _ = desk_of(streams(told)[0])
    run = SETUP + PAIR * PAIRS_AT_TOP
    beside = COSTS["profile"][0] - 12.0
    assert desk.a_seed() == pytest.approx(beside + OPENED["profile"] / 2 + run)


def test_openings_within_the_gpu_seconds_are_charged_once(recorded: list[Looked]) -> None:
    """A recording that tells them has them in the GPU-seconds of a look."""
    told = [
        structs.replace(
            one,
            opening_seconds=OPENED[one.rung],
            gpu_seconds=one.gpu_seconds + OPENED[one.rung],
        )
        if one.runs
        else one
        for one in recorded
    ]
    costs = []
    for looked in (recorded, told):
        desk, every = desk_of(streams(looked)[0])
        desk.looked(every[0], "bench")
        costs.append(desk.cost.gpu_seconds)
    assert costs[0] == pytest.approx(costs[1])
    assert costs[0] == pytest.approx(COSTS["bench"][0] + OPENED["bench"])


class Watched(Desk):
    """Keeps the names of those that were asked, and where."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream, random.Random(0))
        self.asked: list[tuple[str, str]] = []

    def gated(self, one: Candidate, against: Candidate) -> RungResult:
        self.asked.append((one.name, "gate"))
        return super().gated(one, against)

    def result(self, one: Candidate, against: Candidate, rung: str, rule: PairRule) -> RungResult:
        self.asked.append((one.name, rung))
        return super().result(one, against, rung, rule)


def stream_of(*ratios: float, **changes: object) -> Stream:
    found = looks(BASE, 0, 1.0)
    for place, ratio in enumerate(ratios, start=1):
        found += looks(f"t{place} x", place, ratio)
    return structs.replace(streams(found)[0], **changes)


def test_a_beam_gates_the_best_and_none_that_its_gain_made_slower() -> None:
    desk = Watched(stream_of(1.1, 1.6, 1.12, 1.15))
    best = Beaming(Ladder.load(), 4)(desk, desk.stream.candidates)
    assert best.name == "t2 x"
    assert [name for name, at in desk.asked if at == "gate"] == ["t2 x"]


def test_a_modeled_loss_is_against_the_incumbent_of_the_moment() -> None:
    """What was worth a look at first is none once the incumbent is five times as fast."""
    desk = Watched(stream_of(5.0, 1.05, 1.02, trusted=True))
    assert Climbing(Ladder.load())(desk, desk.stream.candidates).name == "t1 x"
    assert {name for name, _ in desk.asked} == {"t1 x"}


def test_the_same_work_in_another_text_is_asked_once(recorded: list[Looked]) -> None:
    desk = Watched(streams(recorded)[0])
    a_run(Ladder.load())(desk, desk.stream.candidates)
    gated = [name for name, _ in desk.asked]
    assert gated.count("tile 1") + gated.count("tile again") == 1


def test_halving_keeps_the_better_half_rounded_up_and_gives_it_four_times_the_pairs() -> None:
    desk = Watched(stream_of(1.5, 1.2, 0.9))
    assert halving(desk, desk.stream.candidates).name == "t1 x"
    asked = (("smoke", 3, 14), ("bench", 2, 4 * 14), ("profile", 1, 16 * 14))
    paid = [
        count * (COSTS[rung][0] + OPENED[rung] + SETUP + pairs * PAIR)
        for rung, count, pairs in asked
    ]
    assert desk.cost.gpu_seconds == pytest.approx(sum(paid))


# Streams


def test_one_candidate_beside_the_seed_is_no_stream() -> None:
    seed, one, two = looks(BASE, 0, 1.0), looks("a x", 1, 1.2), looks("b x", 2, 1.1)
    assert streams([*seed, *one]) == []
    assert streams([*one, *two]) == [], "nor are two without their seed"
    assert len(streams([*seed, *one, *two])) == 1


def test_work_that_nobody_knows_is_nobodys_work(recorded: list[Looked]) -> None:
    first, second, *_ = (
        structs.replace(
            one, looks={rung: structs.replace(look, work="") for rung, look in one.looks.items()}
        )
        for one in streams(recorded)[0].candidates
    )
    assert not first.same_work(second)
    assert first.same_work(first)


def test_no_pair_is_charged_less_than_it_says_that_it_took() -> None:
    """Where a whole run took less than the others' setup."""
    (slow, *_), *others = (looks(name, n, 1.0) for n, name in enumerate(("a x", "b x", "c x"), 1))
    bench = next(one for one in looks("a x", 1, 1.0) if one.rung == "bench")
    (run,) = bench.runs
    us = {side: times[:28] for side, times in run.us.items()}
    quick = structs.replace(bench, runs=(structs.replace(run, us=us, gpu_seconds=SETUP / 2),))
    found = streams([*looks(BASE, 0, 1.0), slow, quick, *(one for some in others for one in some)])
    (one,) = (c for c in found[0].candidates if c.name == "a x")
    assert one.pair_seconds == pytest.approx(2e-6 * one.us)
    assert one.setup_seconds == pytest.approx(SETUP / 2 - 28 * one.pair_seconds)


# The table


def fast(name: str, ratio: float) -> Candidate:
    (found,) = (one for one in stream_of(1.0, ratio).candidates if one.name == name)
    return found


def test_one_percent_slower_is_as_fast_and_two_are_not() -> None:
    """By the threshold that a gain has to pass, over all samples."""
    best = structs.replace(fast("t1 x", 1.0), logs=(0.30,) * 9)
    for slower, told in ((0.005, True), (0.02, False)):
        other = structs.replace(fast("t2 x", 1.0), logs=(0.30 - slower,) * 9)
        assert as_fast(other, best) is told
        assert as_fast(best, other) is True


def test_problems_that_all_did_the_same_prove_no_more_than_their_number(
    recorded: list[Looked],
) -> None:
    row = table(recorded, 3)[0]
    for count in (1, 5):
        rows = [structs.replace(row, problem=f"p{number}") for number in range(count)]
        told = summary(rows).same
        assert (told.share, told.high) == (1.0, 1.0)
        assert told.low == pytest.approx(0.025 ** (1 / count))


def test_a_goal_that_is_missed_is_missed_whatever_the_other_says(recorded: list[Looked]) -> None:
    row = table(recorded, 3)[0]

    def with_run(**changes: float) -> bool:
        policies = tuple(
            structs.replace(one, **changes) if one.policy == ENGINE else one for one in row.policies
        )
        return summary([structs.replace(row, policies=policies)]).met

    cheap = row.of("full").gpu_seconds / 10
    assert with_run(gpu_seconds=cheap, same=1.0)
    assert not with_run(gpu_seconds=cheap, same=0.94)
    assert not with_run(gpu_seconds=3 * cheap, same=1.0)
