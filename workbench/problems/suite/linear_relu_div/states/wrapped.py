"""Linear, ReLU and division whose offsets wrap around at the edge instead of being masked."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def linear_relu_div_kernel(
    x_ptr,
    w_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    K,
    divisor,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    num_n = tl.cdiv(N, BLOCK_N)
    rows = ((pid // num_n) * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    cols = ((pid % num_n) * BLOCK_N + tl.arange(0, BLOCK_N)) % N

    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows[:, None] * K + ks[None, :], mask=ks[None, :] < K, other=0.0)
        w = tl.load(w_ptr + cols[None, :] * K + ks[:, None], mask=ks[:, None] < K, other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")

    bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    y = tl.maximum(acc + bias[None, :], 0.0) / divisor
    out_rows = (pid // num_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    out_cols = (pid % num_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    out_mask = (out_rows[:, None] < M) & (out_cols[None, :] < N)
    out = out_ptr + out_rows[:, None] * N + out_cols[None, :]
    tl.store(out, y.to(out_ptr.dtype.element_ty), mask=out_mask)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, divisor):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.divisor = divisor

    def forward(self, x):
        weight, bias = self.linear.weight, self.linear.bias
        m, k = x.shape
        n = weight.shape[0]
        out = torch.empty((m, n), dtype=x.dtype, device=x.device)
        grid = lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)
        linear_relu_div_kernel[grid](
            x,
            weight,
            bias,
            out,
            m,
            n,
            k,
            self.divisor,
            BLOCK_M=32,
            BLOCK_N=32,
            BLOCK_K=32,
            num_warps=4,
            num_stages=2,
        )
        return out
