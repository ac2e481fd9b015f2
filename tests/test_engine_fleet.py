"""Several GPUs in one session: one candidate on each, a sick one left out, commits in one order."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from engine_parts import report
from gpu_parts import SECONDS, sick, stations
from msgspec import structs
from session_kit import transition

from workbench.engine.depth import depth_of
from workbench.engine.fleet import Fleet, Station, open_fleet
from workbench.engine.history import History
from workbench.engine.parts import GivenUp
from workbench.engine.sittings import Ear
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Verdict
from workbench.isolation.workshop import Workshop
from workbench.measure.records import Kind, Time
from workbench.session.records import SessionSettings


def fleet(count: int, told=lambda _says: None, **how: bool) -> Fleet:
    return Fleet(None, stations(count), told, **how)


def turn(*, come: bool = True) -> Ear:
    ear = Ear(lambda _told: None)
    if come:
        ear.attend()
    return ear


def on(station: Station) -> GateReport:
    return structs.replace(report(), gpu_seconds=1.0, device=str(station.index))


def test_each_gpu_has_one_candidate_and_all_have_one():
    shared = fleet(3)
    inside: list[int] = []
    meeting = threading.Barrier(3)

    def job(station: Station) -> GateReport:
        assert station.index not in inside
        inside.append(station.index)
        meeting.wait(SECONDS)
        inside.remove(station.index)
        return on(station)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: shared.work(turn(), job), range(6)))
    assert {one.gpu for one in found} == {"cuda:0 GPU-0", "cuda:1 GPU-1", "cuda:2 GPU-2"}
    assert all(one.gpu.startswith(f"cuda:{one.device} ") for one in found)


def test_whose_turn_has_come_goes_before_what_is_begun_ahead():
    shared = fleet(1)
    order: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def first(station: Station) -> GateReport:
        begun.set()
        go.wait(SECONDS)
        return on(station)

    def told(name: str):
        def job(station: Station) -> GateReport:
            order.append(name)
            return on(station)

        return job

    ahead, late = turn(come=False), turn(come=False)
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(shared.work, turn(), first)]
        begun.wait(SECONDS)
        asked.append(pool.submit(shared.work, ahead, told("ahead")))
        while len(shared._waiting) < 1:
            time.sleep(0.001)
        asked.append(pool.submit(shared.work, late, told("its turn")))
        while len(shared._waiting) < 2:
            time.sleep(0.001)
        late.attend()
        go.set()
        for one in asked:
            one.result(SECONDS)
    assert order == ["its turn", "ahead"]


def test_who_is_given_up_waits_no_longer_and_leaves_the_gpu_to_others():
    shared = fleet(1)
    ear = Ear(lambda _told: None, shared.wake)
    begun, go = threading.Event(), threading.Event()

    def holds(station: Station) -> GateReport:
        begun.set()
        go.wait(SECONDS)
        return on(station)

    with ThreadPoolExecutor(2) as pool:
        holder = pool.submit(shared.work, turn(), holds)
        begun.wait(SECONDS)
        waiter = pool.submit(shared.work, ear, on)
        ear.give_up()
        with pytest.raises(GivenUp):
            waiter.result(SECONDS)
        go.set()
        assert holder.result(SECONDS).gpu == "cuda:0 GPU-0"
    assert shared.work(turn(), on).gpu == "cuda:0 GPU-0"


def test_a_sick_gpu_is_left_out_and_the_candidate_is_gated_on_another():
    heard: list[str] = []
    shared = fleet(3, heard.append)

    def job(station: Station) -> GateReport:
        return on(station) if station.index == 2 else sick(station)

    found = shared.work(turn(), job)
    assert (found.gpu, found.verdict) == ("cuda:2 GPU-2", Verdict.ACCEPTED)
    assert found.gpu_seconds == 3.0, "what the sick ones took is paid for"
    assert len(heard) == 2
    assert "cuda:0 GPU-0 is left out, the run goes on with cuda:1, cuda:2" in heard[0]
    assert "the canary is wrong" in heard[0]
    assert shared.work(turn(), on).gpu == "cuda:2 GPU-2"
    assert not shared.several


def test_the_last_gpus_word_is_taken_as_it_is():
    assert fleet(2).work(turn(), sick).verdict is Verdict.UNPROVEN


def test_a_gpu_whose_workers_do_not_start_is_left_out_and_the_last_one_says_why():
    def job(station: Station) -> GateReport:
        if station.index == 0:
            raise WorkbenchError("the GPU did not start in a worker")
        return on(station)

    shared = fleet(2)
    ear = turn()
    assert shared.work(ear, job).gpu == "cuda:1 GPU-1"
    assert ear.wasted > 0
    with pytest.raises(WorkbenchError, match="did not start"):
        fleet(1).work(turn(), job)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_falls_sick_or_is_given_up_no_gpu_works_for_two_and_nobody_is_forgotten(seed):
    """Many candidates at once on four GPUs, of which up to three fall sick in the middle."""
    rng = random.Random(seed)
    out: list[str] = []
    shared = fleet(4, out.append)
    ill = {n: rng.randint(1, 6) for n in rng.sample(range(4), rng.randint(1, 3))}
    busy, done, lock = [False] * 4, [0] * 4, threading.Lock()
    after_sick: list[int] = []

    def job(station: Station) -> GateReport:
        with lock:
            assert not busy[station.index], "two candidates on one GPU"
            busy[station.index] = True
            done[station.index] += 1
            if done[station.index] > ill.get(station.index, 1000):
                after_sick.append(station.index)
            fell = done[station.index] == ill.get(station.index)
        time.sleep(0.001)
        with lock:
            busy[station.index] = False
        return sick(station) if fell else on(station)

    turns = [turn(come=rng.random() < 0.3) for _ in range(40)]

    def ask(ear: Ear) -> GateReport | None:
        try:
            return shared.work(ear, job)
        except GivenUp:
            return None

    given_up = rng.sample(turns, 8)
    with ThreadPoolExecutor(len(turns)) as pool:
        asked = [pool.submit(ask, ear) for ear in turns]
        for ear in given_up:
            ear.give_up()
            shared.wake()
        found = [one.result(SECONDS) for one in asked]
    assert after_sick == [], "a GPU that fell sick was used again"
    fell = {n for n, after in ill.items() if done[n] >= after}
    assert len(out) == len(fell)
    for ear, one in zip(turns, found, strict=True):
        assert one is not None or ear in given_up
        assert one is None or one.verdict is Verdict.ACCEPTED, "requeued on one that is well"
    assert sum(one.gpu_seconds for one in found if one) <= sum(done)


def test_candidates_go_ahead_on_other_gpus_only_where_there_are_some():
    assert [fleet(n).ahead for n in (0, 1, 2)] == [True, False, True]
    assert not fleet(2, ahead=False).ahead


def settings(**changed) -> SessionSettings:
    made = new_settings()
    return structs.replace(made, **changed)


def new_settings() -> SessionSettings:
    return SessionSettings(
        name="one",
        problem="softmax",
        mode="auto",
        device="NVIDIA H200",
        device_index=0,
        target="sm90",
        budget={},
        created="",
    )


def test_every_gpu_has_a_candidate_and_one_more_is_compiled():
    assert depth_of(settings(), cores=16) == 1
    assert depth_of(settings(device_indices=(0, 1, 2, 3)), cores=64) == 4
    assert depth_of(settings(device_indices=(0, 1, 2, 3)), cores=3) == 2
    assert depth_of(settings(beam=4), cores=64) == 0


# Times of two GPUs


def timed(number: int, parent: int | None, us: float, gpu: str):
    made = transition(number, parent)
    time_ = Time(kind=Kind.MEASURED, microseconds=us)
    return structs.replace(made, gate=structs.replace(made.gate, time=time_, gpu=gpu))


def test_the_best_of_two_gpus_is_the_one_that_the_pairs_found_faster():
    line = History().plus(timed(0, None, 100.0, "cuda:0")).plus(timed(1, 0, 90.0, "cuda:0"))
    assert line.best.number == 1
    elsewhere = line.plus(timed(2, 1, 90.5, "cuda:1"))
    assert elsewhere.best.number == 2, "a slower GPU, and a faster kernel"
    assert elsewhere.plus(timed(3, 2, 90.2, "cuda:0")).best.number == 3
    assert line.plus(timed(2, 0, 95.0, "cuda:1")).best.number == 1, "no pairs say otherwise"


def test_a_session_opens_a_station_for_each_gpu_that_its_settings_name(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with Workshop() as home:
        shared = open_fleet(settings(device_indices=(0, 3)), home, (), lambda _says: None)
        try:
            names = {shared.work(turn(), on).gpu for _ in range(2)}
            assert names == {"cuda:0", "cuda:3"}, "one that is not there shows when it is used"
        finally:
            shared.close()
        elsewhere = settings(device_index=1, device_indices=(0, 3))
        assert not open_fleet(elsewhere, home, (), lambda _says: None).several
        on_cpu = settings(device="cpu", device_index=None, device_indices=(0, 3))
        assert not open_fleet(on_cpu, home, (), lambda _says: None).measures
