# expect: accept; layer: correctness; ref: refs/quantized_rows.py; needs: cpu
# rows in int8 with their scales, times the inverse of the scale
import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice


@triton.jit
def k(x, o, s, n, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0)
    a = tl.maximum(tl.max(tl.abs(v), 0), 1e-8)
    q = libdevice.rint(v * (127 / a))
    q = tl.minimum(tl.maximum(q, -128.0), 127.0)
    tl.store(o + r * n + i, q.to(tl.int8), mask=i < n)
    tl.store(s + r, a * (1.0 / 127))


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape, dtype=torch.int8, device=x.device)
        s = x.new_empty(x.shape[0], 1)
        k[(x.shape[0],)](x, o, s, x.shape[1], B=128)
        return o, s
