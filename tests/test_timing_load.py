"""A host that others keep busy decides nothing, and hides nobody's work."""

import os
import selectors
import socket
import threading
import time

import pytest
from timing_parts import Match, codes, empty_turns, noisy

from workbench.gate.correctness.nest import Branch
from workbench.gate.correctness.protocol import Reading
from workbench.gate.records import Outcome
from workbench.gate.timing.ring_protocol import timed_call
from workbench.gate.timing.sides import CANDIDATE
from workbench.gate.timing.turns import Empty, Turn, disagreement
from workbench.isolation.link import Link
from workbench.isolation.records import Flavor
from workbench.isolation.wire import NONCE_BYTES, Answer, frame
from workbench.isolation.workshop import Workshop

PROMPT = empty_turns(0.0)
LOADED = {"late_of_four": 4}
"""Five milliseconds in every turn."""


def stood_in(beside_us: float, *, late_us: float = 0.0):
    """A stand-in whose turns keep the judge waiting so long."""

    def turn(*, bare: bool) -> Turn:
        ahead = 0.0 if bare else 120.0
        wall = ahead + 12.0 + late_us
        reading = Reading(device_us=2.0, host_us=10.0, wall_us=wall, ahead_us=ahead)
        return Turn(reading=reading, judge_us=wall + ahead + beside_us)

    return turn


def judged(**more):
    return Match(new=noisy(50.0), old=noisy(100.0), **more).judged()


def test_a_loaded_host_decides_nothing_where_a_stand_in_waits_as_long():
    assert codes(judged(candidate=LOADED, parent=LOADED))[0] == "profile.clocks-disagree"
    profiled = judged(candidate=LOADED, parent=LOADED, stand_in=stood_in(7_000.0))
    assert profiled.report.outcome is Outcome.PASSED
    assert profiled.speed.pairs == 14


def test_an_expert_on_a_loaded_host_is_timed_alone_too():
    profiled = Match(new=noisy(400.0), candidate=LOADED, stand_in=stood_in(7_000.0)).judged()
    assert profiled.report.outcome is Outcome.PASSED


def test_work_beside_the_clock_is_seen_while_the_stand_in_is_prompt():
    profiled = judged(candidate=LOADED, stand_in=stood_in(2_000.0))
    assert profiled.report.outcome is Outcome.UNPROVEN
    assert codes(profiled)[0] == "profile.clocks-disagree"


@pytest.mark.parametrize("late_us", [0.0, 300.0])
def test_no_stand_in_lets_work_pass_that_outlasts_the_events(late_us):
    hiding = {"hides_us": 300.0}
    profiled = judged(candidate=hiding, stand_in=stood_in(2_000.0, late_us=late_us))
    refused = profiled.report.outcome is Outcome.FAILED
    assert refused is (late_us == 0.0)
    assert profiled.report.outcome is not Outcome.PASSED
    assert profiled.speed is None


def test_a_stand_in_s_few_turns_say_nothing():
    turn = stood_in(9_000.0)(bare=False)
    late = [stood_in(7_000.0)(bare=False)] * 9
    assert disagreement(late, [], PROMPT, Empty(held=(turn,) * 2)) is not None
    assert disagreement(late, [], PROMPT, Empty(held=(turn,) * 3)) is None


def test_a_burst_on_the_host_is_outvoted_by_more_pairs():
    burst = {"late_of_four": 4, "late_until": 30}
    match = Match(new=noisy(50.0), old=noisy(100.0), candidate=burst, parent=burst)
    profiled = match.judged()
    assert profiled.report.outcome is Outcome.PASSED
    assert len(profiled.samples[0].us[CANDIDATE]) > 14


def test_a_lasting_load_leaves_it_open_after_four_times_the_pairs():
    match = Match(new=noisy(50.0), old=noisy(100.0), candidate=LOADED, parent=LOADED)
    profiled = match.judged()
    assert profiled.report.outcome is Outcome.UNPROVEN
    assert 56 <= len(profiled.samples[0].us[CANDIDATE]) < 80


def test_work_hidden_in_most_turns_never_decides_however_many_pairs_there_are():
    profiled = judged(candidate={"late_of_four": 3}, stand_in=stood_in(2_000.0))
    assert profiled.report.outcome is Outcome.UNPROVEN


def test_no_walk_of_ours_through_host_code_is_part_of_its_wait():
    """A stand-in has no host code to walk through, so that it would not explain the wait."""
    assert not timed_call(Branch("list", ()), bare=False, reset_state=False).remembers


def test_the_judge_s_own_looks_are_no_part_of_its_wait():
    ours, theirs = socket.socketpair()
    leash, keeper = socket.socketpair()
    (out, their_out), (err, their_err) = os.pipe(), os.pipe()
    link = Link(ours, out, err, leash, keep_bytes=64)
    nonce = bytes(NONCE_BYTES)
    answered = b"".join(frame(nonce, Answer(body={}, blobs=[]), []))
    worker = threading.Thread(target=lambda: (theirs.recv(16), theirs.sendall(answered)))
    worker.start()
    looked: list[float] = []

    def look() -> None:
        with selectors.DefaultSelector() as nothing:
            nothing.select(0.05)
        looked.append(time.monotonic())

    link.exchange([nonce], nonce, data_cap=0, left=lambda: 60.0, watch=look)
    assert len(looked) >= 1
    assert 0.0 < link.waited <= time.monotonic() - looked[0]
    worker.join()
    link.close()
    for end in (theirs, keeper):
        end.close()
    for pipe in (their_out, their_err):
        os.close(pipe)


def test_a_worker_that_computes_unasked_is_seen_at_it():
    with Workshop(preload=("isolation_jobs",)) as shop, shop.worker(Flavor.REFERENCE) as worker:
        worker.call("isolation_jobs:echo", {})
        at_rest = worker.work()
        assert worker.work().since(at_rest) < 0.05
        worker.call("isolation_jobs:burn_aside", {})
        before = worker.work()
        while not (did := worker.work().since(before)):
            pass
        assert did > 0
        assert worker.work().pids == before.pids != ()
    assert worker.work().since(before) == float("inf")
