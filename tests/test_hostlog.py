"""What host code computes or reads is seen while it runs, by whatever way it got there."""

from pathlib import Path
from textwrap import dedent, indent

import pytest
import torch
import triton
from gate_kit import ADD_RELU, ADD_RELU_KERNEL, judged, model, told, workshop  # noqa: F401

from workbench.gate.correctness.hostlog import MOST_UPDATES, HostLog
from workbench.gate.records import Outcome

FILE = "candidate.py"


def convicted(body: str) -> list[str]:
    """What is held against host code that runs `body` on inputs `x` and `y`.

    `weight` and `mean` are a parameter and a buffer of its module, `eps` a scalar one.
    """
    text = "import numpy as np\nimport torch\nfrom torch import nn\n"
    text += f"def run(x, y, weight, mean, eps):\n{indent(dedent(body), '    ')}"
    names: dict[str, object] = {}
    exec(compile(text, FILE, "exec"), names)  # noqa: S102  # a candidate's file
    x, y, weight = torch.randn(4, 3), torch.randn(4, 3), torch.nn.Parameter(torch.ones(3))
    mean, eps = torch.zeros(3), torch.tensor(1e-5)
    log = HostLog(FILE, state=(weight, mean, eps), buffers=(mean, eps), inputs=(x, y))
    with torch.no_grad(), log.watching():
        names["run"](x, y, weight, mean, eps)
    return [op.name for op in log.operators() if not op.allowed]


READS = {
    "tolist": "x.tolist()",
    "numpy": "x.numpy()",
    "an array": "np.array(x)",
    "a numpy function": "np.sort(x)",
    "storage": "x.untyped_storage()",
    "float": "float(x[0, 0])",
    "truth": "list(filter(None, x[0]))",
    "an index": "[0, 1][x[0, 0].long() * 0]",
    "text": "f'{x[0, 0]}'",
    "a parameter of a part": "nn.Parameter(x[0, 0]).item()",
    "a buffer that took an input": "mean.copy_(x[0])\nmean[0].item()",
    "many of the state": "for _ in range(100):\n    weight[0].item()",
}


@pytest.mark.parametrize("body", READS.values(), ids=READS)
def test_values_that_are_read_are_seen(body):
    assert convicted(body)


OPERATOR = """
@torch.library.{kind}("workbench_tests::{kind}", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x).copy_({value})
op(x)
"""

COMPUTES = {
    "an operator of torch.library": OPERATOR.format(kind="custom_op", value="torch.relu(x)"),
    "an operator of Triton's": OPERATOR.format(kind="triton_op", value="torch.relu(x)"),
    "an operator": "x + y",
    "a buffer adds an input": "mean.add_(x[0])",
    "a buffer adds row by row": f"for _ in range({MOST_UPDATES + 1}):\n    mean += torch.ones(3)",
    "a conjugate": "torch.view_as_complex(torch.stack([x, y], -1)).mH.clone()",
    "a buffer takes a copy of an input": "mean.add_(torch.clone(x[0]))",
    "a buffer takes pieces of inputs": "mean.addcmul_(torch.cat([x[0]]), torch.stack([y[0]])[0])",
    "a buffer that took an input is scaled": "mean.copy_(x[0])\nmean.mul_(2.0)",
    "a buffer that took a padded input": "mean[:] = nn.functional.pad(x[0, :2], (0, 1))\nmean += 1",
    "a buffer of its own": "nn.Buffer(torch.ones(3)).add_(y[0] * 0)",
}


@pytest.mark.parametrize("body", COMPUTES.values(), ids=COMPUTES)
def test_what_is_computed_is_seen(body):
    assert convicted(body)


HONEST = {
    "scratch and views": "torch.empty_like(x).copy_(x.t().contiguous().t())\nx[1:, ::2].shape",
    "settings": "eps.item()\nfloat(eps)",
    "statistics": "m = torch.ones(3)\nmean.mul_(0.9).add_(m, alpha=0.1)\nmean.lerp_(m, 0.1)",
    "statistics where a copy of an input lay": (
        "for _ in range(9):\n    x[0].clone()\n    mean.lerp_(torch.ones(3), 0.1)"
    ),
    "a cache that takes inputs": "mean.copy_(x[0])\nmean[1:] = y[0, 1:].float()\nmean.clone()",
    "an operator of torch.library": OPERATOR.format(kind="custom_op", value="x").replace(
        "::custom", "::honest"
    ),
    "casts": "x.to(torch.float16).float()\nx.data_ptr() % 16",
    "a cat of pieces": "torch.cat(x.chunk(2) + y.split(2))",
}


@pytest.mark.parametrize("body", HONEST.values(), ids=HONEST)
def test_what_host_code_may_do_is_let_alone(body):
    assert convicted(body) == []


TUNING = """
def do_bench(call):
    times = torch.tensor([call(n) for n in (3.0, 1.0, 2.0)])
    torch.quantile(times, torch.tensor([0.5]))
    return (times * 2).tolist(), float(times.mean()), times.numpy()
"""


def test_what_triton_computes_for_itself_is_not_held_against_host_code():
    names = {"torch": torch}
    place = str(Path(triton.__file__).parent / "testing.py")
    exec(compile(TUNING, place, "exec"), names)  # noqa: S102  # as triton's own benchmark
    text = "def run(do_bench, x):\n    return do_bench(lambda n: n)\n"
    text += "def peek(do_bench, x):\n    return do_bench(lambda n: float(x.sum()))\n"
    exec(compile(text, FILE, "exec"), names)  # noqa: S102  # a candidate's file
    x = torch.randn(4)
    for function, guilty in ((names["run"], False), (names["peek"], True)):
        log = HostLog(FILE, inputs=(x,))
        with torch.no_grad(), log.watching():
            function(names["do_bench"], x)
        assert bool([op for op in log.operators() if not op.allowed]) is guilty


@pytest.mark.parametrize("how", ["x.tolist()", "float(x[0, 0])"])
def test_a_candidate_that_reads_is_refused_with_its_line(workshop, how):  # noqa: F811
    body = f"x, y = inputs\n{how}\nreturn launch(x, y, torch.empty_like(x))"
    report = judged(workshop, ADD_RELU, ADD_RELU_KERNEL + model(body))
    assert report.outcome is Outcome.FAILED
    assert told(report).code == "correctness.reads-values"
    assert told(report).line
