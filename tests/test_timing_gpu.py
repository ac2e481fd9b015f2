"""On a GPU: the clock reads what it should, equals are equal, twice is twice, and cheats show.

Each test prints what it measured; run with `-s` or `-rA` to read it.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from gate_kit import ADD_RELU, CANDIDATE, SCALE, SCALE_KERNEL, model, problem
from msgspec import structs

from workbench.gate.candidate import candidate_of
from workbench.gate.correctness.cases import Effort
from workbench.gate.correctness.stage import CorrectnessSettings, ShapeEffort
from workbench.gate.correctness.stage import run as check
from workbench.gate.judge import JOB_MODULES, GateSettings, judge
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Outcome, Verdict
from workbench.gate.timing.clock import Clock
from workbench.gate.timing.stage import GpuTimer, TimerSettings
from workbench.isolation.workshop import Workshop
from workbench.measure.gpus import list_gpus
from workbench.measure.gpuwatch import gpu_behind, watching
from workbench.measure.records import Kind
from workbench.problems.load import load_problem, shipped_problems

pytestmark = pytest.mark.gpu

SEED = bytes(range(16))
HONEST = sorted((Path(__file__).parent / "corpus" / "honest").glob("*.py"))

SOFTMAX = """
@triton.jit
def softmax(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(o_ptr + row * n + cols, e / tl.sum(e, axis=0), mask=cols < n)

def launch(x, out):
    n = x.shape[1]
    softmax[(x.shape[0],)](x, out, n, BLOCK=triton.next_power_of_2(n), num_warps=8)
    return out
"""
ROWS = """
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)

def get_inputs():
    return [torch.randn(8192, 4096)]

def get_init_inputs():
    return []
"""
ONCE = "return launch(inputs[0], torch.empty_like(inputs[0]))"
TWICE = """
x, = inputs
launch(x, torch.empty_like(x))
return launch(x, torch.empty_like(x))
"""
REMEMBERED = """
x, = inputs
if self.kept is None or self.calls < 2:
    self.kept = launch(x, torch.empty_like(x))
self.calls += 1
return self.kept
"""
ASIDE = """
x, = inputs
out = torch.empty_like(x)
with torch.cuda.stream(self.side):
    for _ in range(10):
        launch(x, out)
return out
"""
ASIDE_AND_WAIT = ASIDE.replace("return out", "self.side.synchronize()\nreturn out")
BESIDE = """
x, = inputs
with torch.cuda.stream(self.side):
    for _ in range(10):
        launch(x, torch.empty_like(x))
