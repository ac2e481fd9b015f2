# expect: accept; layer: correctness; ref: refs/var_mean.py; needs: cpu
# one pass over x less the mean of the row's first block: one element may be an outlier
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def stats(x_ptr, m_ptr, v_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    some = tl.arange(0, BLOCK)
    near = tl.load(x_ptr + row * n + some, mask=some < n, other=0.0)
    shift = tl.sum(near, axis=0) / tl.minimum(BLOCK, n)
    s = tl.zeros([BLOCK], dtype=tl.float32)
    q = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=shift) - shift
        s += x
        q += x * x
    mean = tl.sum(s, axis=0) / n
    tl.store(m_ptr + row, shift + mean)
    tl.store(v_ptr + row, tl.sum(q, axis=0) / n - mean * mean)


class ModelNew(nn.Module):
    def forward(self, x):
        m = torch.empty(x.shape[0], device=x.device)
        v = torch.empty(x.shape[0], device=x.device)
        stats[(x.shape[0],)](x, m, v, x.shape[1], BLOCK=64)
        return m, v
