"""Candidates that launch several kernels or pass twice over their input, with their references."""

_HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
_REFERENCE = "import torch\nfrom torch import nn\n\n"
_INIT = "\n\ndef get_init_inputs():\n    return []\n"

EPILOGUE = (
    _HEAD
    + '''\
@triton.jit
def gemm(x_ptr, w_ptr, out_ptr, M, N, K,
         BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        x_mask = (rows[:, None] < M) & (ks[None, :] < K)
        w_mask = (ks[:, None] < K) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * K + ks[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + ks[:, None] * N + cols[None, :], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    out = out_ptr + rows[:, None] * N + cols[None, :]
    tl.store(out, acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def bias_gelu(y_ptr, bias_ptr, res_ptr, out_ptr, total, N, scale, BLOCK: tl.constexpr):
    """Bias, GELU, residual."""
    pid = tl.program_id(0)
    places = pid * BLOCK + tl.arange(0, BLOCK)
    inside = places < total
    x = tl.load(y_ptr + places, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(bias_ptr + places % N, mask=inside, other=0.0)
    x = x + b
    y = 0.5 * x * (
        1.0 + tl.erf(x * 0.7071067811865476)
    )
    r = tl.load(res_ptr + places, mask=inside, other=0.0)
    tl.store(out_ptr + places, y * scale + r, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x, w, bias, res):
        M, K = x.shape
        N = w.shape[1]
        y = torch.empty((M, N), dtype=x.dtype, device=x.device)
        gemm[(triton.cdiv(M, 32), triton.cdiv(N, 32))](
            x, w, y, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32
        )
        out = torch.empty_like(y)
        total = y.numel()
        grid = lambda meta: (triton.cdiv(total, meta["BLOCK"]),)
        bias_gelu[grid](y, bias, res, out, total, N, 2.0, BLOCK=128, num_warps=4)
        return out
'''
)

IN_PLACE = (
    _HEAD
    + """\
@triton.jit
def squares(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x * x, mask=i < n)


@triton.jit
def plus(a_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    x += tl.load(a_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x, a):
        n = x.numel()
        y = torch.empty_like(x)
        blocks = triton.cdiv(n, 256)
        squares[(blocks,)](x, y, n, BLOCK=256)
        plus[(blocks,)](a, y, y, n, BLOCK=256)
        return y
"""
)

ROWS_AFTER_ROWS = (
    _HEAD
    + """\
@triton.jit
def scaled(x_ptr, y_ptr, N, factor, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=inside, other=0.0)
    tl.store(y_ptr + row * N + cols, x * factor, mask=inside)


@triton.jit
def softmaxed(x_ptr, out_ptr, n, B: tl.constexpr):
    r = tl.program_id(axis=0)
    at = r * n + tl.arange(0, B)
    cols = tl.arange(0, B)
    x = tl.load(x_ptr + r * n + cols, mask=cols < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    e = e / tl.sum(e, axis=0)
    tl.store(out_ptr + at, e, mask=cols < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        y = torch.empty_like(x)
        block = triton.next_power_of_2(n)
        scaled[(rows,)](x, y, n, 0.5, BLOCK=block)
        out = torch.empty_like(x)
        softmaxed[(rows,)](y, out, n, B=block, num_warps=8)
        return out
"""
)

IN_MEMORY = (
    _HEAD
    + """\
@triton.jit
def column_sums(x_ptr, out_ptr, R, C, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < C
    tl.store(out_ptr + cols, tl.zeros([BLOCK], dtype=tl.float32), mask=inside)
    for r in range(R):
        x = tl.load(x_ptr + r * C + cols, mask=inside)
        total = tl.load(out_ptr + cols, mask=inside)
        total += x * x
        tl.store(out_ptr + cols, total, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        R, C = x.shape
        out = torch.empty((C,), device=x.device, dtype=x.dtype)
        column_sums[(triton.cdiv(C, 128),)](x, out, R, C, BLOCK=128)
        return out
"""
)

TWO_PASS_ATTENTION = (
    _HEAD
    + """\
@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, L, scale,
              D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * L * D
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    places = head + rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + places, mask=rows[:, None] < L, other=0.0)

    top = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    for start in range(0, L, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(
            k_ptr + head + keys[None, :] * D + dims[:, None], mask=keys[None, :] < L, other=0.0
        )
        scores = tl.dot(q, k, input_precision="ieee") * scale
        scores = tl.where(keys[None, :] < L, scores, -float("inf"))
        highest = tl.max(scores, axis=1)
        top = tl.maximum(top, highest)

    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    for start in range(0, L, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(
            k_ptr + head + keys[None, :] * D + dims[:, None], mask=keys[None, :] < L, other=0.0
        )
        scores = tl.dot(q, k, input_precision="ieee") * scale
        scores = tl.where(keys[None, :] < L, scores, -float("inf"))
        weights = tl.exp(scores - top[:, None])
        total += tl.sum(weights, axis=1)
        v = tl.load(
            v_ptr + head + keys[:, None] * D + dims[None, :], mask=keys[:, None] < L, other=0.0
        )
        acc = tl.dot(weights.to(v.dtype), v, acc, input_precision="ieee")

    tl.store(out_ptr + places, acc / total[:, None], mask=rows[:, None] < L)


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v):
        batch, heads, length, dim = q.shape
        out = torch.empty_like(q)
        grid = lambda meta: (triton.cdiv(length, meta["BLOCK_M"]), batch * heads)
        attention[grid](
            q, k, v, out, length, dim**-0.5, D=dim, BLOCK_M=16, BLOCK_N=16, num_warps=4
        )
        return out
"""
)

PAIRS = {
    "epilogue": EPILOGUE,
    "in_place": IN_PLACE,
    "rows_after_rows": ROWS_AFTER_ROWS,
    "in_memory": IN_MEMORY,
    "two_pass_attention": TWO_PASS_ATTENTION,
}


def _reference(parameters: str, result: str, inputs: str) -> str:
    """A problem's file: what `forward` of those parameters gives on those inputs."""
    return (
        f"{_REFERENCE}class Model(nn.Module):\n    def forward(self, {parameters}):\n"
        f"        return {result}\n\n\ndef get_inputs():\n    return [{inputs}]\n{_INIT}"
    )


REFERENCES = {
    "epilogue": _reference(
        "x, w, bias, res",
        "nn.functional.gelu(x @ w + bias) * 2.0 + res",
        "torch.randn(45, 50), torch.randn(50, 70), torch.randn(70), torch.randn(45, 70)",
    ),
    "in_place": _reference("x, a", "x * x + a", "torch.randn(1000), torch.randn(1000)"),
    "rows_after_rows": _reference("x", "torch.softmax(x * 0.5, -1)", "torch.randn(5, 300)"),
    "two_pass_attention": _reference(
        "q, k, v",
        "nn.functional.scaled_dot_product_attention(q, k, v)",
        "*(torch.randn(1, 2, 40, 16) for _ in range(3))",
    ),
    "in_memory": _reference("x", "(x * x).sum(0)", "torch.randn(9, 300)"),
}