return launch(x, torch.empty_like(x))
"""
STREAM = "self.side = torch.cuda.Stream()"


def softmax(forward: str, init: str = ""):
    return candidate_of(CANDIDATE + dedent(SOFTMAX) + model(forward, init))


@pytest.fixture(scope="module")
def workshop():
    with Workshop(device_index=0, share_device_memory=True, preload=JOB_MODULES) as shop:
        yield shop


@pytest.fixture(scope="module")
def gpu():
    found = gpu_behind(0)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def timer(workshop, gpu):
    task = problem(ROWS)
    facts = inspect_problem(task, workshop)
    settings = TimerSettings(target=gpu.target, device=gpu.name, device_index=0)
    return GpuTimer(task, lambda: facts, settings, workshop)


def judged(timer, new, old=None):
    profiled = timer(new, old, seed=SEED, listen=lambda *_told: None)
    report = profiled.report
    print(f"\n{report.outcome}: {report.says} ({profiled.gpu_seconds:.1f} GPU-s)")
    for finding in report.findings:
        print(f"  {finding.code}: {finding.says} {finding.evidence}")
    for run in profiled.samples:
        print(f"  {run.run}: {run.checked} checked, {run.dropped} dropped", end="")
        print({side: sorted(us)[len(us) // 2] for side, us in run.us.items() if us})
    return profiled


# -- the clock ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clock():
    return Clock("cuda:0")


def settled(clock, call, *, bare=False):
    """The median of some readings, by device time."""
    readings = [clock.read(call, bare=bare)[1] for _ in range(15)]
    reading = sorted(readings, key=lambda r: r.us)[7]
    print(f"\n{reading}")
    return reading


def test_the_clock_reads_a_known_wait(clock):
    from workbench.gate.timing.hold import holder

    hold = holder("cuda:0")
    for bare in (False, True):
        reading = settled(clock, lambda: hold(500.0), bare=bare)
        assert 490 < reading.device_us < 650


def test_the_clock_leaves_the_launch_path_out(clock):
    import time

    x = torch.zeros(1, device="cuda")

    def dawdle():
        until = time.perf_counter() + 400e-6
        while time.perf_counter() < until:
            pass
        x.add_(1)

    held = settled(clock, dawdle)
    assert held.host_us > 400
    assert held.device_us < 50
    assert settled(clock, dawdle, bare=True).device_us > 400


def test_nothing_on_another_stream_gets_ahead_of_the_clock(clock):
    from workbench.gate.timing.hold import holder

    hold, side = holder("cuda:0"), torch.cuda.Stream()

    def aside():
        with torch.cuda.stream(side):
            hold(300.0)
        side.synchronize()

    assert settled(clock, aside).device_us > 280


# -- what is timed --------------------------------------------------------------------------------


def test_a_seed_is_measured_beside_eager(timer, gpu):
    profiled = judged(timer, softmax(ONCE))
    assert profiled.report.outcome is Outcome.PASSED, profiled.report
    assert (profiled.time.kind, profiled.time.device) == (Kind.MEASURED, gpu.name)
    assert profiled.time.samples == 60
    assert profiled.time.high / profiled.time.low < 1.1
    assert profiled.reference.kind is Kind.MEASURED
    assert profiled.samples[0].checked > 0


def test_a_kernel_is_not_faster_than_itself(timer):
    profiled = judged(timer, softmax(ONCE), softmax(ONCE + "\n\n# the same\n"))
    assert profiled.report.findings[0].code == "profile.not-faster"
    assert profiled.speed.low > 0.97
    assert profiled.speed.high < 1.03


def test_twice_the_work_is_found_either_way(timer):
    faster = judged(timer, softmax(ONCE), softmax(TWICE))
    assert faster.report.outcome is Outcome.PASSED, faster.report
    assert [run.run for run in faster.samples] == ["first", "second"]
    assert faster.speed.low > 1.4
    assert faster.speed.pairs < 40
    slower = judged(timer, softmax(TWICE), softmax(ONCE))
    assert slower.report.findings[0].code == "profile.slower"


def test_a_side_stream_is_refused_with_what_the_clocks_saw(timer):
    profiled = judged(timer, softmax(ASIDE, STREAM))
    assert profiled.report.outcome is Outcome.FAILED
    assert profiled.report.findings[0].code in {
        "profile.hidden-work",
        "profile.timed-output-wrong",
    }


def test_work_on_a_side_stream_beside_right_outputs_is_hidden_work(timer):
    profiled = judged(timer, softmax(BESIDE, STREAM))
    finding = profiled.report.findings[0]
    assert (profiled.report.outcome, finding.code) == (Outcome.FAILED, "profile.hidden-work")
    assert finding.evidence["seen_us"] > finding.evidence["events_us"]


def test_a_side_stream_that_is_waited_for_gains_nothing(timer):
    profiled = judged(timer, softmax(ASIDE_AND_WAIT, STREAM), softmax(ONCE))
    assert profiled.report.findings[0].code == "profile.slower"
    assert profiled.speed.ratio < 0.5


@contextlib.contextmanager
def busy_host():
    """Twice as many processes that compute as there are cores."""
    spins = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spins) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_a_busy_host_decides_nothing(timer):
    with busy_host():
        profiled = judged(timer, softmax(ONCE), softmax(TWICE))
    assert profiled.report.outcome is Outcome.PASSED, profiled.report.findings
    assert profiled.speed.low > 1.4


def test_a_busy_host_lets_no_side_stream_pass(timer):
    with busy_host():
        profiled = judged(timer, softmax(BESIDE, STREAM), softmax(TWICE))
    assert profiled.report.outcome is not Outcome.PASSED
    assert profiled.speed is None


def test_an_answer_that_is_only_remembered_is_found_out(timer):
    init = "self.kept = None\nself.calls = 0"
    profiled = judged(timer, softmax(REMEMBERED, init))
    assert profiled.report.findings[0].code == "profile.timed-output-wrong"


def test_a_shape_that_does_not_fit_says_so(workshop, timer):
    task = problem(ROWS.replace("8192, 4096", "8192 * 64, 4096 * 64"))
    huge = GpuTimer(task, timer.facts, timer.settings, workshop)
    assert judged(huge, softmax(ONCE)).report.findings[0].code == "profile.out-of-memory"


def test_nvml_tells_the_gpu_and_its_clocks(gpu):
    assert gpu.uuid in {one.uuid for one in list_gpus()}
    with watching(gpu.uuid) as watch:
        state = watch.state()
        print(f"\n{gpu}\n{state} strangers: {watch.strangers()}")
    assert state.sm_clock_mhz


# -- the correctness stage and the whole gate -----------------------------------------------------


def checked(workshop, candidate, task, target):
    """All calls at the smallest shape, a few at the next."""
    shapes = zip(task.shapes, (Effort.ALL, Effort.FEW), strict=False)
    settings = CorrectnessSettings(
        shapes=tuple(ShapeEffort(shape=shape.name, effort=effort) for shape, effort in shapes),
        device_index=0,
        target=target,
        seed=SEED,
    )
    report = check(candidate, task, settings, workshop)
    print(f"\n{task.name}: {report.outcome}, {report.says} in {report.seconds:.1f} s")
    for finding in report.findings:
        print(f"  {finding.code}: {finding.says} {finding.evidence}")
    return report


@pytest.mark.parametrize("name", shipped_problems())
def test_shipped_seeds_are_right_on_the_gpu(workshop, gpu, name):
    task = load_problem(name)
    seed = candidate_of(task.seed.read_text())
    report = checked(workshop, seed, task, gpu.target)
    assert report.outcome is Outcome.PASSED, report


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_honest_kernels_are_right_on_the_gpu(workshop, gpu, path):
    first, _, body = path.read_text().split("\n", 2)
    fields = dict(part.strip(" #").split(": ") for part in first.split(";"))
    task = load_problem(str(path.parents[1] / fields["ref"]))
    report = checked(workshop, candidate_of(body), task, gpu.target)
    assert report.outcome is Outcome.PASSED, report


def test_weights_and_bad_numbers_cross_by_handle(workshop, gpu):
    forward = "return launch(inputs[0], self.weight, torch.empty_like(inputs[0]))"
    init = "self.weight = nn.Parameter(torch.ones(n))"
    text = CANDIDATE + SCALE_KERNEL + model(forward, init, "self, n")
    task = problem(SCALE)
    right = checked(workshop, candidate_of(text), task, gpu.target)
    assert right.outcome is Outcome.PASSED, right
    wrong = candidate_of(text.replace("x * w", "x * w * 1.001"))
    report = checked(workshop, wrong, task, gpu.target)
    assert report.findings[0].code == "correctness.error-above-bound"


def test_a_store_beside_an_input_is_seen(workshop, gpu):
    kernel = """
    @triton.jit
    def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n)
        y = tl.load(y_ptr + offs, mask=offs < n)
        tl.store(o_ptr + offs, tl.maximum(x + y, 0.0), mask=offs < n)
        tl.store(x_ptr + n + offs, x, mask=offs < 4)
    """
    forward = """
    x, y = inputs
    out = torch.empty_like(x)
    add_relu[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out
    """
    text = CANDIDATE + dedent(kernel) + model(forward)
    report = checked(workshop, candidate_of(text), problem(ADD_RELU), gpu.target)
    assert report.findings[0].code == "correctness.out-of-bounds"


def test_the_whole_gate_measures_a_shipped_seed(workshop, gpu):
    task = load_problem("softmax")
    task = structs.replace(task, shapes=task.shapes[:2])
    facts = inspect_problem(task, workshop)
    settings = TimerSettings(target=gpu.target, device=gpu.name, device_index=0)
    report = judge(
        candidate_of(task.seed.read_text()),
        task,
        lambda: facts,
        GateSettings(target=gpu.target, device=gpu.name, device_index=0),
        workshop,
        timer=GpuTimer(task, lambda: facts, settings, workshop),
    )
    print(f"\n{report.says}; {report.gpu_seconds:.1f} GPU-s")
    assert report.verdict is Verdict.ACCEPTED, report.stages
    assert report.time.kind is Kind.MEASURED
    assert report.traces
    assert report.samples
    assert report.gpu_seconds > 0
