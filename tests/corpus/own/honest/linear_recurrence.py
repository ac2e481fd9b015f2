# expect: accept; layer: correctness; ref: refs/linear_recurrence.py; needs: cpu
# a scan over pairs
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def comb(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def k(a, x, o, T, D: tl.constexpr, B: tl.constexpr):
    g = tl.program_id(0)
    t = tl.arange(0, B)
    d = tl.arange(0, D)
    p = g * T * D + t[:, None] * D + d[None, :]
    m = (t < T)[:, None]
    u = tl.sigmoid(tl.load(a + p, mask=m, other=0.0))
    v = tl.load(x + p, mask=m, other=0.0)
    _, h = tl.associative_scan((u, v), 0, comb)
    tl.store(o + p, h, mask=m)


class ModelNew(nn.Module):
    def forward(self, a, x):
        o = torch.empty_like(x)
        k[(x.shape[0],)](a, x, o, x.shape[1], D=8, B=64)
        return o
