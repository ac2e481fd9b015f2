# expect: accept; layer: correctness; ref: refs/linear_sized.py; needs: cpu
# split K by atomics into zeros, in two configurations
import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(
    configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 16})],
    key=["K"],
    reset_to_zero=["out_ptr"],
)
@triton.jit
def linear(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    part = tl.program_id(2)
    acc = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for start in range(part * BLOCK, K, BLOCK * SPLIT):
        ks = start + tl.arange(0, BLOCK)
        x_mask = (rows[:, None] < M) & (ks[None, :] < K)
        w_mask = (cols[None, :] < N) & (ks[:, None] < K)
        x = tl.load(x_ptr + rows[:, None] * K + ks[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + cols[None, :] * K + ks[:, None], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    if part == 0:
        acc += tl.load(b_ptr + cols, mask=cols < N, other=0.0)[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.atomic_add(out_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        (m, k), n = x.shape, w.shape[0]
        out = torch.zeros((m, n), dtype=x.dtype, device=x.device)
        grid = lambda meta: (triton.cdiv(m, meta["BLOCK"]), triton.cdiv(n, meta["BLOCK"]), 2)
        linear[grid](x, w, b, out, m, n, k, SPLIT=2)
        return out
