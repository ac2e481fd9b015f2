"""Honest kernels pass, whatever dtypes, nestings and side effects their reference has."""

import pytest
from gate_kit import (
    ADD_RELU,
    ADD_RELU_KERNEL,
    SCALE,
    SCALE_KERNEL,
    judged,
    model,
    problem,
    workshop,
)

from workbench.gate.records import Outcome

__all__ = ["workshop"]

POINTWISE = """
class Model(nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.silu(x) * y

def get_inputs():
    return [torch.randn(11, 37).{cast}(), torch.randn(11, 37).{cast}()]

def get_init_inputs():
    return []
"""

POINTWISE_KERNEL = """
@triton.jit
def silu_mul(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offs, mask=mask).to(tl.float32)
    tl.store(o_ptr + offs, x * tl.sigmoid(x) * y, mask=mask)
"""

NORM = """
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bn = nn.BatchNorm1d(n)

    def forward(self, x):
        return self.bn(x)

def get_inputs():
    return [torch.randn(24, 10) * 2 + 1]

def get_init_inputs():
    return [10]
"""

NORM_KERNEL = """
@triton.jit
def norm(x_ptr, w_ptr, b_ptr, m_ptr, v_ptr, c_ptr, o_ptr, rows, cols, eps, BLOCK: tl.constexpr):
    col = tl.program_id(0)
    r = tl.arange(0, BLOCK)
    mask = r < rows
    x = tl.load(x_ptr + r * cols + col, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / rows
    d = tl.where(mask, x - mean, 0.0)
    square = tl.sum(d * d, axis=0)
    y = d * tl.rsqrt(square / rows + eps) * tl.load(w_ptr + col) + tl.load(b_ptr + col)
    tl.store(o_ptr + r * cols + col, y, mask=mask)
    tl.store(m_ptr + col, 0.9 * tl.load(m_ptr + col) + 0.1 * mean)
    tl.store(v_ptr + col, 0.9 * tl.load(v_ptr + col) + 0.1 * square / (rows - 1))
    if col == 0:
        tl.store(c_ptr, tl.load(c_ptr) + 1)
"""

NORM_MODEL = model(
    """
    x, = inputs
    bn, out = self.bn, torch.empty_like(x)
    norm[(x.shape[1],)](
        x, bn.weight, bn.bias, bn.running_mean, bn.running_var, bn.num_batches_tracked, out,
        x.shape[0], x.shape[1], bn.eps, BLOCK=triton.next_power_of_2(x.shape[0]))
    return out
    """,
    "self.bn = nn.BatchNorm1d(n)",
    "self, n",
)


LAUNCHED = model("return launch(*inputs, torch.empty_like(inputs[0]))")


def passes(report):
    assert report.outcome is Outcome.PASSED, (report.says, report.findings)


def test_a_right_kernel_passes_and_says_how_near_it_came(workshop):
    report = judged(
        workshop,
        ADD_RELU,
        ADD_RELU_KERNEL + LAUNCHED,
    )
    passes(report)
    assert [finding.code for finding in report.findings] == ["correctness.special-values"]
    assert "worst error" in report.says
    assert report.isolation != "no candidate code ran"


@pytest.mark.parametrize("cast", ["half", "bfloat16", "float", "double"])
def test_every_float_dtype_has_its_own_bound(workshop, cast):
    kernel = POINTWISE_KERNEL
    if cast == "double":
        kernel = kernel.replace("float32", "float64").replace(
            "tl.sigmoid(x)", "(1 / (1 + tl.exp(-x)))"
        )
    body = """
    out = torch.empty_like(inputs[0])
    silu_mul[(triton.cdiv(out.numel(), 128),)](*inputs, out, out.numel(), BLOCK=128)
    return out
    """
    passes(judged(workshop, POINTWISE.format(cast=cast), kernel + model(body)))


def test_integers_must_be_exact_and_are(workshop):
    reference = ADD_RELU.replace("torch.randn(13, 29)", "torch.randint(-9, 9, (13, 29))")
    kernel = ADD_RELU_KERNEL.replace("0.0", "0")
    passes(
        judged(
            workshop,
            reference,
            kernel + LAUNCHED,
        )
    )


