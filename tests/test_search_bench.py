"""`bench search` replays one recording under every policy, from kept samples alone."""

import json
import math
import random
from itertools import combinations
from pathlib import Path

import pytest
from msgspec import structs
from typer.testing import CliRunner

from workbench.bench.model import RECORDED, modeled, read_recording
from workbench.bench.search_desk import Desk
from workbench.bench.search_records import BASE, Looked, keep, read
from workbench.bench.search_stream import streams
from workbench.bench.search_table import Row, summary, table
from workbench.cli.main import app
from workbench.errors import WorkbenchError
from workbench.measure.pairs import PairRule
from workbench.measure.records import Kind, PairSamples
from workbench.measure.trust import why_not_trusted
from workbench.problems.load import load_problem
from workbench.search.ladder import shipped_ladder

RUNGS = ("static", "smoke", "bench", "profile")
COSTS = {"static": (0.0, 3.0), "smoke": (1.5, 4.0), "bench": (3.0, 7.0), "profile": (24.0, 34.0)}
"""GPU-seconds and seconds of a rung beside its pairs."""
OPENED = {rung: wall - gpu for rung, (gpu, wall) in COSTS.items()}
"""GPU-seconds in which a rung's workers are opened beside others."""
PAIRS = {"smoke": 14, "bench": 100, "profile": 100}
SETUP, PAIR = 0.8, 0.004


def run(name: str, ratio: float, pairs: int, rng: random.Random) -> PairSamples:
    """Pairs with 1.5 % of noise."""
    seed = [100 * rng.lognormvariate(0, 0.015) for _ in range(pairs)]
    own = [100 / ratio * rng.lognormvariate(0, 0.015) for _ in range(pairs)]
    us = {"parent": tuple(seed), "candidate": tuple(own)}
    return PairSamples(run=name, us=us, gpu_seconds=SETUP + PAIR * pairs)


def looks(
    name: str, place: int, ratio: float, *, refused_at: str = "", work: str = "", **more: str
) -> list[Looked]:
    """What every rung says of a candidate that is `ratio` times as fast as the seed."""
    rng, found = random.Random(name), []
    for rung in RUNGS[:1] if name == BASE else RUNGS:
        passed = rung != refused_at
        names = {"smoke": ("first",), "bench": ("first",), "profile": ("first", "second")}
        timed = [run(one, ratio, PAIRS[rung], rng) for one in names.get(rung, ()) if passed]
        gpu, wall = COSTS[rung]
        spent = sum(one.gpu_seconds for one in timed)
        found.append(
            Looked(
                problem=more.get("problem", "softmax"),
                family=more.get("family", "normalization"),
                target="sm90",
                device="a GPU",
                source="a GPU, driver 1, 2026-11-29",
                kind=Kind.MEASURED if timed else Kind.MODELED,
                candidate=name,
                place=place,
                technique=name.partition(" ")[0],
                sha256=name,
                work=work or name,
                rung=rung,
                passed=passed,
                code="" if passed else "correctness.error-above-bound",
                modeled_us=100 / ratio if rung == "static" else None,
                runs=tuple(timed),
                gpu_seconds=gpu + spent,
                wall_seconds=wall + spent,
            )
        )
        if not passed:
            break
    return found


@pytest.fixture(scope="module")
def recorded() -> list[Looked]:
    """A stream as a search meets it: few gains, many losses, one wrong, one twice."""
    ratios = {"tile 1": 1.35, "tile 2": 1.12, "warps 4": 0.9, "warps 16": 0.75, "stages 4": 1.0}
    found = looks(BASE, 0, 1.0)
    for place, (name, ratio) in enumerate(ratios.items(), start=1):
        found += looks(name, place, ratio)
    found += looks("wrong", 7, 3.0, refused_at="smoke")
    found += looks("tile again", 8, 1.35, work="tile 1")
    return found


@pytest.fixture(scope="module")
def row(recorded: list[Looked]) -> Row:
    """Its replays."""
    return table(recorded, 40)[0]


def test_the_same_recording_gives_the_same_table(recorded: list[Looked], row: Row) -> None:
    """Whatever order its lines are in."""
    assert table(recorded[::-1], 40) == [row]


