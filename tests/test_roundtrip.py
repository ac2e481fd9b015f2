"""Roundtrips over whole workloads: what bare cards are, what is counted, and why a trial failed."""

from pathlib import Path

import pytest
from test_induce import step

from workbench.bench import lines
from workbench.bench.roundtrip import (
    Trial,
    lacking,
    learned_library,
    read_trials,
    stripped,
    summaries,
    uncarded,
)
from workbench.errors import WorkbenchError
from workbench.kernels.inverses.registry import INVERSES
from workbench.lineage.removals import removable
from workbench.measure.records import Kind
from workbench.problems.load import load_problem
from workbench.skills.card import parse_card

CARD = """
id = "learned-warps"
title = "Warps"
intent = "More of them."
anchor = "a launch"
[scope]
families = ["gemm"]
platforms = ["sm90"]
[carrier]
edit = "num-warps"
[carrier.grid]
value = [8]
[[precondition]]
says = "long loops"
when = "loop.trip_count >= 8"
category = "pipeline"
[[risk]]
says = "spills"
when = "static.registers > 200"
seen = "s@1"
"""


def trial(**changes):
    plain = {
        "workload": "gemm",
        "number": 1,
        "cards": "whole",
        "reached": True,
        "ratio": 1.0,
        "kind": Kind.MEASURED,
        "steps": 6,
        "gpu_seconds": 60.0,
        "session": "roundtrip-gemm-whole-1",
    }
    return Trial(**(plain | changes))


def test_a_bare_card_says_what_to_do_and_neither_where_nor_when():
    whole = parse_card(CARD, Path("learned-warps.toml"))
    plain = stripped(whole, "bare")
    assert plain.card.carrier == whole.card.carrier
    assert plain.card.scope.families == ("*",)
    assert plain.card.scope.platforms == whole.card.scope.platforms
    card = plain.card
    assert (card.precondition, card.risk, card.anchor) == ((), (), "")
    assert (plain.preconditions, plain.risks) == ((), ())


def test_a_library_of_learned_cards_has_them_alone_and_asks_for_all(tmp_path):
    with pytest.raises(WorkbenchError, match="there are no cards to go by"):
        learned_library(tmp_path, "whole")
    (tmp_path / "learned-warps.toml").write_text(CARD)
    for form in ("whole", "bare"):
        library = learned_library(tmp_path, form)
        assert set(library.skills) == library.pinned == {"learned-warps"}
    assert learned_library(tmp_path, "whole").skill("learned-warps").preconditions


def test_what_a_kernel_lacks_is_named_by_mechanism():
    expert = load_problem("gemm").expert.read_text()
    flatten = next(i for i in INVERSES if i.category == "loop-flatten")
    (found,) = flatten.removables(expert, "gemm_kernel")
    assert lacking(expert, expert) == []
    assert lacking(expert, found.source) == ["loop-flatten"]
    naive = load_problem("gemm").seed.read_text()
    missing = {i.category for i, _, _ in removable(expert)}
    assert set(lacking(expert, naive)) <= missing
    assert "persistent-programs" in lacking(expert, naive)


def test_whole_and_bare_cards_are_summed_apart():
    found = summaries(
        [
            trial(),
            trial(number=2, reached=False, ratio=0.8, steps=15, gpu_seconds=90.0),
            trial(cards="bare", reached=False, ratio=None, steps=15),
        ]
    )
    assert [(s.cards, s.reached, s.trials) for s in found] == [("whole", 1, 2), ("bare", 0, 1)]
    assert found[0].ratio == pytest.approx(0.9)
    assert found[0].gpu_seconds == pytest.approx(75.0)
    assert found[1].ratio is None


def test_kept_trials_are_read_back(tmp_path):
    file = tmp_path / "trials.jsonl"
    kept = [trial(), trial(number=2, reached=False, why="lacks warps")]
    for one in kept:
        lines.append(file, one)
    assert read_trials(file) == kept
    file.write_text("[]\n")
    with pytest.raises(WorkbenchError, match=r"no kept trial: .*\n.*line 1"):
        read_trials(file)


def test_what_it_cost_until_the_first_trial_reached_it_is_summed():
    group = [
        trial(reached=False, steps=9, gpu_seconds=20.0, wrong=1),
        trial(number=2, reached=False, steps=7, gpu_seconds=10.0, slower=1, refused=2),
        trial(number=3, steps=5, gpu_seconds=5.0, identical=True),
        trial(number=4, steps=5, gpu_seconds=0.0, identical=True),
    ]
    (found,) = summaries(group)
    assert found.until == (3, 21, 35.0)
    assert (found.wrong, found.slower, found.refused, found.identical) == (1, 1, 2, 2)
    (never,) = summaries(group[:2])
    assert never.until is None


def test_a_mechanism_without_a_card_is_named(tmp_path):
    (tmp_path / "learned-warps.toml").write_text(CARD)
    library = learned_library(tmp_path, "whole")
    steps = [
        step(category="warps", edit="num-warps"),
        step(category="fused-loops", edit="fuse-loops", ratio=0.81),
        step(category="pipelined-loads", edit="num-stages"),
    ]
    told = uncarded(steps, library)
    assert set(told) == {"fused-loops", "pipelined-loads"}
    assert told["pipelined-loads"] == "no card here carries pipelined-loads"
