"""The same protocol on a GPU: compiled kernels, lent buffers, guards, repeats, dirty memory."""

from collections.abc import Iterator

import pytest
from gate_kit import (
    ADD_RELU,
    ADD_RELU_KERNEL,
    CANDIDATE,
    SCALE,
    SCALE_KERNEL,
    SEED,
    Source,
    model,
    problem,
    told,
)

from workbench.gate.correctness.cases import Effort
from workbench.gate.correctness.stage import JOB_MODULES, CorrectnessSettings, ShapeEffort, run
from workbench.gate.records import Outcome, StageReport
from workbench.isolation.workshop import Workshop

pytestmark = pytest.mark.gpu

OUT = "out = torch.empty_like(inputs[0])\n"


@pytest.fixture(scope="module")
def gpu() -> Iterator[Workshop]:
    with Workshop(device_index=0, preload=JOB_MODULES, share_device_memory=True) as made:
        yield made


def judged(gpu: Workshop, body: str, candidate: str, effort: Effort = Effort.ALL) -> StageReport:
    settings = CorrectnessSettings(
        shapes=(ShapeEffort(shape="file", effort=effort),), seed=SEED, device_index=0
    )
    return run(Source(CANDIDATE + candidate), problem(body), settings, gpu)


def test_right_kernels_pass_with_and_without_weights(gpu):
    for body, candidate in (
        (ADD_RELU, ADD_RELU_KERNEL + model(OUT + "return launch(*inputs, out)")),
        (
            SCALE,
            SCALE_KERNEL
            + model(
                OUT + "return launch(inputs[0], self.weight, out)",
                "self.weight = nn.Parameter(torch.ones(n))",
                "self, n",
            ),
        ),
    ):
        report = judged(gpu, body, candidate)
        assert report.outcome is Outcome.PASSED, report.findings
        # The interpreter beside the GPU tells that the kernel drops NaN.
        assert {finding.code for finding in report.findings} <= {"correctness.special-values"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("out = inputs[0]\nreturn launch(*inputs, out)", "aliases-input"),
        (OUT + "launch(*inputs, out)\nlaunch(*inputs, inputs[1])\nreturn out", "input-modified"),
        (OUT + "return launch(*inputs, out)[:1]", "wrong-shape"),
        (OUT + "return launch(*inputs, out).cpu()", "wrong-device"),
        (OUT + "add_relu[(1,)](*inputs, out, 377, BLOCK=128)\nreturn out", None),
        (OUT + "launch(*inputs, out)\nreturn torch.relu(out)", "torch-compute-at-run-time"),
        ("launch(*inputs, torch.empty_like(inputs[0]))\nreturn inputs[0].clone()", None),
        ("import os\nos.abort()", "crashed"),
        ("raise ValueError('no')", "raised"),
        # Where it could, it would fill the machine's memory past every limit of its own.
        ("open('/dev/shm/torch_planted', 'w').write('x')", "raised"),
    ],
)
def test_cheats_are_refused(gpu, body, code):
    report = judged(gpu, ADD_RELU, ADD_RELU_KERNEL + model(body))
    assert report.outcome is Outcome.FAILED
    if code is not None:
        assert told(report).code == f"correctness.{code}"


def test_a_hoard_on_the_gpu_is_refused_by_name_and_an_ordinary_workspace_is_not(gpu):
    out = OUT + "return launch(*inputs, out)"
    hoard = "self.hoard = [torch.ones(64 << 20, device=inputs[0].device) for _ in range(24)]\n"
    report = judged(gpu, ADD_RELU, ADD_RELU_KERNEL + model(hoard + out))
    assert told(report).code == "correctness.gpu-memory", told(report)
    assert told(report).evidence["limit_bytes"] < 3 << 30
    workspace = "self.room = torch.empty(64 << 20, device=inputs[0].device)\n"
    assert judged(gpu, ADD_RELU, ADD_RELU_KERNEL + model(workspace + out)).outcome is Outcome.PASSED


def test_a_store_beside_an_input_breaks_its_guard(gpu):
    stray = ADD_RELU_KERNEL.replace(
        "    tl.store(", "    tl.store(y_ptr + n + 8 + offs, x, mask=offs < 8)\n    tl.store("
    )
    report = judged(gpu, ADD_RELU, stray + model(OUT + "return launch(*inputs, out)"))
    assert told(report).code == "correctness.out-of-bounds"


def test_a_load_past_the_end_is_seen_by_the_interpreter(gpu):
    unmasked = ADD_RELU_KERNEL.replace(", mask=mask)", ")", 1)
    report = judged(gpu, ADD_RELU, unmasked + model(OUT + "return launch(*inputs, out)"))
    finding = told(report)
    assert finding.code == "correctness.out-of-bounds"
    assert finding.evidence["argument"] == "x_ptr"


def test_a_bad_address_ends_the_worker_and_nothing_else(gpu):
    wild = ADD_RELU_KERNEL.replace("tl.store(o_ptr", "tl.store(o_ptr + (1 << 40)")
    report = judged(gpu, ADD_RELU, wild + model(OUT + "return launch(*inputs, out)"))
    assert report.outcome is Outcome.FAILED
    again = judged(gpu, ADD_RELU, ADD_RELU_KERNEL + model(OUT + "return launch(*inputs, out)"))
    assert again.outcome is Outcome.PASSED


def test_a_sum_that_races_is_refused(gpu):
    body = """
class Model(nn.Module):
    def forward(self, x):
        return x.sum().reshape(1)

def get_inputs():
    return [torch.randn(1 << 16)]

def get_init_inputs():
    return []
"""
    kernel = """
@triton.jit
def total(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0)
    tl.store(o_ptr, tl.load(o_ptr) + part)
"""
    call = (
        "out = torch.zeros(1, device=inputs[0].device)\n"
        "total[(512,)](inputs[0], out, 1 << 16, BLOCK=128)\nreturn out"
    )
    assert judged(gpu, body, kernel + model(call)).outcome is Outcome.FAILED


LONG_PRODUCT = """
class Model(nn.Module):
    def forward(self, x, w):
        return x.float() @ w.float().T

def get_inputs():
    return [torch.randn(64, 7168, dtype={dtype}), torch.randn(64, 7168, dtype={dtype}) * 7168**-0.5]

def get_init_inputs():
    return []
"""
LONG_KERNEL = """
@triton.jit
def product(x_ptr, w_ptr, o_ptr, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)
    cols = tl.arange(0, 64)
    acc = tl.zeros([16, 64], tl.float32)
    for start in range(0, K, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + rows[:, None] * K + ks[None, :])
        w = tl.load(w_ptr + cols[None, :] * K + ks[:, None])
        acc = tl.dot(x, w, acc)
    tl.store(o_ptr + rows[:, None] * 64 + cols[None, :], acc)
"""


@pytest.mark.parametrize(
    ("dtype", "outcome"),
    [("torch.bfloat16", Outcome.PASSED), ("torch.float32", Outcome.FAILED)],
    ids=["exact products", "products in TF32"],
)
def test_long_sums_on_tensor_cores_are_right_where_their_products_are(gpu, dtype, outcome):
    call = (
        "x, w = inputs\nout = torch.empty(64, 64, device=x.device)\n"
        "product[(4,)](x, w, out, x.shape[1], BLOCK=64)\nreturn out"
    )
    body = LONG_PRODUCT.format(dtype=dtype)
    report = judged(gpu, body, LONG_KERNEL + model(call), Effort.FEW)
    assert report.outcome is outcome, report.findings
