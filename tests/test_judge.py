"""The judge asks in order, stops in time, and says what it knows and what it does not."""

import errno
from pathlib import Path
from textwrap import dedent

import pytest
from gate_kit import ADD_RELU, ADD_RELU_KERNEL, CANDIDATE, model, problem, workshop
from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.gate.candidate import LARGEST_FILE, candidate_of, read_candidate
from workbench.gate.judge import GateSettings, Told, judge
from workbench.gate.problem.inspect import ProblemReport, inspect_problem
from workbench.gate.profile import Profiled
from workbench.gate.records import GateReport, Outcome, Stage, StageReport, Verdict
from workbench.measure.records import Kind, Time
from workbench.problems.records import Problem, Shape

__all__ = ["workshop"]

HONEST = ADD_RELU_KERNEL + model("return launch(*inputs, torch.empty_like(inputs[0]))")
SIZED = """
ROWS = 13

class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y)

def get_inputs():
    return [torch.randn(ROWS, 512), torch.randn(ROWS, 512)]

def get_init_inputs():
    return []
"""
SHAPES = (Shape(name="tiny", values={"ROWS": 13}), Shape(name="full", values={"ROWS": 8192}))


@pytest.fixture(scope="module")
def sized(workshop) -> tuple[Problem, ProblemReport]:
    """A problem whose full shape is far larger than its smallest."""
    made = problem(SIZED, shapes=SHAPES)
    return made, inspect_problem(made, workshop)


@pytest.fixture(scope="module")
def single(workshop) -> tuple[Problem, ProblemReport]:
    """A problem with one shape."""
    made = problem(ADD_RELU)
    return made, inspect_problem(made, workshop)


def judged(workshop, known, source: str, heard: list[Told] | None = None, **options) -> GateReport:
    """The verdict on a candidate whose imports are written already."""
    settings = {"target": "sm90", **options.pop("settings", {})}
    return judge(
        candidate_of(CANDIDATE + dedent(source)),
        known[0],
        lambda: known[1],
        GateSettings(**settings),
        workshop,
        listen=(heard if heard is not None else []).append,
        **options,
    )


def outcomes(report: GateReport) -> list[tuple[str, str]]:
    """What each stage said."""
    return [(stage.stage.value, stage.outcome.value) for stage in report.stages]


def test_an_honest_kernel_is_accepted_with_everything_that_led_to_it(workshop, sized):
    heard: list[Told] = []
    seed = bytes(range(16))
    report = judged(workshop, sized, HONEST, heard, settings={"seed": seed})
    assert report.verdict is Verdict.ACCEPTED, report.says
    assert [stage.outcome for stage in report.stages] == [Outcome.PASSED] * 4
    assert report.code == ""
    assert report.time is not None
    assert report.time.kind is Kind.MODELED
    assert [launch.kernel for launch in report.launches] == ["add_relu"]
    assert [trace.kernel for trace in report.traces] == ["add_relu"]
    assert report.replay_seed == seed.hex()
    assert {"torch", "triton"} <= report.toolchain.keys()
    assert report.report(Stage.POLICY).isolation == "no candidate code ran"
    assert report.report(Stage.CORRECTNESS).isolation in (
        "bubblewrap",
        "landlock+seccomp",
        "process only",
    )
    begun = [told.stage for told in heard if told.report is None and not told.total]
    ended = [told.stage for told in heard if told.report is not None]
    assert begun == ended == list(Stage)
    assert any(told.done for told in heard)


def test_nothing_runs_of_a_candidate_that_the_policy_refuses(workshop, single):
    def never() -> ProblemReport:
        raise AssertionError("the problem was looked at")

    report = judge(
        candidate_of(CANDIDATE + model("return torch.relu(inputs[0] + inputs[1])")),
        single[0],
        never,
        GateSettings(target="sm90"),
        workshop,
    )
    assert report.verdict is Verdict.REJECTED
    assert report.stage is Stage.POLICY
    assert report.code == "policy.torch-compute"
    assert [outcome for _, outcome in outcomes(report)] == ["failed", *["skipped"] * 3]
    assert report.launches == ()
    assert report.toolchain == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("tl.maximum(", "tl.maximal("), "compile.kernel-refused"),
        (("BLOCK=128", "BLOCK=100"), "compile.kernel-refused"),
        (("return out", "raise ValueError('no')"), "compile.raised"),
        (("x.numel(), BLOCK", "x.numel(), 5, 6, BLOCK"), "compile.kernel-refused"),
    ],
)
def test_what_does_not_compile_is_refused_with_its_line(workshop, single, change, code):
    report = judged(workshop, single, HONEST.replace(*change))
    assert report.verdict is Verdict.REJECTED
    assert report.code == code, report.says
    finding = report.report(Stage.COMPILE).findings[0]
    assert finding.line is not None


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EAGAIN])
def test_what_the_sandbox_denies_host_code_is_no_fault_of_the_kernel(workshop, single, error):
    denied = HONEST.replace("return out", f"raise OSError({error}, 'what the system says')")
    report = judged(workshop, single, denied)
    assert report.verdict is Verdict.UNPROVEN, report.says
    assert report.code == "compile.cannot-judge"
    assert "what the system says" in report.says


def test_an_error_that_only_looks_like_the_system_s_is_the_candidate_s(workshop, single):
    report = judged(workshop, single, HONEST.replace("return out", "raise OSError('no memory')"))
    assert report.verdict is Verdict.REJECTED
    assert report.code == "compile.raised"


def test_what_launches_nothing_at_the_full_shape_is_refused(workshop, sized):
    lazy = HONEST.replace(
        "return launch(*inputs, torch.empty_like(inputs[0]))",
        "out = torch.empty_like(inputs[0])\n"
        "        return launch(*inputs, out) if out.numel() < 10_000 else out",
    )
    report = judged(workshop, sized, lazy)
    assert report.verdict is Verdict.REJECTED
    assert report.code == "compile.no-launch"


