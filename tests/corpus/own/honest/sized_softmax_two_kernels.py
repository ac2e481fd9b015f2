# expect: accept; layer: correctness; ref: refs/softmax_sized.py; needs: cpu
# a kernel for each row's maximum and sum, one that reads them
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def stats(x_ptr, high_ptr, sum_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    highest = -float("inf")
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf"))
        highest = tl.maximum(highest, tl.max(x, axis=0))
    total = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf"))
        total += tl.sum(tl.exp(x - highest), axis=0)
    tl.store(high_ptr + row, highest)
    tl.store(sum_ptr + row, total)


@triton.jit
def apply(x_ptr, high_ptr, sum_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0)
    y = tl.exp(x - tl.load(high_ptr + row)) / tl.load(sum_ptr + row)
    tl.store(out_ptr + row * N + cols, y, mask=cols < N)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty_like(x)
        high = torch.empty(rows, dtype=x.dtype, device=x.device)
        total = torch.empty(rows, dtype=x.dtype, device=x.device)
        stats[(rows,)](x, high, total, n, BLOCK=256)
        apply[(triton.cdiv(n, 256), rows)](x, high, total, out, n, BLOCK=256)
        return out
