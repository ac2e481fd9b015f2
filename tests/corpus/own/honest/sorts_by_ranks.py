# expect: accept; layer: correctness; ref: refs/sort.py; needs: cpu
# ranks by comparison, values moved unchanged
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def ranked(x_ptr, v_ptr, i_ptr, N: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, N)
    x = tl.load(x_ptr + row * N + at)
    less = (x[None, :] < x[:, None]) | ((x[None, :] == x[:, None]) & (at[None, :] < at[:, None]))
    rank = tl.sum(less.to(tl.int32), axis=1)
    tl.store(v_ptr + row * N + rank, x)
    tl.store(i_ptr + row * N + rank, at.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        v = torch.empty_like(x)
        i = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        ranked[(x.shape[0],)](x, v, i, x.shape[1])
        return v, i
