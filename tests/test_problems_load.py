"""What a person is told about a problem file and its sidecar, and what is read out of good ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.errors import WorkbenchError
from workbench.problems.arithmetic import ArithmeticFault, evaluate
from workbench.problems.constants import constants
from workbench.problems.load import LARGEST_FILE, load_problem, parse_problem, shipped_problems
from workbench.problems.module import bind, build_model, make_inputs
from workbench.problems.records import Precision, Selection
from workbench.problems.roofline import shape_constants, work_floor

PROBLEM = """\
import torch
from torch import nn

M = 8
N, K = 16, 4
HALF = N // 2
SCALE = 0.5
KIND = "sum"
TWICE = 3
TWICE += 1


class Model(nn.Module):
    def __init__(self, n, half):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(half, n))

    def forward(self, x):
        return x @ self.weight.T * SCALE


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return [N, HALF]
"""


@pytest.fixture
def write(tmp_path: Path):
    """Write a problem, and a sidecar when given; the problem's path comes back."""

    def _write(source: str | bytes = PROBLEM, sidecar: str | None = None) -> Path:
        path = tmp_path / "mine.py"
        path.write_bytes(source if isinstance(source, bytes) else source.encode())
        if sidecar is not None:
            (tmp_path / "mine.toml").write_text(sidecar)
        return path

    return _write


def refused(path: Path | str) -> WorkbenchError:
    """The error that loading `path` gives; each has a place and something to do."""
    with pytest.raises(WorkbenchError) as caught:
        load_problem(path)
    assert caught.value.todo
    return caught.value


def test_a_plain_file_needs_no_sidecar(write):
    problem = load_problem(write())
    assert problem.name == "mine"
    assert [shape.name for shape in problem.shapes] == ["file"]
    assert problem.full.values == {}
    assert problem.precision is Precision.IEEE
    assert work_floor(problem, problem.full) is None


