"""On a GPU: the driver starts inside the sandbox, faults stay in their worker, handles cross."""

from pathlib import Path

import pytest

from workbench.isolation.bubblewrap import program
from workbench.isolation.outcome import JobFailed, WorkerDied, WorkerTimedOut
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import CLOSED, NO_PROGRAMS
from workbench.isolation.workshop import Workshop

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", params=[True, False], ids=["wrapped", "bare"])
def workshop(request):
    if request.param and program() is None:
        pytest.skip("bubblewrap is not installed")
    with Workshop(device_index=0, preload=["isolation_cuda_jobs"], wrap=request.param) as shop:
        yield shop


def run(worker, job, request=None, blobs=(), **options):
    # No job here takes long on a GPU that is well: a hang is to show as one.
    options.setdefault("deadline", 30)
    return worker.call(f"isolation_cuda_jobs:{job}", request or {}, blobs, **options)


def take_raw_and_wait(worker, size):
    """The watch may be quicker than the answer; else it comes at its next look at the driver."""
    assert run(worker, "take_raw", {"bytes": size}).body == {"status": 0}
    run(worker, "wait", {"seconds": 1.0})


def test_the_gpu_starts_inside_the_sandbox(workshop):
    with workshop.worker(Flavor.CUDA) as worker:
        told = run(worker, "who").body
        layers = {layer.name: layer for layer in worker.layers}
    print(worker.isolation, {n: (la.ok, la.detail) for n, la in layers.items()}, told)
    assert told["device"] == "cuda:0"
    assert told["devices"] == 1
    assert worker.isolation != "process only"
    assert layers["landlock"].ok
    assert layers["seccomp"].ok


def test_triton_compiles_launches_and_gives_up_exec(workshop):
    with workshop.worker(Flavor.CUDA) as worker:
        assert run(worker, "double", {"n": 1000}).body["error"] == 0.0
        assert run(worker, "seal").body["refused"]
        assert run(worker, "double", {"n": 1000}).body["error"] == 0.0


def test_a_fault_on_the_device_ends_one_worker_and_no_other(workshop):
    with workshop.worker(Flavor.CUDA) as bystander:
        with workshop.worker(Flavor.CUDA) as worker, pytest.raises((JobFailed, WorkerDied)):
            run(worker, "reach_out_of_bounds")
        assert run(bystander, "double", {"n": 100}).body["error"] == 0.0


def test_a_kernel_that_never_ends_is_killed_and_the_next_worker_computes(workshop):
    with workshop.worker(Flavor.CUDA) as worker, pytest.raises(WorkerTimedOut):
        run(worker, "spin", deadline=10)
    with workshop.worker(Flavor.CUDA) as after:
        assert run(after, "double", {"n": 100}).body["error"] == 0.0


def test_device_memory_is_capped(workshop):
    limits = Limits(device_bytes=1 << 30)
    with workshop.worker(Flavor.CUDA, limits) as worker:
        with pytest.raises(JobFailed) as met:
            run(worker, "take", {"bytes": 2 << 30})
        assert met.value.kind == "OutOfMemoryError"


def test_a_cap_moved_before_the_candidate_holds_in_its_allocator(workshop):
    with workshop.worker(Flavor.CUDA) as worker:
        worker.allow_device_bytes(1 << 30)
        with pytest.raises(JobFailed) as met:
            run(worker, "take", {"bytes": 2 << 30})
        assert met.value.kind == "OutOfMemoryError"
        use = worker.device_use()
    print(use)
    assert use is not None
    assert use.limit == 1 << 30
    assert use.free is not None
    assert not use.starved


def test_memory_past_the_allocator_ends_the_worker(workshop):
    with workshop.worker(Flavor.CUDA) as worker:
        watched = {layer.name: layer for layer in worker.layers}["gpu memory watch"]
        print(watched)
        worker.allow_device_bytes(1 << 30)
        if not watched.ok:
            pytest.skip(f"the driver does not tell: {watched.detail}")
        with pytest.raises(WorkerDied, match="gpu memory limit") as met:
            take_raw_and_wait(worker, 6 << 30)
        assert met.value.held > 6 << 30
        assert met.value.limit == 1 << 30
    with workshop.worker(Flavor.CUDA) as after:
        assert run(after, "double", {"n": 100}).body["error"] == 0.0


