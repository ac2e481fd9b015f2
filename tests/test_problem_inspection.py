"""What a person is told of a problem before any candidate is judged by it."""

import pytest
from gate_kit import ADD_RELU, REFERENCE, problem, workshop

from workbench.errors import WorkbenchError
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Blame
from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import Roofline, Shape

__all__ = ["workshop"]

SHAPED = """
M = 4
N = 6

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, n)

    def forward(self, x):
        return torch.relu(self.fc(x)), x.shape[0]

def get_inputs():
    return [torch.randn(M, N)]

def get_init_inputs():
    return [N]
"""

FULL = {"M": 1 << 20, "N": 1 << 18}
"""Inputs of a TiB, weights of 256 GiB."""


def line_of(body: str, text: str) -> int:
    lines = (REFERENCE + body).splitlines()
    return next(i for i, line in enumerate(lines, start=1) if text in line)


def codes(report) -> list[str]:
    assert all(finding.blame is Blame.PROBLEM for finding in report.findings)
    return [finding.code.removeprefix("problem.") for finding in report.findings]


def refused(workshop, body: str, **fields) -> WorkbenchError:
    with pytest.raises(WorkbenchError) as caught:
        inspect_problem(problem(body, **fields), workshop)
    assert caught.value.where
    assert caught.value.todo
    return caught.value


def test_a_sound_problem_is_described_at_every_shape_without_memory_for_it(workshop):
    shapes = (Shape(name="tiny"), Shape(name="full", values=FULL))
    report = inspect_problem(problem(SHAPED, shapes=shapes), workshop)
    assert codes(report) == []
    tiny, full = report.shape("tiny"), report.full
    assert [e.shape for e in full.input_entries] == [(1 << 20, 1 << 18)]
    assert [e.name for e in full.state] == ["fc.weight", "fc.bias"]
    assert [(e.dtype, e.shape) for e in tiny.output_entries] == [("float32", (4, 6))]
    assert [one.name for one in full.operators] == ["aten.addmm", "aten.relu"]
    m, n = FULL["M"], FULL["N"]
    assert full.operators[0].matrix_flops == 2 * m * n * n
    assert full.counted
    assert full.work is not None
    assert full.work.bytes == 4 * (2 * m * n + n * n + n)
    assert full.work.flops == 2 * m * n * n + m * n


def test_a_roofline_of_the_sidecar_is_taken_before_counting(workshop):
    roofline = Roofline(flops="2 * M * N * N", bytes="8 * M * N")
    report = inspect_problem(problem(SHAPED, roofline=roofline), workshop)
    assert not report.full.counted
    assert report.full.work is not None
    assert report.full.work.bytes == 8 * 4 * 6


DATA_DEPENDENT = SHAPED.replace(
    "return torch.relu", "assert float(x.sum()) < 1e9\n        return torch.relu"
)


def test_a_reference_that_needs_its_data_is_run_for_real_where_that_is_small(workshop):
    shapes = (Shape(name="tiny"), Shape(name="more", values={"M": 8}))
    report = inspect_problem(problem(DATA_DEPENDENT, shapes=shapes), workshop)
    assert report.full.unseen == ""
    assert report.full.output_entries[0].shape == (8, 6)


def test_a_large_shape_that_needs_its_data_is_said_to_be_unseen(workshop):
    shapes = (Shape(name="tiny"), Shape(name="full", values=FULL))
    report = inspect_problem(problem(DATA_DEPENDENT, shapes=shapes), workshop)
    assert "shape-unseen" in codes(report)
    assert report.full.input_entries[0].shape == (1 << 20, 1 << 18)
    assert report.full.outputs is None
    assert report.full.work is None
    assert "meta" in report.full.unseen


@pytest.mark.parametrize(
    ("forward", "code"),
    [
        ("return torch.sigmoid(x * 0 + y.mean() * 0.001)", "low-variance"),
        ("return torch.relu(x + y.mean(dim=0, keepdim=True) * 0)", "ignores-input"),
        ("return torch.log(x - 9) + y", "not-finite"),
        ("return (x + y).mean(dim=1, keepdim=True).expand(13, 29)", "constant-axis"),
        ("assert x.dtype == torch.float32\n        return x + y", "no-fp64"),
        ("return (x + 1e8) - 1e8 + y", "ill-conditioned"),
    ],
)
def test_an_odd_reference_is_usable_and_told(workshop, forward, code):
    body = ADD_RELU.replace("return torch.relu(x + y)", forward)
    assert code in codes(inspect_problem(problem(body), workshop))


