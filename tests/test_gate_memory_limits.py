"""A candidate's memory has a limit, on the host and on a GPU; going past it has its own name."""

from pathlib import Path

import pytest
from gate_kit import ADD_RELU, ADD_RELU_KERNEL, judged, model, told, workshop  # noqa: F401

from workbench.gate.correctness.protocol import Raised, Reference
from workbench.gate.correctness.raising import explain
from workbench.gate.memory import device_budget, over_limit
from workbench.gate.records import Blame, Outcome
from workbench.gate.timing.report import side_failed
from workbench.gate.timing.turns import SideFault
from workbench.isolation.gpumemory import CONTEXT_BYTES, DeviceUse, GpuMemory
from workbench.isolation.outcome import WorkerDied
from workbench.isolation.processes import descendants
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.watch import Watch
from workbench.isolation.workshop import Workshop

GIB = 1 << 30
REFUSED = Raised(kind="OutOfMemoryError", message="CUDA out of memory. Tried 2 GiB", line=7)


class Driver(GpuMemory):
    """The driver's table of processes, as NVML would give it."""

    def __init__(self, listed: dict[int, int | None]) -> None:
        self.listed = listed
        self.fault = ""
        self.looks = 0

    def processes(self) -> dict[int, int | None]:
        self.looks += 1
        return self.listed

    def free(self) -> int | None:
        return 100 * GIB


@pytest.fixture(scope="module")
def worker():
    with Workshop(preload=["isolation_jobs"], wrap=False) as shop, shop.worker(Flavor.BARE) as one:
        yield one


def watch_of(worker, listed: dict[int, int | None], limit: int | None) -> Watch:
    limits = Limits(device_bytes=limit)
    return Watch(worker.keeper_pid, limits, Path(worker.scratch), Driver(listed))


def test_the_budget_grows_with_the_reference_and_with_outputs_that_the_protocol_keeps():
    reference = _reference(peak=5 * GIB, outputs=GIB)
    assert device_budget(reference) == 17 * GIB
    assert device_budget(reference, 11) == 28 * GIB
    assert device_budget(_reference(peak=0, outputs=0)) == 2 * GIB


def _reference(*, peak: int, outputs: int) -> Reference:
    return Reference(init=[], state=(), float_inputs=True, peak_bytes=peak, output_bytes=outputs)


def test_memory_past_the_allocator_is_seen_in_the_drivers_table(worker):
    (pid, *_) = descendants(worker.keeper_pid)
    assert watch_of(worker, {pid: 2 * GIB + CONTEXT_BYTES}, 2 * GIB)() is None
    excess = watch_of(worker, {pid: 6 * GIB}, 2 * GIB)()
    assert excess is not None
    assert (excess.how, excess.held, excess.limit) == ("gpu memory limit", 6 * GIB, 2 * GIB)


def test_memory_of_others_is_not_a_workers(worker):
    assert watch_of(worker, {1: 90 * GIB}, 2 * GIB)() is None
    assert watch_of(worker, {}, 2 * GIB)() is None


def test_without_a_limit_the_driver_is_not_asked(worker):
    watch = watch_of(worker, {}, None)
    assert watch() is None
    assert watch._gpu.looks == 0


def test_two_looks_in_a_row_ask_the_driver_once(worker):
    watch = watch_of(worker, {}, GIB)
    assert watch() is None
    assert watch() is None
    assert watch._gpu.looks == 1


def test_where_the_driver_is_absent_nothing_is_claimed():
    nothing = GpuMemory("GPU-no-such")
    try:
        assert nothing.fault
        assert nothing.held([1]) is None
        assert nothing.free() is None
    finally:
        nothing.close()


def test_a_breach_names_what_is_held_and_what_was_allowed():
    finding = over_limit(WorkerDied("gpu memory limit", held=6 * GIB, limit=2 * GIB))
    assert finding is not None
    assert finding.code == "correctness.gpu-memory"
    assert finding.evidence == {"held_bytes": 6 * GIB, "limit_bytes": 2 * GIB}
    assert "6.00 GiB" in finding.says
    assert "2.00 GiB" in finding.says
    assert over_limit(WorkerDied("exited", exit_code=0)) is None


def test_an_allocation_refused_within_free_memory_is_the_candidates_fault():
    use = DeviceUse(held=2 * GIB, free=100 * GIB, limit=2 * GIB)
    finding = explain(REFUSED, "forward", use)
    assert (finding.code, finding.blame) == ("correctness.gpu-memory", Blame.CANDIDATE)
    assert finding.evidence == {"held_bytes": 2 * GIB, "limit_bytes": 2 * GIB}
    outcome, timed = side_failed(SideFault("candidate", finding))
    assert (outcome, timed.code) == (Outcome.FAILED, "profile.gpu-memory")


def test_an_allocation_refused_because_others_fill_the_gpu_is_the_machines():
    use = DeviceUse(held=1 * GIB, free=1 * GIB, limit=20 * GIB)
    finding = explain(REFUSED, "forward", use)
    assert (finding.code, finding.blame) == ("correctness.gpu-full", Blame.MACHINE)
    outcome, _ = side_failed(SideFault("candidate", finding))
    assert outcome is Outcome.UNPROVEN


def test_hoarding_on_the_host_is_refused_by_name(workshop):  # noqa: F811
    hoard = "self.hoard = [torch.ones(64 << 20) for _ in range(64)]\n"
    out = "out = torch.empty_like(inputs[0])\nreturn launch(*inputs, out)"
    report = judged(workshop, ADD_RELU, ADD_RELU_KERNEL + model(hoard + out))
    assert report.outcome is Outcome.FAILED
    assert told(report).code == "correctness.host-memory", told(report).says
