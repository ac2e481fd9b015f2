"""Roundtrips within limits: what a killed run keeps, what a limit ends, and in which words."""

from pathlib import Path

from engine_parts import report
from msgspec import structs
from test_admission import EXIT, LOOKS, SEED, WARPS, ground
from test_roundtrip import trial

from workbench.bench import lines
from workbench.bench.leaps import leap
from workbench.bench.lineage_ends import Ends
from workbench.bench.roundtrip import read_trials, summaries
from workbench.bench.roundtrip_group import Ask, Clock, Ending, Group
from workbench.bench.roundtrip_tries import within


def test_a_leap_that_may_not_go_on_stays_where_it_is():
    seen = []

    def goes_on(made):
        seen.append(made)
        return len(seen) < 2

    made = leap(ground(WARPS, LOOKS, EXIT), SEED, 1, 15, goes_on)
    assert [one.taken for one in seen] == [made.taken[:1], made.taken[:2]]
    whole = leap(ground(WARPS, LOOKS, EXIT), SEED, 1, 15)
    assert whole.taken[:2] == made.taken
    assert len(whole.taken) == 3


def test_a_trial_that_did_not_reach_it_says_within_what_and_how_far_it_came():
    slower = trial(reached=False, ratio=0.8136, steps=7, why="lacks warps")
    assert within(slower, "120 s").why.startswith(
        "did not reach it within 7 steps and 120 s; best so far 0.814x of the expert's speed; "
    )
    assert within(slower, "120 s").state == "limit"
    wrong = structs.replace(slower, ratio=None)
    assert "within 7 steps; best so far not timed" in within(wrong, "").why
    assert within(trial(), "120 s") == trial()


def test_a_killed_run_keeps_every_trial_as_far_as_it_came(tmp_path):
    file = tmp_path / "trials.jsonl"
    for steps in (1, 2, 3):
        lines.append(file, trial(state="cut", reached=False, ratio=None, steps=steps))
    lines.append(file, trial(steps=3))
    lines.append(file, trial(number=2, state="cut", reached=False, ratio=None, steps=1))
    with file.open("ab") as out:
        out.write(b'{"workload":"gemm","number":2,"ca')
    first, second = read_trials(file)
    assert first == trial(steps=3)
    assert (second.state, second.steps) == ("cut", 1)
    (found,) = summaries([first, second])
    assert (found.trials, found.reached, found.cut) == (1, 1, 1)


def test_no_trial_begins_once_the_gpu_seconds_are_spent():
    clock = Clock(None, 20.0)
    group = Group(
        ask=Ask(
            lineages=(),
            cards=Path(),
            trials=9,
            steps=1,
            forms=("bare",),
            leap=True,
            jobs=1,
            seconds=None,
            gpu_seconds=20.0,
            device="cpu",
            target="",
            sessions=Path(),
        ),
        ends=Ends(problem="p", target="sm90", naive="", expert="", report=report(), steps=()),
        naive=Path(),
        form="bare",
        library=ground().library,
        way=None,
        seconds=None,
        tell=print,
        note=print,
        ending=Ending(),
    )
    begun = []
    for number in group.numbers(clock):
        begun.append(number)
        clock.gpu_spent += 8.0
    assert (begun, clock.over, clock.left) == ([1, 2, 3], "20 GPU-seconds", (None, -4.0))
    group.ending.ask()
    assert list(group.numbers(group.clock())) == []