def test_the_ladder_ends_with_the_kernel_that_full_fidelity_ends_with_for_less(row: Row) -> None:
    """By what it skips: duplicates, losers, tools."""
    ladder, full = row.of("the ladder"), row.of("full")
    assert row.kind is Kind.MEASURED
    assert ladder.as_fast == 1.0
    assert ladder.same == 1.0
    assert ladder.gpu_seconds < 0.5 * full.gpu_seconds
    assert ladder.gpu_seconds < row.of("halving").gpu_seconds
    assert ladder.gpu_seconds < row.of("one rung").gpu_seconds
    assert row.of("full").same == row.of("full again").same == 1.0


def test_a_beam_saves_more_than_a_run_where_gains_follow_one_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of several gains only the best pays for the top rung; the same kernel is found."""
    monkeypatch.setitem(COSTS, "smoke", (0.2, 4.0))
    found = looks(BASE, 0, 1.0)
    for place, ratio in enumerate((0.8, 1.1, 0.9, 1.25, 1.4, 0.7, 1.6, 0.95), start=1):
        found += looks(f"t{place} x", place, ratio)
    rows = table(found, 40)
    told = {one.policy: one for one in summary(rows).policies}
    run, beam = told["a run"], told["a beam of 4"]
    assert beam.saved.share > run.saved.share > told["one rung"].saved.share
    assert beam.wall.share > told["one rung"].wall.share
    assert run.as_fast.share == beam.as_fast.share == 1.0
    assert rows[0].of("a beam of 4").gpu_seconds < rows[0].of("full").gpu_seconds / 3


def test_a_run_asks_smoke_by_what_it_cost_in_that_run(recorded: list[Looked]) -> None:
    """The same streams, with a smoke rung that costs as much as bench."""
    dear = [
        structs.replace(one, gpu_seconds=one.gpu_seconds + 30.0) if one.rung == "smoke" else one
        for one in recorded
    ]
    row = table(dear, 20)[0]
    assert row.of("a run").gpu_seconds < row.of("the ladder").gpu_seconds
    assert row.of("a run").as_fast == 1.0


def test_the_next_candidate_is_compiled_beside_the_running_one(recorded: list[Looked]) -> None:
    """Unless the running one was kept: then it was begun in vain."""
    told = [
        structs.replace(one, begun_seconds=2.0) if one.rung == "static" else one for one in recorded
    ]
    stream = streams(told)[0]
    first, second, third, *_ = stream.candidates
    desk = Desk(stream, random.Random(0))
    desk.begin(first)
    assert desk.cost.wall_seconds == pytest.approx(2.0)
    desk.looked(first, "bench")
    ran = desk.cost.wall_seconds
    desk.begin(second)
    assert desk.cost.wall_seconds == pytest.approx(ran), "it was compiled by then"
    desk.kept()
    desk.begin(third)
    assert desk.cost.wall_seconds == pytest.approx(ran + 2.0)


def priced_apart(recorded: list[Looked]) -> list[Looked]:
    """The same recording, told what of its top rung were counters."""
    return [
        structs.replace(one, counters_seconds=8.0, sanitizer_seconds=12.0)
        if one.rung == "profile" and one.passed
        else one
        for one in recorded
    ]


def test_what_is_no_faster_costs_a_run_its_pairs_and_a_gain_comparing_and_counters(
    recorded: list[Looked],
) -> None:
    """As `engine.halves` asks a GPU."""
    stream = streams(priced_apart(recorded))[0]
    named = {one.name: one for one in stream.candidates}
    desk = Desk(stream, random.Random(0))
    slow = desk.gated(named["warps 16"], stream.base)
    assert not slow.gain
    assert slow.gpu_seconds == pytest.approx(OPENED["smoke"] + SETUP + 14 * PAIR)
    kept = desk.gated(named["tile 1"], stream.base)
    runs = 2 * (SETUP + 14 * PAIR)
    assert kept.gain
    opened = OPENED["smoke"] + OPENED["bench"]
    assert kept.gpu_seconds == pytest.approx(opened + runs + COSTS["bench"][0] + 8.0)
    wrong = desk.gated(named["wrong"], stream.base)
    assert (wrong.passed, wrong.gain) == (False, False)
    first = OPENED["smoke"] + SETUP + 14 * PAIR
    assert wrong.gpu_seconds == pytest.approx(first + COSTS["smoke"][0])


def test_the_kernel_that_a_run_ends_with_is_looked_at_at_the_top_once(
    recorded: list[Looked],
) -> None:
    """So that each policy knows as much of its winner; the seed needs no such look."""
    stream = streams(priced_apart(recorded))[0]
    desk = Desk(stream, random.Random(0))
    desk.last_look(stream.base)
    assert desk.cost.gpu_seconds == 0
    desk.last_look(stream.candidates[0])
    assert desk.cost.gpu_seconds == pytest.approx(COSTS["profile"][0] - 8.0)
    whole, apart = table(recorded, 20)[0], table(priced_apart(recorded), 20)[0]
    assert apart.of("a run").gpu_seconds < whole.of("a run").gpu_seconds
    assert apart.of("full").gpu_seconds == whole.of("full").gpu_seconds
    parts = apart.of("a run").parts
    assert set(parts) == {"opening workers", "comparing", "pairs", "counters", "the last look"}
    assert sum(parts.values()) == pytest.approx(apart.of("a run").gpu_seconds)
    assert "the last look 16 s" in summary([apart]).lines[2]
    assert apart.of("a run").as_fast == 1.0


def test_openings_that_nobody_timed_are_said_to_be_charged_more(recorded: list[Looked]) -> None:
    """A reader sees which share of a run rests on them."""
    timed = [
        structs.replace(
            one, opening_seconds=1.25 if one.candidate == "tile 1" and one.rung == "bench" else 0.0
        )
        for one in recorded
    ]
    said = next(line for line in summary(table(timed, 2)).lines if "was timed in" in line)
    assert said.startswith("opening workers was timed in 1 of 18 looks (1.25 s in the middle);")
    assert said.endswith("all that their wall time leaves, 4.00 s")


def test_a_run_of_one_length_is_priced_with_the_setup_of_the_others(
    recorded: list[Looked],
) -> None:
    """Else its first pairs would seem to cost nothing."""
    alone = [one for one in recorded if one.candidate != "warps 4" or one.rung != "smoke"]
    alone = [one for one in alone if one.candidate != "warps 4" or one.rung != "profile"]
    found = {one.name: one for one in streams(alone)[0].candidates}
    assert found["warps 4"].setup_seconds == pytest.approx(SETUP, rel=0.05)
    assert found["warps 4"].pair_seconds == pytest.approx(PAIR, rel=0.1)


def test_a_wrong_candidate_wins_nowhere_and_costs_what_refusing_it_cost(
    recorded: list[Looked],
) -> None:
    """However fast it would be."""
    stream = streams(recorded)[0]
    wrong = next(one for one in stream.candidates if one.name == "wrong")
    desk = Desk(stream, random.Random(0))
    refused = desk.looked(wrong, "profile")
    assert refused is not None
    assert desk.cost.gpu_seconds == pytest.approx(COSTS["smoke"][0])
    assert table(recorded, 5)[0].refused == 1


def test_a_run_costs_its_setup_and_its_pairs(recorded: list[Looked]) -> None:
    """Learned from runs of different lengths."""
    one = streams(recorded)[0].candidates[0]
    assert one.pair_seconds == pytest.approx(PAIR)
    assert one.setup_seconds == pytest.approx(SETUP)
    desk = Desk(streams(recorded)[0], random.Random(1))
    summary_ = desk.paired(one, streams(recorded)[0].base, PairRule())
    assert summary_.low > 1.2
    assert desk.cost.gpu_seconds == pytest.approx(SETUP + PAIR * summary_.pairs)


def test_what_was_not_looked_at_at_the_top_is_priced_by_those_that_were(
    recorded: list[Looked],
) -> None:
    """And the table says of how many that is so."""
    few = [one for one in recorded if one.rung != "profile" or one.candidate == "tile 1"]
    rows = table(few, 10)
    assert rows[0].confirmed == 1
    assert "5 candidates were not looked at at the top rung" in summary(rows).lines[1]
    whole = table(recorded, 10)[0].of("full").gpu_seconds
    assert rows[0].of("full").gpu_seconds == pytest.approx(whole, rel=0.2)


def test_without_the_top_rung_nothing_is_replayed(recorded: list[Looked]) -> None:
    """Full fidelity would have no price, unless another problem of the recording has one."""
    bare = [one for one in recorded if one.rung != "profile"]
    assert table(bare, 5) == []
    assert table([*bare, *(structs.replace(one, problem="gelu") for one in recorded)], 5)[1:] == []
    other = [
        structs.replace(one, problem="gelu", pairs_seconds=0.1 if one.runs else 0.0)
        for one in recorded
    ]
    gelu, softmax = table([*bare, *other], 5)
    assert (gelu.confirmed > 0, softmax.confirmed) == (True, 0)
    assert softmax.of("full").gpu_seconds == pytest.approx(gelu.of("full").gpu_seconds, rel=0.2)
    assert "those of softmax by other problems'" in summary([gelu, softmax]).lines[1]


def test_what_a_look_told_of_its_pairs_goes_before_what_lengths_say(
    recorded: list[Looked],
) -> None:
    told = [
        structs.replace(one, pairs_seconds=0.25 * one.runs[0].gpu_seconds)
        if one.rung == "bench" and one.runs
        else one
        for one in recorded
    ]
    one = streams(told)[0].candidates[0]
    whole = SETUP + PAIR * PAIRS["bench"]
    assert one.setup_seconds == pytest.approx(0.75 * whole)
    assert one.pair_seconds == pytest.approx(0.25 * whole / PAIRS["bench"])


def test_modeled_looks_are_replayed_as_modeled(recorded: list[Looked]) -> None:
    """In seconds, and no measured time is mixed in."""
    bare = [
        structs.replace(one, kind=Kind.MODELED, runs=(), modeled_us=one.modeled_us or 90.0)
        for one in recorded
        if one.rung in {"static", "smoke"}
    ]
    rows = table(bare, 10)
    assert rows[0].kind is Kind.MODELED
    assert "seconds (modeled, no GPU)" in summary(rows).lines[0]
    assert "a beam of 2" not in {one.policy for one in summary(rows).policies}


def test_intervals_widen_with_problems_that_differ(recorded: list[Looked]) -> None:
    """Problems are drawn with replacement, not replays."""
    hard = [
        one
        for place, ratio in enumerate((1.0, 1.008, 1.016))
        for one in looks(
            BASE if place == 0 else f"x {place}", place, ratio, problem="gelu", family="elementwise"
        )
    ]
    both = summary(table([*recorded, *hard], 20))
    alone = summary(table(recorded, 20))
    assert both.saved.high - both.saved.low > alone.saved.high - alone.saved.low
    assert both.saved.low <= both.saved.share <= both.saved.high
    assert both.lines[-1].startswith("a run with one problem left out saves ")
    assert "(without gelu)" in both.lines[-1]
    assert "(without softmax)" in both.lines[-1]


def test_a_file_is_read_up_to_a_line_that_was_cut_off(
    tmp_path: Path, recorded: list[Looked]
) -> None:
    """What a machine's end left is what there is."""
    file = tmp_path / "stream.jsonl"
    for one in recorded[:3]:
        keep(file, one)
    with file.open("ab") as lines:
        lines.write(b'{"problem": "sof')
    assert read(file) == recorded[:3]
    keep(file, recorded[3])
    assert read(file) == recorded[:4], "and goes on where it was torn"
    keep(tmp_path / "two.jsonl", recorded[0])
    keep(
        tmp_path / "two.jsonl", structs.replace(recorded[1], source="another GPU, driver 1, today")
    )
    with pytest.raises(WorkbenchError, match="different grounds"):
        read(tmp_path / "two.jsonl")


