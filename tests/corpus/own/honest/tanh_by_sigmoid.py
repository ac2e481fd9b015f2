# expect: accept; layer: correctness; ref: refs/lstm_cell.py; needs: cpu
# tanh as 2 sigmoid(2x) - 1
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def k(g, c, h, n, H, B: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, B)
    m = j < H
    p = g + r * 4 * H + j
    i = tl.load(p, mask=m)
    f = tl.load(p + H, mask=m)
    z = tl.load(p + 2 * H, mask=m)
    o = tl.load(p + 3 * H, mask=m)
    s = tl.sigmoid(f) * tl.load(c + r * H + j, mask=m) + tl.sigmoid(i) * tanh(z)
    tl.store(n + r * H + j, s, mask=m)
    tl.store(h + r * H + j, tl.sigmoid(o) * tanh(s), mask=m)


class ModelNew(nn.Module):
    def forward(self, g, c):
        h, n = torch.empty_like(c), torch.empty_like(c)
        k[(c.shape[0],)](g, c, h, n, c.shape[1], B=64)
        return h, n
