"""A worker that shares device memory may use /dev/shm, and leaves and fills nothing there."""

from pathlib import Path

import isolation_shared_jobs
import pytest
from msgspec import structs

from workbench.isolation.outcome import JobFailed, WorkerDied
from workbench.isolation.probe import probe
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.workshop import Workshop

LANDLOCK = "landlock" in {layer.name for layer in probe() if layer.ok}
needs_landlock = pytest.mark.skipif(not LANDLOCK, reason="this kernel has no Landlock")


class Sharing(Workshop):
    """Workers as confined as those that share a GPU's memory, on the CPU."""

    def _forkserver(self, setup):
        shares = structs.replace(setup.confinement, share_device_memory=True, namespaces=False)
        return super()._forkserver(structs.replace(setup, confinement=shares))


@pytest.fixture(scope="module")
def workshop():
    with Sharing(
        preload=["isolation_jobs", "isolation_reach_jobs", "isolation_shared_jobs"], wrap=False
    ) as shop:
        yield shop


@pytest.fixture
def worker(workshop):
    with workshop.worker(Flavor.BARE) as made:
        yield made


def run(worker, job, request=None, **options):
    module = "isolation_shared_jobs" if hasattr(isolation_shared_jobs, job) else "isolation_jobs"
    return worker.call(f"{module}:{job}", request or {}, **options)


def here(pid):
    return [path.name for path in Path("/dev/shm").glob(f"torch_{pid}_*")]


def closed(worker):
    worker.close_shared_memory()
    (layer,) = (one for one in worker.layers if one.name == "shared memory closed")
    assert layer.ok, layer
    worker.close_shared_memory()
    assert worker.layers[-1] is layer, "once is enough"


def test_what_it_made_goes_with_it_and_nothing_else(worker):
    other = Path("/dev/shm/torch_1_not_the_workers")
    other.write_text("somebody's")
    try:
        name = run(worker, "make_counter", {"word": "left"}).body["name"]
        assert (Path("/dev/shm") / name).exists()
        worker.close()
        assert not (Path("/dev/shm") / name).exists()
        assert other.read_text() == "somebody's"
    finally:
        other.unlink()


def test_a_file_older_than_the_worker_is_not_the_workers(workshop):
    with workshop.worker(Flavor.BARE) as worker:
        pid = int(run(worker, "make_counter", {"word": "mine"}).body["name"].split("_")[1])
        worker._born += 3600
    (left,) = here(pid)
    Path("/dev/shm", left).unlink()


@needs_landlock
def test_once_closed_it_makes_no_file_there_whatever_its_name(worker):
    closed(worker)
    with pytest.raises(JobFailed) as met:
        run(worker, "make_counter", {"word": "late"})
    assert met.value.kind == "PermissionError"
    assert worker.call("isolation_reach_jobs:try_all", {"try": ["write_shm"]}).body == {
        "write_shm": "errno 13"
    }


@needs_landlock
def test_once_closed_its_own_counters_can_be_written_and_others_cannot(worker):
    name = run(worker, "make_counter", {"word": "first"}).body["name"]
    other = Path("/dev/shm/torch_1_somebodys")
    other.write_text("somebody's")
    try:
        closed(worker)
        run(worker, "grow_counter", {"name": name, "bytes": 8})
        with pytest.raises(JobFailed, match="PermissionError"):
            run(worker, "grow_counter", {"name": other.name, "bytes": 8})
        assert other.read_text() == "somebody's"
    finally:
        other.unlink()


@needs_landlock
def test_once_closed_the_rest_of_the_sandbox_is_as_before(worker):
    closed(worker)
    assert run(worker, "write_scratch").body == {"zero": b"\0"}
    assert worker.call("isolation_reach_jobs:try_all", {"try": ["write_tmp"]}).body == {
        "write_tmp": "errno 13"
    }


def test_what_it_writes_there_counts_against_its_disk(workshop):
    limits = Limits(file_bytes=1 << 20)
    with workshop.worker(Flavor.BARE, limits) as worker:
        for word in "abc":
            run(worker, "make_counter", {"word": word, "bytes": 1 << 19})
        with pytest.raises(WorkerDied, match="scratch limit"):
            run(worker, "many_threads", {"threads": 1}, deadline=30)
        pid = worker._own_pid
    assert here(pid) == []


def test_a_worker_that_shares_nothing_is_not_asked():
    with (
        Workshop(
            preload=["isolation_jobs", "isolation_reach_jobs", "isolation_shared_jobs"], wrap=False
        ) as shop,
        shop.worker(Flavor.BARE) as made,
    ):
        made.close_shared_memory()
        assert "shared memory closed" not in {layer.name for layer in made.layers}
