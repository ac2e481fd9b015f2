"""Workers started ahead are used once, are never dead, and are nobody's fault."""

import os
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from workbench.errors import WorkbenchError
from workbench.isolation.forkserver import ended
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.spares import Spares
from workbench.isolation.workshop import Workshop

SMALL = (Flavor.BARE, Limits(wall_seconds=60.0))
OTHER = (Flavor.BARE, Limits(wall_seconds=61.0))


@pytest.fixture
def shop():
    with Workshop(preload=("isolation_jobs",)) as made:
        yield made


@pytest.fixture
def spares():
    made = Spares()
    yield made
    made.close()


def test_each_is_given_once_and_works(shop, spares):
    spares.order(SMALL, SMALL, start=shop.worker)
    given = [spares.take(SMALL), spares.take(SMALL)]
    assert given[0] is not given[1]
    for word, worker in zip("ab", given, strict=True):
        told = worker.call("isolation_jobs:remember", {"word": word}).body
        assert told == {"calls": [word]}
    assert spares.take(SMALL) is None


def test_one_of_other_limits_is_none_of_that_kind(shop, spares):
    spares.order(SMALL, start=shop.worker)
    assert spares.take(OTHER) is None
    assert spares.take(SMALL) is not None


def test_no_more_are_started_than_were_ordered_at_once():
    started = []

    def start(flavor: Flavor, limits: Limits):
        started.append((flavor, limits))

    spares = Spares()
    spares.order(SMALL, SMALL, start=start)
    spares.order(SMALL, OTHER, start=start)
    spares.wait()
    spares.close()
    assert Counter(started) == {SMALL: 2, OTHER: 1}


def test_one_that_is_still_starting_is_waited_for(shop):
    asked, may = threading.Event(), threading.Event()

    def start(flavor: Flavor, limits: Limits):
        asked.set()
        may.wait()
        return shop.worker(flavor, limits)

    spares = Spares()
    spares.order(SMALL, start=start)
    asked.wait()
    threading.Thread(target=may.set).start()
    assert spares.take(SMALL).alive
    spares.close()


def test_one_that_has_died_is_not_given(shop):
    started = []

    def start(flavor: Flavor, limits: Limits):
        started.append(shop.worker(flavor, limits))
        return started[-1]

    spares = Spares()
    spares.order(SMALL, SMALL, start=start)
    spares.wait()
    keeper = started[0].keeper_pid
    watched = os.pidfd_open(keeper)
    os.kill(keeper, signal.SIGKILL)
    assert ended(watched, 60.0)
    os.close(watched)
    assert spares.take(SMALL) is started[1]
    assert spares.take(SMALL) is None
    assert started[0].closed
    spares.close()


def test_one_that_does_not_start_is_told_to_nobody_but_who_asks():
    def start(_flavor: Flavor, _limits: Limits):
        raise WorkbenchError("no GPU today")

    spares = Spares()
    spares.order(SMALL, start=start)
    spares.wait()
    assert spares.take(SMALL) is None
    spares.close()


def test_dropped_ones_are_closed_and_a_closed_workshop_leaves_none(shop):
    started = []

    def start(flavor: Flavor, limits: Limits):
        started.append(shop.worker(flavor, limits))
        return started[-1]

    spares = Spares()
    spares.order(SMALL, SMALL, start=start)
    spares.drop()
    assert [worker.closed for worker in started] == [True, True]
    assert spares.take(SMALL) is None
    spares.order(SMALL, start=start)
    spares.wait()
    spares.close()
    shop.close()
    assert started[2].closed


def test_without_a_gpu_none_is_started(shop):
    shop.spare(SMALL, exercises={})
    shop.spared()
    assert shop.scratch_left() == []
    assert shop.worker(*SMALL).alive


def test_a_workshop_that_closes_waits_for_no_start(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "begun")
    (tmp_path / "never_loaded.py").write_text(
        f"import signal\nopen({str(tmp_path / 'begun')!r}, 'w').close()\nsignal.pause()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        with Workshop(preload=["never_loaded"], wrap=False) as closing:
            worker = pool.submit(closing.worker, Flavor.BARE)
            (tmp_path / "begun").read_bytes()
        with pytest.raises(WorkbenchError, match="the workshop is closed"):
            worker.result()