def test_running_statistics_updated_by_the_kernel_pass(workshop):
    passes(judged(workshop, NORM, NORM_KERNEL + NORM_MODEL))


NESTED = """
class Model(nn.Module):
    def forward(self, pair, scale, extra):
        x, y = pair["x"], pair["y"]
        return {"sum": (x + y, extra), "scaled": x * scale}

def get_inputs():
    return [{"x": torch.randn(7, 5), "y": torch.randn(7, 5)}, 3.0, None]

def get_init_inputs():
    return []
"""

NESTED_KERNEL = """
@triton.jit
def both(x_ptr, y_ptr, s_ptr, m_ptr, scale, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(s_ptr + offs, x + tl.load(y_ptr + offs, mask=offs < n), mask=offs < n)
    tl.store(m_ptr + offs, x * scale, mask=offs < n)
"""


def test_nested_inputs_and_outputs_keep_their_nesting(workshop):
    body = """
    pair, scale, extra = inputs
    total, scaled = torch.empty_like(pair["x"]), torch.empty_like(pair["x"])
    both[(1,)](pair["x"], pair["y"], total, scaled, scale, 35, BLOCK=64)
    return {"scaled": scaled, "sum": [total, extra]}
    """
    passes(judged(workshop, NESTED, NESTED_KERNEL + model(body)))


def test_a_workspace_registered_as_a_buffer_is_no_difference(workshop):
    body = """
    x, = inputs
    self.scratch.zero_()
    return launch(x, self.weight, torch.empty_like(x))
    """
    init = """
    self.weight = nn.Parameter(torch.ones(n))
    self.register_buffer("scratch", torch.zeros(4))
    """
    passes(judged(workshop, SCALE, SCALE_KERNEL + model(body, init, "self, n")))


VIEWS = """
class Model(nn.Module):
    def forward(self, x, y):
        y.add_(x)
        return x.t(), torch.relu(y)

def get_inputs():
    return [torch.randn(8, 6), torch.randn(8, 6)]

def get_init_inputs():
    return []
"""

VIEWS_KERNEL = """
@triton.jit
def add_then_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.load(y_ptr + offs, mask=offs < n) + tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, total, mask=offs < n)
    tl.store(o_ptr + offs, tl.maximum(total, 0.0), mask=offs < n)
"""


def test_what_the_reference_does_to_its_inputs_is_the_contract(workshop):
    body = """
    x, y = inputs
    out = torch.empty_like(y)
    add_then_relu[(1,)](x, y, out, 48, BLOCK=64)
    return x.t(), out
    """
    passes(judged(workshop, VIEWS, VIEWS_KERNEL + model(body)))


def test_a_contiguous_output_may_stand_for_a_strided_one(workshop):
    reference = SCALE.replace("return x * self.weight", "return (x * self.weight).t()")
    body = """
    x, = inputs
    out = torch.empty_like(x)
    launch(x, self.weight, out)
    return out.t().contiguous()
    """
    init = "self.weight = nn.Parameter(torch.ones(n))"
    passes(judged(workshop, reference, SCALE_KERNEL + model(body, init, "self, n")))


INNER_CAST = """
class Model(nn.Module):
    def forward(self, x, y):
        return (x.half() * y.half()).float()

def get_inputs():
    return [torch.randn(12, 40), torch.randn(12, 40)]

def get_init_inputs():
    return []
"""


def test_a_kernel_more_exact_than_a_reference_that_casts_inside_passes(workshop):
    kernel = ADD_RELU_KERNEL.replace("tl.maximum(x + y, 0.0)", "x * y")
    passes(
        judged(
            workshop,
            INNER_CAST,
            kernel + LAUNCHED,
        )
    )


QUANTIZED = """
class Model(nn.Module):
    def forward(self, x, s):
        return torch.round(x / s).clamp(-127, 127).to(torch.int8)

def get_inputs():
    # A quarter of the quotients lie on a half, where the last bit of the division decides.
    s = torch.full((1,), 0.1)
    return [torch.randint(-40, 40, (40, 50)).float() * 0.05, s]

def get_init_inputs():
    return []
"""