def test_a_worker_compiles_nothing_that_our_own_code_compiled_before():
    with (
        Workshop(device_index=0, preload=["isolation_cuda_jobs:ahead"]) as shop,
        shop.worker(Flavor.CUDA) as one,
        shop.worker(Flavor.CUDA) as other,
    ):
        found = run(one, "compiled").body["files"]
        assert any(name.endswith(".cubin") for name in found)
        assert run(one, "double", {"n": 1000}).body["error"] == 0.0
        assert run(one, "compiled").body["files"] == found
        # Not what was made ahead: it is compiled, and only here.
        assert run(one, "double", {"n": 1000, "block": 256}).body["error"] == 0.0
        assert len(run(one, "compiled").body["files"]) > len(found)
        assert run(other, "compiled").body["files"] == found


def test_a_reference_sees_the_gpu_too(workshop):
    with workshop.worker(Flavor.REFERENCE) as worker:
        assert run(worker, "who").body["device"] == "cuda:0"


def test_tensors_cross_by_handle_and_leave_no_counter_behind():
    with (
        Workshop(device_index=0, preload=["isolation_cuda_jobs"], share_device_memory=True) as shop,
        shop.worker(Flavor.REFERENCE) as owner,
        shop.worker(Flavor.CUDA) as guest,
    ):
        shared = run(owner, "lend", {"n": 4096}).blobs
        assert [blob.kind for blob in shared] == ["cuda-ipc"] * 2
        assert run(guest, "borrow", {}, shared).body == {"sum": 4096 * 4095 / 2, "columns": 64}
        # What is shared is the guest's: it may write, and the owner sees it.
        assert run(owner, "first").body == {"first": -1.0}
        own = {*owner.pids, *guest.pids}
    # Others' processes share there too, and come and go meanwhile.
    assert [p for p in own for _ in Path("/dev/shm").glob(f"torch_{p}_*")] == []


def test_a_worker_that_shares_makes_no_file_once_that_is_closed():
    with (
        Workshop(device_index=0, preload=["isolation_cuda_jobs"], share_device_memory=True) as shop,
        shop.worker(Flavor.REFERENCE) as guest,
        shop.worker(Flavor.CUDA) as owner,
    ):
        owner.close_shared_memory()
        (layer,) = (one for one in owner.layers if one.name == CLOSED)
        print(layer)
        assert layer.ok
        shared = run(owner, "lend", {"n": 4096}).blobs
        assert run(guest, "borrow", {}, shared).body == {"sum": 4096 * 4095 / 2, "columns": 64}
        assert run(owner, "double", {"n": 1000}).body["error"] == 0.0
        with pytest.raises(JobFailed, match="PermissionError"):
            run(owner, "write_shared", {})


def test_a_worker_that_may_start_no_program_computes_and_lends_as_before():
    with (
        Workshop(device_index=0, preload=["isolation_cuda_jobs"], share_device_memory=True) as shop,
        shop.worker(Flavor.REFERENCE) as guest,
        shop.worker(Flavor.CUDA) as owner,
    ):
        assert run(owner, "double", {"n": 1000}).body["error"] == 0.0
        owner.close_shared_memory()
        assert owner.forbid_programs() == 0, "neither torch nor Triton leaves a process running"
        (layer,) = (one for one in owner.layers if one.name == NO_PROGRAMS)
        assert layer.ok, layer
        for _ in range(3):
            shared = run(owner, "lend", {"n": 4096}).blobs
            assert run(guest, "borrow", {}, shared).body == {"sum": 4096 * 4095 / 2, "columns": 64}
            assert run(owner, "double", {"n": 1000}).body["error"] == 0.0
        with pytest.raises(JobFailed, match="not permitted"):
            run(owner, "double", {"n": 1000, "block": 512})
        assert run(owner, "double", {"n": 1000}).body["error"] == 0.0
        assert owner.started() == 0
