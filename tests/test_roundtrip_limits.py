"""Roundtrips within limits: what a killed run keeps, what a limit ends, and in which words."""

import time
from pathlib import Path

from engine_parts import report
from msgspec import structs
from test_admission import EXIT, LOOKS, SEED, WARPS, ground
from test_roundtrip import trial

from workbench.bench import lines
from workbench.bench.leaps import leap
from workbench.bench.lineage_ends import Ends
from workbench.bench.roundtrip import newest, read_trials, summaries
from workbench.bench.roundtrip_group import Ask, Clock, Ending, Group, Shares
from workbench.bench.roundtrip_tries import leaps, within
from workbench.bench.roundtrip_workload import Workload
from workbench.engine.create import RunRequest
from workbench.measure.records import Kind
from workbench.session.records import Budget, Mode


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


def group_of(**changes):
    """A group of trials whose workload opens nothing before it is asked."""
    ask = Ask(
        lineages=(),
        cards=Path(),
        trials=9,
        steps=1,
        forms=("bare",),
        leap=True,
        jobs=1,
        seconds=None,
        gpu_seconds=None,
        device="cpu",
        target="",
        sessions=Path(),
    )
    ask = structs.replace(ask, **{k: v for k, v in changes.items() if k in Ask.__struct_fields__})
    ends = Ends(problem="gelu", target="sm90", naive="", expert="", report=report(), steps=())
    request = RunRequest(
        problem="gelu",
        kernel=Path(),
        mode=Mode.AUTO,
        device=ask.device,
        target="sm90",
        budget=Budget(),
        proposer="skills",
        name="",
        stem="",
        sessions=Path(),
    )
    return Group(
        ask=ask,
        ends=ends,
        workload=Workload(ends, request, print, users=1),
        naive=Path(),
        form="bare",
        library=ground().library,
        way=None,
        shares=Shares(changes.get("end"), 1, 1),
        tell=print,
        note=print,
        ending=Ending(),
    )


def test_gpu_seconds_that_are_spent_are_a_limit():
    group = group_of(gpu_seconds=20.0)
    clock = group.clock()
    clock.gpu_spent += 16.0
    assert clock.over() == ""
    clock.gpu_spent += 8.0
    assert (clock.over(), clock.left) == ("20 GPU-seconds", (None, -4.0))


def test_seconds_that_a_verdict_takes_are_kept_back():
    clock = Clock(1000.0, None)
    assert clock.over(reserve=900.0) == ""
    assert clock.over(reserve=1001.0) == "1000 s"


def test_trials_without_time_have_a_row_that_says_so():
    (row,) = leaps(group_of(end=0.0, trials=3))
    assert (row.state, row.steps, row.reached, row.ratio) == ("cut", 0, False, None)
    assert row.why == "trials 1 to 3 not begun: ended by 0 s"
    stopped = group_of(trials=1)
    stopped.workload._took.append(30.0)  # a verdict that was given: a signal does not wait for it
    stopped.ending.ask()
    (row,) = leaps(stopped)
    assert row.why == "trial 1 not begun: ended by a signal"


def test_seconds_that_a_group_did_not_need_are_left_to_the_others():
    now = time.monotonic()
    shares = Shares(now + 90.0, 3, 1)
    assert 29.0 < shares.next() <= 30.0
    # The first was over at once.
    assert 44.0 < shares.next() <= 45.0
    assert 89.0 < shares.next() <= 90.0
    abreast = Shares(now + 90.0, 3, 3)
    assert all(89.0 < abreast.next() <= 90.0 for _ in range(3))
    assert Shares(None, 3, 1).next() is None


def test_a_later_call_takes_the_next_numbers_and_undoes_no_verdict():
    group = group_of(trials=2, kept=frozenset({("gelu", "bare", "leap", 1)}))
    assert group.numbers == (2, 3)
    judged, cut = trial(), trial(state="cut", reached=False, ratio=None)
    assert newest([judged, cut]) == [judged]
    assert newest([cut, judged]) == [judged]


def test_numbers_of_two_machines_are_not_put_together():
    here = trial(device="NVIDIA H200", ratio=1.0, seconds=30.0)
    there = trial(number=2, ratio=0.5, kind=Kind.MODELED)
    cut = trial(number=3, state="cut", reached=False, ratio=None)
    rows = summaries([here, there, cut])
    assert [(r.device, r.trials, r.ratio, r.cut) for r in rows] == [
        ("NVIDIA H200", 1, 1.0, 0),
        ("", 1, 0.5, 1),
    ]
    assert [(r.kind, r.seconds, r.until_seconds) for r in rows] == [
        (Kind.MEASURED, 30.0, 30.0),
        (Kind.MODELED, None, None),
    ]