def test_a_parameter_without_effect_is_told_and_statistics_are_none(workshop):
    made = "self.fc = nn.Linear(n, n)"
    more = "; self.bn = nn.BatchNorm1d(n); self.idle = nn.Parameter(torch.ones(2))"
    body = SHAPED.replace(made, made + more).replace("self.fc(x))", "self.bn(self.fc(x)))")
    report = inspect_problem(problem(body), workshop)
    idle = [f.says for f in report.findings if f.code == "problem.ignores-state"]
    # A bias before batch norm is cancelled by it, exactly up to rounding: not asked for here.
    assert any(says.startswith("idle ") for says in idle)
    assert not any("running" in says for says in idle)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("super().__init__()", "raise KeyError('size')", "building Model raises KeyError"),
        ("return [torch.randn(M, N)]", "return [torch.randn(M, 1 // 0)]", "get_inputs() raises"),
        ("return torch.relu", "return torch.nope", "the reference raises AttributeError"),
        ("M = 4", "import nothing_of_that_name", "importing the problem raises"),
    ],
)
def test_what_the_file_raises_is_told_with_its_own_line(workshop, old, new, what):
    body = SHAPED.replace(old, new).replace("torch.randn(M,", "torch.randn(4,")
    if old == "return [torch.randn(M, N)]":
        body = SHAPED.replace(old, new)
    error = refused(workshop, body)
    assert what in error.what
    assert error.where.endswith(f"line {line_of(body, new)}")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("return [torch.randn(M, N)]", "return [nn.Linear(2, 2)]", "get_inputs() returns"),
        ("return [N]", "return [print]", "get_init_inputs() returns"),
        ("return [torch.randn(M, N)]", "return torch.randn(M, N)", "returns Tensor, not a list"),
        ("return [N]", "return None", "get_init_inputs() returns NoneType, not a list"),
        ("class Model(nn.Module)", "class Model(int)", "not an nn.Module"),
        ("return torch.relu(self.fc(x)), x.shape[0]", "return 7", "returns no tensor"),
        ("return torch.relu(self.fc(x)), x.shape[0]", "return self.fc", "returns an object"),
    ],
)
def test_a_file_of_the_wrong_form_is_refused(workshop, old, new, what):
    body = SHAPED.replace(old, new)
    if "class Model(int)" in body:
        head, tail = body.split("    def __init__")[0], body.split("\ndef get_inputs")[1]
        body = f"{head}    pass\n\ndef get_inputs{tail}"
    assert what in refused(workshop, body).what


def test_a_reference_that_rolls_dice_cannot_judge(workshop):
    body = ADD_RELU.replace("x + y)", "torch.nn.functional.dropout(x + y, 0.5))")
    assert "not deterministic" in refused(workshop, body).what


def test_a_reference_that_never_ends_is_given_up(workshop):
    body = ADD_RELU.replace("return torch.relu(x + y)", "\n        while True: pass")
    with pytest.raises(WorkbenchError, match=r"longer than 0\.5 s"):
        inspect_problem(problem(body), workshop, seconds=0.5)


def test_a_reference_that_ends_its_process_is_told_so(workshop):
    body = ADD_RELU.replace("return torch.relu(x + y)", "\n        import os; os._exit(3)")
    assert "exited 3" in refused(workshop, body).what


@pytest.mark.parametrize("name", shipped_problems())
def test_the_shipped_problems_are_sound_and_their_rooflines_near_what_is_counted(workshop, name):
    task = load_problem(name)
    report = inspect_problem(task, workshop)
    assert codes(report) == []
    for shape in report.shapes:
        assert shape.work is not None
        assert not shape.counted
        moved = sum(e.bytes for e in (*shape.input_entries, *shape.state, *shape.output_entries))
        assert shape.work.bytes == pytest.approx(moved, rel=0.02), shape.shape
        matrix = sum(one.matrix_flops for one in shape.operators)
        # The least work of a recurrence is token by token; in chunks it multiplies more.
        assert shape.work.flops >= matrix or task.family == "recurrence"
