# expect: accept; layer: correctness; ref: refs/var_mean.py; needs: cpu
# Welford's running mean and variance, block by block
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def stats(x_ptr, m_ptr, v_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = tl.zeros([BLOCK], dtype=tl.float32)
    m2 = tl.zeros([BLOCK], dtype=tl.float32)
    count = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n
        x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
        count = tl.where(mask, count + 1.0, count)
        delta = x - mean
        mean = tl.where(mask, mean + delta / tl.maximum(count, 1.0), mean)
        m2 = tl.where(mask, m2 + delta * (x - mean), m2)
    whole = tl.sum(mean * count, axis=0) / n
    apart = mean - whole
    tl.store(m_ptr + row, whole)
    tl.store(v_ptr + row, tl.sum(m2 + count * apart * apart, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, x):
        m = torch.empty(x.shape[0], device=x.device)
        v = torch.empty(x.shape[0], device=x.device)
        stats[(x.shape[0],)](x, m, v, x.shape[1], BLOCK=32)
        return m, v