def test_loading_runs_nothing_and_imports_no_torch(write, tmp_path):
    path = write(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n" + PROBLEM)
    script = (
        "import sys; from pathlib import Path; from workbench.problems.load import load_problem;"
        f"load_problem(Path({str(path)!r})); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    assert not (tmp_path / "ran").exists()


def test_a_convolution_without_sidecar_keeps_the_tf32_that_cudnn_defaults_to(write):
    source = PROBLEM.replace("nn.Parameter(torch.randn(half, n))", "nn.Conv2d(n, half, 3)")
    assert load_problem(write(source)).precision is Precision.TF32


@pytest.mark.parametrize(("said", "precision"), [("True", "tf32"), ("False", "ieee")])
def test_a_file_may_promise_tf32_itself(write, said, precision):
    convolving = PROBLEM.replace("nn.Parameter(torch.randn(half, n))", "nn.Conv2d(n, half, 3)")
    assert load_problem(write(f"ALLOW_TF32 = {said}\n{convolving}")).precision == precision


def test_a_sidecar_is_read_whole(write):
    problem = load_problem(
        write(
            sidecar="""
family = "gemm"
precision = "tf32"
[[shape]]
name = "tiny"
values = { M = 2, N = 6, SCALE = 2, KIND = "max" }
[[shape]]
name = "full"
[tolerance.float32]
factor = 16
eps = 1e-6
[roofline]
flops = "2 * M * HALF * N"
bytes = "4 * (M * N +\\n HALF * N + M * HALF)"
[[selection]]
output = 1
values = 0
"""
        )
    )
    assert problem.family == "gemm"
    assert problem.precision is Precision.TF32
    assert [shape.name for shape in problem.shapes] == ["tiny", "full"]
    assert problem.tolerance["float32"].factor == 16
    assert problem.selections == (Selection(output=1, values=0, input=0, dim=-1),)
    floor = work_floor(problem, problem.tiny)
    assert floor is not None
    assert floor.flops == 2 * 2 * 3 * 6
    assert floor.bytes == 4 * (2 * 6 + 3 * 6 + 2 * 3)


def test_derived_constants_follow_a_shape(write):
    problem = load_problem(write(sidecar='[[shape]]\nname="a"\nvalues={N=20}'))
    assert shape_constants(problem, problem.full) == {
        "M": 8,
        "N": 20,
        "K": 4,
        "HALF": 10,
        "SCALE": 0.5,
        "KIND": "sum",
    }


def test_binding_replaces_constants_before_anything_runs():
    module = bind(PROBLEM, {"N": 20, "M": 3}, name="bound_problem")
    model = build_model(module, seed=1)
    (x,) = make_inputs(module, seed=2)
    assert x.shape == (3, 20)
    assert model(x).shape == (3, 10)
    again = make_inputs(module, seed=2)
    assert x.equal(again[0])


def test_binding_refuses_a_constant_that_is_not_there():
    with pytest.raises(WorkbenchError, match="no module-level constant `ROWS`"):
        bind(PROBLEM, {"ROWS": 20})


def test_inputs_on_meta_have_shapes_and_no_storage():
    module = bind(PROBLEM, {"M": 10**9}, name="huge_problem")
    (x,) = make_inputs(module, seed=0, device="meta")
    assert (x.shape, x.device.type) == ((10**9, 16), "meta")


def test_a_fault_in_a_bound_file_shows_its_own_line():
    source = PROBLEM.replace("return [torch.randn(M, N)]", "raise KeyError(M)")
    module = bind(source, {}, name="broken_problem")
    with pytest.raises(KeyError) as caught:
        make_inputs(module, seed=0)
    assert str(caught.traceback[-1].statement).strip() == "raise KeyError(M)"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "is empty"),
        ("   \n", "is empty"),
        (b"\x7fELF\0\0", "binary"),
        (b"# caf\xe9\n", "not UTF-8"),
        ("def f(:\n", "not Python"),
        ("# Notes\n\nhello world, this is text\n", "not Python"),
        (PROBLEM.replace("class Model", "class Net"), "lacks `class Model(nn.Module)`"),
        (PROBLEM.replace("get_inputs", "inputs"), "lacks `def get_inputs()`"),
        (PROBLEM.replace("get_init_inputs()", "get_init_inputs(n)"), "needs 1 argument"),
        (PROBLEM.replace("get_inputs()", "get_inputs(*, n)", 1), "needs 1 argument"),
        ("(" * 5000 + ")" * 5000, "not Python"),
    ],
)
def test_a_wrong_problem_file_is_named(write, source, says):
    path = write(source)
    error = refused(path)
    assert says in error.what
    assert str(path) in error.where


def test_a_function_that_only_a_handler_defines_is_found(write):
    guarded = "try:\n    import other as m\nexcept ImportError:\n"
    inputs = "    def get_init_inputs():\n        return []\n"
    source = PROBLEM.replace("def get_init_inputs", "def unused") + guarded + inputs
    assert load_problem(write(source)).name


def test_the_line_of_a_syntax_error_is_told(write):
    assert refused(write(PROBLEM + "x = = 3\n")).where.endswith(
        f"line {PROBLEM.count(chr(10)) + 1}"
    )


def test_a_candidate_in_the_place_of_a_reference_is_recognized(write):
    error = refused(write(PROBLEM.replace("class Model", "class ModelNew")))
    assert "this is a candidate" in error.todo


def test_a_missing_file_a_folder_and_a_pipe_are_told_apart(tmp_path):
    assert "no such problem file" in refused(tmp_path / "nowhere.py").what
    assert "is a folder" in refused(tmp_path).what
    os.mkfifo(tmp_path / "pipe.py")
    assert "not a regular file" in refused(tmp_path / "pipe.py").what
    assert "cannot be read" in refused(str(tmp_path / ("x" * 300 + ".py"))).what
    assert "cannot be read" in refused("a\0b.py").what


def test_a_huge_file_is_not_read(write):
    assert "limit" in refused(write("#" * (LARGEST_FILE + 1))).what


def test_an_unknown_name_lists_what_is_shipped_and_the_nearest():
    error = refused("sofmax")
    assert "did you mean softmax?" in error.todo
    assert all(name in error.todo for name in shipped_problems())