@pytest.mark.parametrize(
    "grid",
    [
        "(triton.cdiv(x.numel(), 128),) if x.numel() < 10_000 else (3,)",
        "(min(triton.cdiv(x.numel(), 128), 100),)",
    ],
)
def test_what_does_less_where_it_is_not_compared_is_unproven(workshop, sized, grid):
    lazy = HONEST.replace("(triton.cdiv(x.numel(), 128),)", grid)
    report = judged(workshop, sized, lazy)
    assert report.verdict is Verdict.UNPROVEN
    assert report.code == "correctness.output-not-written"
    assert report.time is None


def test_what_only_writes_at_the_full_shape_is_wrong_there(workshop, sized):
    lazy = HONEST.replace("BLOCK: tl.constexpr):", "BLOCK: tl.constexpr, BIG: tl.constexpr):")
    lazy = lazy.replace("BLOCK=128)", "BLOCK=128, BIG=x.numel() > 10_000)")
    lazy = lazy.replace("mask = offs < n\n", "mask = offs < n\n    read = mask & (not BIG)\n")
    lazy = lazy.replace("x_ptr + offs, mask=mask", "x_ptr + offs, mask=read, other=0.0")
    lazy = lazy.replace("y_ptr + offs, mask=mask", "y_ptr + offs, mask=read, other=0.0")
    report = judged(workshop, sized, lazy)
    assert report.verdict is Verdict.REJECTED, report.says
    assert report.code == "correctness.error-above-bound"
    assert report.report(Stage.CORRECTNESS).findings[0].evidence["shape"] == "full"


def test_a_wrong_answer_is_refused_and_nothing_is_timed(workshop, single):
    report = judged(workshop, single, HONEST.replace("x + y, 0.0", "x - y, 0.0"))
    assert report.code == "correctness.error-above-bound"
    assert outcomes(report)[-2:] == [("correctness", "failed"), ("profile", "skipped")]
    assert report.time is None


def test_rung_zero_asks_for_no_correctness(workshop, single):
    report = judged(workshop, single, HONEST, settings={"rung": 0})
    assert report.verdict is Verdict.ACCEPTED
    assert [stage for stage, _ in outcomes(report)] == ["policy", "compile", "profile"]


def test_a_parent_asks_for_a_gain(workshop, sized):
    trusted = (structs.replace(sized[0], family="gemm"), sized[1])
    alone = judged(workshop, trusted, HONEST, settings={"rung": 0})
    assert alone.speed is None
    same = judged(workshop, trusted, HONEST, settings={"rung": 0}, parent_time=alone.time)
    assert same.verdict is Verdict.REJECTED
    assert same.code == "profile.not-faster"
    assert same.speed is not None
    assert same.against == alone.time
    slow = Time(kind=Kind.MODELED, microseconds=alone.time.microseconds * 2, device="sm90")
    faster = judged(workshop, trusted, HONEST, settings={"rung": 0}, parent_time=slow)
    assert faster.verdict is Verdict.ACCEPTED
    assert faster.speed.ratio == pytest.approx(2.0)
    quick = Time(kind=Kind.MODELED, microseconds=alone.time.microseconds / 2, device="sm90")
    options = {"settings": {"rung": 0}, "parent_time": quick}
    assert judged(workshop, trusted, HONEST, **options).code == "profile.slower"
    doubtful = judged(workshop, sized, HONEST, **options)
    assert (doubtful.verdict, doubtful.code) == (Verdict.UNPROVEN, "profile.model-not-trusted")


def test_a_timer_takes_the_place_of_the_model(workshop, single):
    time = Time(kind=Kind.MEASURED, microseconds=3.5, samples=60, device="a GPU")
    asked = []

    def timer(candidate, parent, *, seed, listen):
        asked.append((candidate.sha256, parent, seed))
        listen(1, 2, "half")
        report = StageReport(stage=Stage.PROFILE, outcome=Outcome.PASSED, says="measured")
        return Profiled(report=report, time=time, gpu_seconds=1.5)

    heard: list[Told] = []
    seed = bytes(16)
    report = judged(
        workshop, single, HONEST, heard, settings={"rung": 0, "seed": seed}, timer=timer
    )
    assert report.time == time
    assert report.gpu_seconds == 1.5
    assert asked == [(report.kernel_sha256, None, seed)]
    assert any(told.says == "half" for told in heard)


def test_work_that_torch_does_beside_the_kernels_is_in_the_modeled_time(workshop, sized):
    honest = judged(workshop, sized, HONEST, settings={"rung": 0})
    copying = HONEST.replace("launch(*inputs", "launch(*[x.clone() for x in inputs]")
    copied = judged(workshop, sized, copying, settings={"rung": 0})
    assert copied.time.microseconds > 1.5 * honest.time.microseconds
    assert copied.time.detail["host"] > 0


@pytest.mark.parametrize("name", ["missing.py", "folder", "big.py"])
def test_what_is_no_candidate_file_is_an_error_for_a_person(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "big.py").write_bytes(b"#" * (LARGEST_FILE + 1))
    with pytest.raises(WorkbenchError) as fault:
        read_candidate(tmp_path / name)
    assert str(tmp_path / name) in str(fault.value)


def test_a_file_that_is_no_text_is_a_verdict(workshop, single, tmp_path):
    file = Path(tmp_path / "binary.py")
    file.write_bytes(b"\x7fELF\x00\xff")
    report = judge(
        read_candidate(file), single[0], lambda: single[1], GateSettings(target="sm90"), workshop
    )
    assert report.verdict is Verdict.REJECTED
    assert report.code == "policy.not-text"