QUANTIZED_KERNEL = """
@triton.jit
def quantize(x_ptr, s_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    q = tl.load(x_ptr + offs, mask=mask) * (1.0 / tl.load(s_ptr))
    low = tl.floor(q)
    rest = q - low
    odd = (low - 2 * tl.floor(low * 0.5)) > 0.5
    up = (rest > 0.5) | ((rest == 0.5) & odd)
    q = tl.where(up, low + 1, low)
    q = tl.minimum(tl.maximum(q, -127.0), 127.0)
    tl.store(o_ptr + offs, q.to(tl.int8), mask=mask)
"""


def test_an_integer_that_only_rounding_decides_may_fall_either_way(workshop):
    body = """
    x, s = inputs
    out = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    quantize[(triton.cdiv(x.numel(), 256),)](x, s, out, x.numel(), BLOCK=256)
    return out
    """
    passes(judged(workshop, QUANTIZED, QUANTIZED_KERNEL + model(body)))


TOP_K = """
class Model(nn.Module):
    def forward(self, x):
        return torch.topk(x, 3, dim=-1, sorted={sorted})

def get_inputs():
    return [torch.randn(5, 16)]

def get_init_inputs():
    return []
"""

TOP_K_KERNEL = """
@triton.jit
def top(x_ptr, v_ptr, i_ptr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, N)
    x = tl.load(x_ptr + row * N + at)
    for k in tl.static_range(K):
        best = tl.max(x, axis=0)
        place = tl.max(tl.where(x == best, at, -1), axis=0)
        slot = {slot}
        tl.store(v_ptr + row * K + slot, best)
        tl.store(i_ptr + row * K + slot, place.to(tl.int64))
        x = tl.where(at == place, -float("inf"), x)
"""

TOP_K_MODEL = model(
    """
    x, = inputs
    values = torch.empty(x.shape[0], 3, device=x.device)
    places = torch.empty(x.shape[0], 3, dtype=torch.int64, device=x.device)
    top[(x.shape[0],)](x, values, places, N=16, K=3)
    return values, places
    """
)


@pytest.mark.parametrize(("order", "slot"), [("True", "k"), ("False", "K - 1 - k")])
def test_equal_values_may_be_taken_in_any_order_and_unsorted_ones_left_in_any(
    workshop, order, slot
):
    # Of equal values the kernel takes the last; unsorted, it lists the smallest first.
    passes(
        judged(workshop, TOP_K.format(sorted=order), TOP_K_KERNEL.format(slot=slot) + TOP_K_MODEL)
    )


def test_a_reference_that_cannot_run_in_fp64_is_compared_with_as_it_runs(workshop):
    reference = ADD_RELU.replace(
        "return torch", "assert x.dtype == torch.float32\n        return torch"
    )
    passes(
        judged(
            workshop,
            reference,
            ADD_RELU_KERNEL + LAUNCHED,
        )
    )


def test_inputs_that_overlap_themselves_arrive_as_they_are(workshop):
    reference = ADD_RELU.replace(
        "torch.randn(13, 29), torch.randn(13, 29)",
        "torch.randn(13, 29), torch.randn(29).expand(13, 29)",
    )
    body = "return launch(inputs[0], inputs[1].contiguous(), torch.empty_like(inputs[0]))"
    passes(judged(workshop, problem(reference), ADD_RELU_KERNEL + model(body)))


VARIANCE = """
class Model(nn.Module):
    def forward(self, x):
        return x.var(-1, unbiased=False)

def get_inputs():
    return [torch.randn(12, 1000)]

def get_init_inputs():
    return []
"""

SHIFTED_KERNEL = """
@triton.jit
def variance(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    first = tl.load(x_ptr + row * n)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=first) - first
    mean = tl.sum(x, axis=0) / n
    tl.store(o_ptr + row, tl.sum(x * x, axis=0) / n - mean * mean)
"""


def test_a_variance_of_numbers_less_the_first_is_right_and_so_is_its_margin(workshop):
    """Where that number lies far out its error is beyond the bound, and not held against it."""
    forward = """
    (x,) = inputs
    out = torch.empty(x.shape[0], device=x.device)
    variance[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024)
    return out
    """
    report = judged(workshop, VARIANCE, SHIFTED_KERNEL + model(forward))
    assert report.outcome is Outcome.PASSED
    assert report.margin < 1
