# expect: accept; layer: correctness; ref: refs/shifted_sum.py; needs: cpu
# every index is in the block
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def k(x, o, n: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, n)
    v = tl.load(x + r * n + c)
    w = tl.gather(v, (c + n - 1) % n, 0)
    tl.store(o + r * n + c, v + w)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        k[(x.shape[0],)](x, out, x.shape[1])
        return out
