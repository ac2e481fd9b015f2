# expect: accept; layer: correctness; ref: refs/layernorm.py; needs: cpu
# one pass over x less the first number of the row
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def k(x, w, b, o, n, eps, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    m = c < n
    v = tl.load(x + r * n + c, mask=m, other=0.0)
    s = tl.load(x + r * n)
    d = tl.where(m, v - s, 0.0)
    s1 = tl.sum(d, 0) / n
    s2 = tl.sum(d * d, 0) / n
    var = s2 - s1 * s1
    y = (d - s1) * tl.rsqrt(var + eps)
    tl.store(o + r * n + c, y * tl.load(w + c, mask=m) + tl.load(b + c, mask=m), mask=m)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.ln = nn.LayerNorm(n)

    def forward(self, x):
        o = torch.empty_like(x)
        k[(x.shape[0],)](x, self.ln.weight, self.ln.bias, o, x.shape[1], 1e-5, B=256)
        return o
