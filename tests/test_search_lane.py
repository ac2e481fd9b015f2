"""The time of a recording is spent on the GPU: nothing waits for what is slow beside it."""

import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from msgspec import structs
from test_search_bench import run

from workbench.bench.search_lane import Lane, side_by_side
from workbench.bench.search_looks import Made
from workbench.bench.search_record import _Share
from workbench.bench.search_records import BASE, Looked
from workbench.errors import WorkbenchError
from workbench.measure.records import Kind
from workbench.search.rungs import Ladder

PAIRS = {"smoke": 14, "bench": 100, "profile": 100}


class Looks:
    """A looker that answers at once, but for what `hangs` at the bottom rung until `go`."""

    def __init__(self, *names: str, hangs: str = "", wrong: str = "", gpu: bool = True) -> None:
        ladder = Ladder.load()
        self.problem = SimpleNamespace(name="softmax")
        self.place = SimpleNamespace(index=0 if gpu else None)
        self.facts = SimpleNamespace(shapes=(1, 2))
        self.profiler = None
        self.rungs = (ladder if gpu else ladder.without_gpu()).rungs
        self.made = [Made(name, f"# {name}\n", place) for place, name in enumerate((BASE, *names))]
        self.fails = ""
        self.hangs, self.wrong, self.go = hangs, wrong, threading.Event()

    def look(self, one: Made, rung) -> Looked:
        if rung.name == "bench" and one.name == self.fails:
            raise WorkbenchError("no worker starts")
        if rung.name == "static" and one.name == self.hangs:
            self.go.wait(20)
        pairs = PAIRS.get(rung.name, 0) if self.place.index is not None else 0
        ratio = 1 + 0.1 * one.place
        timed = (run("first", ratio, pairs, random.Random(one.place)),) if pairs else ()
        passed = not (one.name == self.wrong and rung.name == "bench")
        return Looked(
            problem="softmax",
            family="",
            target="sm90",
            device="a GPU",
            source="a GPU, today",
            kind=Kind.MEASURED if timed else Kind.MODELED,
            candidate=one.name,
            place=one.place,
            sha256=one.name,
            rung=rung.name,
            passed=passed,
            runs=timed if passed else (),
            gpu_seconds=1.0,
            wall_seconds=2.0,
        )


NAMES = tuple("abcdef")


def looked_at(looks: Looks, *, seconds: float = 1000.0, done=()) -> Iterator[Looked]:
    """What a lane looks at, as it comes."""
    pool = ThreadPoolExecutor(2)
    try:
        lane = Lane(looks, done, lambda _says: None, pool)
        yield from lane.looks(time.monotonic() + seconds)
    finally:
        pool.shutdown(wait=False)


def rows(found) -> list[tuple[str, str]]:
    return [(one.candidate, one.rung) for one in found]


def test_every_candidate_comes_to_bench_and_a_few_to_the_other_rungs() -> None:
    found = rows(looked_at(Looks(*NAMES)))
    by_rung = {rung: [name for name, at in found if at == rung] for _, rung in found}
    assert sorted(by_rung["static"]) == sorted((BASE, *NAMES))
    assert sorted(by_rung["bench"]) == sorted(NAMES)
    assert len(by_rung["smoke"]) == 1
    assert by_rung["profile"] == ["f"], "the fastest"
    assert found.index(("f", "profile")) > found.index(("f", "bench"))


def test_one_that_takes_long_to_trace_delays_no_other() -> None:
    looks = Looks(*NAMES, hangs="a")
    found: list[tuple[str, str]] = []
    for one in looked_at(looks):
        found.append((one.candidate, one.rung))
        if sum(rung == "bench" for _, rung in found) == len(NAMES) - 1:
            looks.go.set()
    benched = [name for name, rung in found if rung == "bench"]
    assert benched[-1] == "a"
    assert sorted(benched) == sorted(NAMES)


def test_when_its_time_is_over_nobody_waits_for_what_hangs() -> None:
    looks = Looks(*NAMES, hangs="a")
    try:
        found = rows(looked_at(looks, seconds=0.0))
        assert all(rung == "static" for _, rung in found), "nothing is begun on the GPU"
        assert ("a", "static") not in found
    finally:
        looks.go.set()


def test_time_for_the_top_rung_is_kept() -> None:
    """By the ladder's prices at first, then by what looks took."""
    prices = {rung.name: rung.spec.wall.value for rung in Ladder.load().rungs}
    short = prices["profile"] + prices["bench"] - 1
    found = rows(looked_at(Looks(*NAMES), seconds=short))
    assert {rung for _, rung in found} == {"static"}
    enough = rows(looked_at(Looks(*NAMES), seconds=short + 30))
    assert [rung for _, rung in enough].count("profile") >= 1


def test_what_looks_took_goes_before_the_ladders_price() -> None:
    dear = [structs.replace(one, wall_seconds=2000.0) for one in looked_at(Looks(*NAMES))]
    done = [one for one in dear if one.rung != "bench" or one.candidate == "a"]
    assert rows(looked_at(Looks(*NAMES), seconds=1000.0, done=done)) == []


@pytest.mark.parametrize(("cores", "lanes", "beside"), [(16, 1, 7), (16, 4, 1), (2, 1, 1)])
def test_half_of_the_cores_that_the_gpus_work_leaves_compile(
    monkeypatch: pytest.MonkeyPatch, cores: int, lanes: int, beside: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cores)))
    assert side_by_side(lanes) == beside


def test_what_is_wrong_is_looked_at_no_further_and_what_was_recorded_not_again() -> None:
    looks = Looks(*NAMES, wrong="f")
    first = list(looked_at(looks))
    assert ("f", "profile") not in rows(first)
    assert [name for name, rung in rows(first) if rung == "profile"] == ["e"]
    assert rows(looked_at(looks, done=first)) == []


def test_a_look_for_which_no_worker_starts_loses_that_candidate_alone() -> None:
    looks = Looks(*NAMES)
    looks.fails = "c"
    found = rows(looked_at(looks))
    assert {name for name, rung in found if rung == "bench"} == {*NAMES} - {"c"}
    assert ("f", "profile") in found


def test_without_a_gpu_every_candidate_comes_to_every_rung() -> None:
    found = rows(looked_at(Looks("a", "b", gpu=False)))
    assert sorted(found) == sorted((n, r) for n in (BASE, "a", "b") for r in ("static", "smoke"))


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_problems_share_the_time_that_is_left_over_the_gpus(lanes: int) -> None:
    names = [f"p{number}" for number in range(8)]
    share = _Share(list(names), lanes, time.monotonic() + 800.0)
    assert [share.next() for _ in names] == names
    assert share.next() is None
    first = share.until() - time.monotonic()
    assert first == pytest.approx(800.0 / -(-8 // lanes), abs=5.0)
    for _ in names[2:]:
        share.until()
    assert share.until() - time.monotonic() == pytest.approx(800.0, abs=5.0), "the last has all"
    assert side_by_side(lanes) >= 1
