"""The whole timing conversation with real workers, rehearsed on the CPU where no GPU is needed.

What the times are is meaningless here; who is asked, what is compared and what is told is not.
"""

import contextlib
from textwrap import dedent

import pytest
import torch
from gate_kit import CANDIDATE, SCALE, SCALE_KERNEL, model, problem, workshop
from msgspec import structs
from wrong_candidates import COUNTING_SCALE

from workbench.gate.candidate import candidate_of
from workbench.gate.correctness.asking import opening
from workbench.gate.correctness.protocol import OpenReference
from workbench.gate.correctness.reference_job import Bench
from workbench.gate.judge import JOB_MODULES
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Blame, Outcome
from workbench.gate.timing.ring_job import Ring, ring_size, stir
from workbench.gate.timing.sides import SidesSpec, open_sides
from workbench.gate.timing.stage import GpuTimer, TimerSettings
from workbench.isolation.workshop import Workshop
from workbench.measure.gpuwatch import NoWatch
from workbench.measure.pairs import PairRule

__all__ = ["workshop"]

SEED = bytes(range(16))
WEIGHT = {"init": "self.weight = nn.Parameter(torch.ones(n))", "arguments": "self, n"}
SEEN = "\nself.register_buffer('seen', torch.zeros(()))"
ONCE = "return launch(inputs[0], self.weight, torch.empty_like(inputs[0]))"
OFTEN = """
x, = inputs
for _ in range(4):
    out = launch(x, self.weight, torch.empty_like(x))
return out
"""
KEPT = """
x, = inputs
if self.kept is None or self.calls < 3:
    self.kept = launch(x, self.weight, torch.empty_like(x))
self.calls += 1
return self.kept.clone()
"""


def candidate(forward: str, init: str = WEIGHT["init"]):
    text = model(forward, init, WEIGHT["arguments"])
    return candidate_of(CANDIDATE + dedent(SCALE_KERNEL) + text)


@pytest.fixture(scope="module")
def timer(workshop):
    """A timer without a GPU: nothing to hold, nothing to watch, few pairs."""
    task = problem(SCALE)

    @contextlib.contextmanager
    def hold(_waits, *, shared=False):  # noqa: ARG001  # there is nothing to share
        yield NoWatch()

    facts = inspect_problem(task, workshop)
    return GpuTimer(
        task,
        lambda: facts,
        TimerSettings(
            target="sm90", device="cpu", device_index=None, rule=PairRule(first=20, cap=20)
        ),
        workshop,
        hold=hold,
    )


def spec(timer, new, task=None) -> SidesSpec:
    task = timer.problem if task is None else task
    return SidesSpec(
        problem=opening(task, task.full, 3, lends=False),
        candidates=(("candidate", new.source),),
        with_reference=False,
        target="sm90",
        seed=SEED,
    )


def test_a_stand_in_takes_the_turn_of_a_candidate_that_computes_nothing(timer):
    with open_sides(spec(timer, candidate(ONCE)), timer.workshop) as sides:
        sides.fresh(["candidate"])
        turns = [sides.stand_in(bare=bare) for bare in (False, True)]
    assert all(turn is not None and turn.judge_us > turn.reading.wall_us for turn in turns)


@pytest.mark.parametrize(
    ("after", "at_a_glance", "closely"),
    [
        ("", "", ""),
        ("out.mul_(1.001)", "correctness.error-above-bound", "correctness.error-above-bound"),
        ("inputs[0].add_(1.0)", "", "correctness.input-modified"),
    ],
    ids=["right", "wrong", "right, and writes to its input"],
)
def test_outputs_are_compared_at_a_glance_and_closely_with_all_else(
    timer, after, at_a_glance, closely
):
    forward = f"{ONCE.replace('return', 'out =')}\n{after}\nreturn out"
    with open_sides(spec(timer, candidate(forward)), timer.workshop) as sides:
        (side,) = sides.sides
        sides.fresh([side.name])
        side.turn(bare=False)
        for look, code in ((False, at_a_glance), (True, closely)):
            assert [one.code for one in side.check(closely=look)][:1] == [code] * bool(code)


def test_the_turns_of_an_idle_side_are_like_those_of_one_whose_state_nothing_restores(timer):
    counting = candidate(ONCE, WEIGHT["init"] + SEEN)
    for task, new, alike in (
        (timer.problem, candidate(ONCE), True),
        (problem(COUNTING_SCALE), counting, False),
    ):
        with open_sides(spec(timer, new, task), timer.workshop) as sides:
            assert sides.sides[0].empty.alike is alike


def judged(timer, new, old=None):
    return timer(new, old, seed=SEED, listen=lambda *_told: None)


def test_a_seed_is_timed_beside_the_reference_and_its_outputs_are_compared(timer):
    profiled = judged(timer, candidate(ONCE))
    assert profiled.report.outcome is Outcome.PASSED
    (run,) = profiled.samples
    assert set(run.us) == {"candidate", "reference"}
    assert all(len(us) == 20 and min(us) > 0 for us in run.us.values())
    assert run.checked > 0
    assert profiled.report.isolation != "no candidate code ran"


def test_four_launches_against_one_are_told_apart(timer):
    faster = judged(timer, candidate(ONCE), candidate(OFTEN))
    assert faster.report.outcome is Outcome.PASSED
    assert faster.speed.low > 1.5
    slower = judged(timer, candidate(OFTEN), candidate(ONCE))
    assert slower.report.findings[0].code == "profile.slower"


def test_an_answer_that_is_only_remembered_is_found_out(timer):
    init = f"{WEIGHT['init']}\nself.kept = None\nself.calls = 0"
    profiled = judged(timer, candidate(KEPT, init))
    assert profiled.report.outcome is Outcome.FAILED
    assert profiled.report.findings[0].code == "profile.timed-output-wrong"