@pytest.mark.parametrize(
    ("sidecar", "key", "says"),
    [
        ("family = ", "mine.toml", "not valid TOML"),
        ("familly = 'gemm'", "top level", "unknown key `familly`"),
        ("family = 'gem'", "family", "'gem'"),
        ("family = 3", "family", "3"),
        ("precision = 'fp8'", "precision", "'fp8'"),
        ("[[shape]]\nvalues = {}", "shape[0]", "shape[0]"),
        ("[[shape]]\nname = 'a'\nsize = 3", "shape[0]", "unknown key `size`"),
        ("[[shape]]\nname = 'a b'", "shape[0].name", "'a b'"),
        ("[[shape]]\nname='a'\n[[shape]]\nname='a'", "shape[1].name", "two shapes"),
        ("[[shape]]\nname='a'\nvalues={Q=1}", "shape[0].values", "no module-level constant `Q`"),
        ("[[shape]]\nname='a'\nvalues={M='x'}", "shape[0].values", "`M` is 'x'"),
        ("[[shape]]\nname='a'\nvalues={M=1.5}", "shape[0].values", "`M` is 1.5"),
        ("[[shape]]\nname='a'\nvalues={M=true}", "shape[0].values", "`M` is True"),
        ("[[shape]]\nname='a'\nvalues={M=[1]}", "shape[0].values", "[1]"),
        ("[[shape]]\nname='a'\nvalues={TWICE=1}", "shape[0].values", "`TWICE`"),
        ("[tolerance.fp32]\nfactor=1\neps=1", "tolerance.fp32", "'fp32'"),
        ("[tolerance.float32]\nfactor=0\neps=1", "tolerance.float32.factor", "is 0"),
        ("[tolerance.float32]\nfactor=1\neps=inf", "tolerance.float32.eps", "inf"),
        ("[roofline]\nflops='M'", "roofline", "roofline"),
        ("[roofline]\nflops='M'\nbytes='Q'", "roofline.bytes", "no constant `Q`"),
        ("[roofline]\nflops='M'\nbytes='KIND'", "roofline.bytes", "not a number"),
        ("[roofline]\nflops='M-M'\nbytes='M'", "roofline.flops", "gives 0"),
        ("[roofline]\nflops='open(M)'\nbytes='M'", "roofline.flops", "not arithmetic"),
        ("[roofline]\nflops='M *'\nbytes='M'", "roofline.flops", "not an arithmetic"),
    ],
)
def test_a_wrong_sidecar_names_file_key_and_value(write, sidecar, key, says):
    error = refused(write(sidecar=sidecar))
    assert "mine.toml" in error.where
    assert key in error.where
    assert says in error.what


def test_a_roofline_is_checked_at_every_shape(write):
    sidecar = """
[[shape]]
name = "a"
values = { M = 4 }
[roofline]
flops = "N"
bytes = "1 / (M - 4)"
"""
    assert "`M - 4` is zero" in refused(write(sidecar=sidecar)).what


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * M * N", 60),
        ("-M + +N", 1),
        ("N // 4 + N % 4 + N / 4", 1 + 2 + 1.5),
        ("2 ** M", 32),
        ("min(M, N, 9) + max(1, 2)", 7),
    ],
)
def test_arithmetic_is_that_of_python(expression, value):
    assert evaluate(expression, {"M": 5, "N": 6}) == value


NOT_ARITHMETIC = """
M() | M.real | [M] | M if M else 1 | 'a' | True | min() | max(M, key=M) | lambda: M | M; M | 1j
9 ** 9 ** 9 | 2 ** 65 | M / 0 | M % 0 | 0 ** -1 | (-8) ** 0.5 | 1e200 * 1e200 | MISSING | M < 3
"""


@pytest.mark.parametrize(
    "expression",
    [
        *(part.strip() for line in NOT_ARITHMETIC.split("\n") for part in line.split(" | ")),
        "__import__('os')",
        "(" * 300,
        "-" * 499 + "1",
        "1" * 600,
    ],
)
def test_what_is_not_arithmetic_is_refused(expression):
    with pytest.raises(ArithmeticFault):
        evaluate(expression, {"M": 5})


def test_a_name_assigned_twice_is_no_constant():
    tree = parse_problem(PROBLEM, "here")
    assert "TWICE" not in constants(tree)
