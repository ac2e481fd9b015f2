"""Each way of being wrong is refused under a code of its own, with the evidence to replay it."""

import subprocess
import sys
from textwrap import dedent

import pytest
from gate_kit import ADD_RELU, CANDIDATE, SEED, Source, judged, model, problem, told, workshop
from wrong_candidates import CHEATS, OUT, TOTAL, adding

from workbench.gate.correctness.cases import Effort
from workbench.gate.correctness.stage import CorrectnessSettings, ShapeEffort, run
from workbench.gate.records import Blame, Outcome
from workbench.problems.records import Tolerance

__all__ = ["workshop"]


@pytest.mark.parametrize("name", CHEATS)
def test_refused(workshop, name):
    cheat = CHEATS[name]
    task = problem(cheat.reference)
    if cheat.code == "low-variance-error":
        task = problem(cheat.reference, tolerance={"float32": Tolerance(factor=64, eps=2.0**-19)})
    report = judged(workshop, task, cheat.candidate)
    assert report.outcome is Outcome.FAILED, report.says
    assert told(report).code == f"correctness.{cheat.code}", report.says
    assert told(report).blame is Blame.CANDIDATE


def test_a_call_that_never_ends_is_ended(workshop):
    report = judged(workshop, ADD_RELU, adding("while True:\n    pass"), call_seconds=0.5)
    assert told(report).code == "correctness.timed-out"


def test_the_evidence_replays_the_very_same_fault(workshop):
    cheat = CHEATS["half precision inside"]
    first, again = (
        told(judged(workshop, cheat.reference, cheat.candidate, seed=b"")) for _ in range(2)
    )
    assert first.evidence["seed"] != again.evidence["seed"]
    seed = bytes.fromhex(str(first.evidence["seed"]))
    assert told(judged(workshop, cheat.reference, cheat.candidate, seed=seed)) == first
    assert {"case", "call", "shape", "index", "value", "gold", "bound"} <= first.evidence.keys()


def test_an_access_out_of_bounds_names_kernel_line_and_argument(workshop):
    cheat = CHEATS["past the end"]
    finding = told(judged(workshop, cheat.reference, cheat.candidate))
    assert finding.evidence["argument"] == "x_ptr"
    assert finding.evidence["lanes"] == 3 * 128 - 13 * 29
    assert finding.line is not None
    lines = (CANDIDATE + cheat.candidate).splitlines()
    assert "tl.load(x_ptr" in lines[finding.line - 1]
    assert finding.evidence["kernel"] == "add_relu"


def test_a_faulty_reference_leaves_the_candidate_unproven(workshop):
    broken = ADD_RELU.replace("return torch.relu(x + y)", "raise RuntimeError('never')")
    report = judged(workshop, broken, adding(OUT + "return launch(*inputs, out)"))
    assert report.outcome is Outcome.UNPROVEN
    finding = told(report)
    assert (finding.code, finding.blame) == ("correctness.cannot-judge", Blame.PROBLEM)
    assert "line 7" in finding.says


def test_a_reference_without_a_finite_answer_accepts_nobody(workshop):
    """There is nothing to compare with, so that any kernel would be right."""
    empty = ADD_RELU.replace("torch.relu(x + y)", "torch.relu(x + y) * torch.nan")
    report = judged(workshop, empty, adding(OUT + "return launch(*inputs, out)"))
    assert report.outcome is Outcome.UNPROVEN
    assert (told(report).code, told(report).blame) == ("correctness.cannot-judge", Blame.PROBLEM)
    assert "nothing finite" in told(report).says


def test_programs_that_wait_for_each_other_are_left_to_a_gpu(workshop):
    waiting = """
    @triton.jit
    def total(x_ptr, gate_ptr, o_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        part = tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0)
        tl.atomic_add(o_ptr, part)
        tl.atomic_add(gate_ptr, 1)
        while tl.atomic_add(gate_ptr, 0) < 8:
            pass
    """
    body = """
    x, = inputs
    out = torch.zeros(1, device=x.device)
    total[(8,)](x, torch.zeros(1, dtype=torch.int32, device=x.device), out, 1000, BLOCK=128)
    return out
    """
    report = judged(workshop, TOTAL, dedent(waiting) + model(body))
    assert report.outcome is Outcome.UNPROVEN
    assert told(report).blame is Blame.MACHINE
    assert told(report).evidence["needs"] == "a GPU"


def test_a_shape_too_large_for_the_interpreter_is_unproven_at_once(workshop):
    large = ADD_RELU.replace("13, 29", "4096, 2048")
    report = judged(workshop, large, adding(OUT + "return launch(*inputs, out)"))
    assert report.outcome is Outcome.UNPROVEN
    assert told(report).code == "correctness.cannot-judge"


def test_the_judge_loads_neither_torch_nor_triton():
    script = (
        "import sys, workbench.gate.correctness.stage, workbench.gate.problem.inspect;"
        "sys.exit(bool({'torch', 'triton', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_progress_is_told_after_every_call(workshop):
    told_so_far: list[tuple[int, int, str]] = []
    settings = CorrectnessSettings(
        shapes=(ShapeEffort(shape="file", effort=Effort.FEW),), seed=SEED
    )
    candidate = Source(CANDIDATE + adding(OUT + "return launch(*inputs, out)"))
    run(candidate, problem(ADD_RELU), settings, workshop, lambda *said: told_so_far.append(said))
    assert [done for done, _, _ in told_so_far] == sorted(done for done, _, _ in told_so_far)
    assert told_so_far[-1][0] == told_so_far[-1][1]