def test_a_candidate_that_raises_fails_and_a_parent_that_raises_proves_nothing(timer):
    failing = candidate("raise ValueError('no')")
    profiled = judged(timer, failing)
    assert (profiled.report.outcome, profiled.report.findings[0].code) == (
        Outcome.FAILED,
        "profile.raised",
    )
    assert profiled.report.findings[0].line
    unproven = judged(timer, candidate(ONCE), failing)
    assert unproven.report.outcome is Outcome.UNPROVEN
    assert unproven.report.findings[0].code == "profile.parent-failed"


STARTS = """
import subprocess
subprocess.run(["true"], check=True)
"""
LEAVES = """
import subprocess
if not hasattr(self, "left"):
    self.left = subprocess.Popen(["sleep", "600"])
"""


UNSEALED = """
import subprocess
from workbench.isolation.context import JobContext
from workbench.isolation.seccomp import Program
JobContext.forbid_exec = lambda context: Program().install()
self.last = subprocess.Popen(["sleep", "600"])
"""
"""Takes part in the ceremony and forbids itself nothing."""


class Toolchain(Workshop):
    """Candidates may start programs, as on a GPU, where Triton's compilers are."""

    def _forkserver(self, setup):
        may = structs.replace(setup.confinement, processes=True)
        return super()._forkserver(structs.replace(setup, confinement=may))


@pytest.fixture(scope="module")
def with_toolchain(timer):
    with Toolchain(preload=JOB_MODULES, wrap=False) as shop:
        yield GpuTimer(timer.problem, timer.facts, timer.settings, shop, hold=timer.hold)


def test_a_timed_call_that_starts_a_program_proves_nothing(with_toolchain):
    profiled = judged(with_toolchain, candidate(STARTS + ONCE))
    assert profiled.report.outcome is Outcome.UNPROVEN
    assert profiled.report.findings[0].code == "profile.compiles-late"
    assert profiled.report.findings[0].line
    assert not any(run.us["candidate"] for run in profiled.samples)


def test_what_the_calls_before_left_running_is_ended_and_told(with_toolchain):
    profiled = judged(with_toolchain, candidate(LEAVES + ONCE))
    assert profiled.report.outcome is Outcome.PASSED
    blamed = {note.code: note.blame for note in profiled.report.findings}
    assert blamed["profile.process-ended"] is Blame.MACHINE


def test_a_side_that_goes_on_starting_processes_is_refused(with_toolchain):
    profiled = judged(with_toolchain, candidate(UNSEALED + ONCE))
    assert profiled.report.outcome is Outcome.FAILED
    assert profiled.report.findings[0].code == "profile.started-a-process"


def test_a_reference_that_cannot_draw_is_the_problem_s_fault(timer):
    broken = GpuTimer(
        problem(SCALE.replace("torch.randn(9, 21)", "1 / 0")),
        timer.facts,
        timer.settings,
        timer.workshop,
        hold=timer.hold,
    )
    finding = judged(broken, candidate(ONCE)).report.findings[0]
    assert (finding.code, finding.blame) == ("profile.reference-failed", Blame.PROBLEM)


# -- the ring -------------------------------------------------------------------------------------


def ring_of(body: str) -> Ring:
    task = problem(body)
    message = OpenReference(
        source=task.source,
        values={},
        build_seed=1,
        precision=task.precision,
        tolerance={},
        selections=(),
    )
    return Ring(Bench(message, "cpu"), seed=5)


SLOW_DRAW = SCALE.replace(
    "return [torch.randn(9, 21)]", "sum(range(8_000_000))\n    return [torch.randn(9, 21)]"
)


@pytest.mark.parametrize("body", [SCALE, SLOW_DRAW], ids=["drawn", "kept"])
def test_contents_never_come_back(body):
    ring = ring_of(body)
    assert ring.fresh is (body is SCALE)
    seen = [ring.inputs[0].clone()]
    for seed in range(3 * ring.sets):
        ring.advance(seed)
        assert not any(torch.equal(ring.inputs[0], old) for old in seen)
        seen.append(ring.inputs[0].clone())


def test_answers_belong_to_the_present_contents():
    ring = ring_of(SCALE)
    before = ring.answered()
    assert ring.answered() is before
    ring.advance(1)
    assert ring.reference.call is None
    ring.answered()
    assert torch.equal(ring.reference.call.native.outputs[0], ring.inputs[0])


def test_a_ring_is_as_large_as_memory_and_patience_allow():
    assert ring_size(1 << 20, 1 << 40, 0.1) == 8
    assert ring_size(1 << 30, 16 << 30, 0.1) == 4
    assert ring_size(1 << 20, 1 << 40, 3.0) == 3
    assert ring_size(1 << 40, 1 << 30, 100.0) == 2


def test_stirring_changes_floats_keeps_their_values_and_leaves_integers():
    x, indices = torch.randn(50, 7), torch.arange(9)
    before = x.clone()
    stir([x, indices], seed=3)
    assert not torch.equal(x, before)
    assert torch.equal(x.flatten().sort().values, before.flatten().sort().values)
    assert torch.equal(indices, torch.arange(9))
    again = before.clone()
    stir([again], seed=3)
    assert torch.equal(again, x)


def test_stirring_reaches_strided_and_tiny_tensors():
    wide = torch.randn(8, 8).t()[::2]
    before = wide.clone()
    stir([wide, torch.randn(()), torch.randn(0), torch.randn(1)], seed=1)
    assert wide.shape == before.shape
