# expect: accept; layer: correctness; ref: refs/triangular_solve.py; needs: cpu
# forward substitution by rows
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def k(a, b, o, N: tl.constexpr, M: tl.constexpr):
    g = tl.program_id(0)
    i = tl.arange(0, N)
    j = tl.arange(0, M)
    x = tl.load(b + g * N * M + i[:, None] * M + j[None, :])
    for r in range(N):
        row = tl.sum(tl.where((i == r)[:, None], x, 0.0), 0)
        col = tl.load(a + g * N * N + i * N + r) * 0.3
        x -= tl.where(i > r, col, 0.0)[:, None] * row[None, :]
    tl.store(o + g * N * M + i[:, None] * M + j[None, :], x)


class ModelNew(nn.Module):
    def forward(self, a, b):
        o = torch.empty_like(b)
        k[(a.shape[0],)](a, b, o, N=16, M=8)
        return o