def test_the_shipped_doubt_of_the_model_covers_what_the_gpu_said() -> None:
    """Of pairs of variants of a trusted problem, timed on an H200, 95 % are modeled nearer."""
    timed: dict[str, list[tuple[float, float]]] = {}
    recording = read_recording(RECORDED)
    for one in recording.variants:
        time = modeled(one, recording.target)
        trusted = one.problem and not why_not_trusted(
            load_problem(one.problem).family, recording.target
        )
        if trusted and time is not None and one.us is not None:
            timed.setdefault(one.problem, []).append((time.microseconds, one.us))
    errors = sorted(
        abs(math.log(m1 / m2 * us2 / us1))
        for own in timed.values()
        for (m1, us1), (m2, us2) in combinations(own, 2)
    )
    doubt = math.log(shipped_ladder().search.model_doubt.value)
    assert len(errors) == 538
    assert errors[int(0.95 * len(errors))] <= doubt <= errors[-1]


def test_the_command_replays_a_file_and_says_whether_the_goals_are_met(
    tmp_path: Path, recorded: list[Looked]
) -> None:
    """One object a line with --json; exit 1 where a goal is missed."""
    file = tmp_path / "stream.jsonl"
    for one in recorded:
        keep(file, one)
    said = CliRunner().invoke(
        app, ["bench", "search", "--from", str(file), "--runs", "5", "--json"]
    )
    first, last = (json.loads(line) for line in said.stdout.splitlines())
    assert first["problem"] == "softmax"
    assert said.exit_code == (0 if last["met"] else 1)
    refused = CliRunner().invoke(app, ["bench", "search"])
    assert isinstance(refused.exception, WorkbenchError)
