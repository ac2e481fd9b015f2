# expect: accept; layer: correctness; ref: refs/elu_and_others.py; needs: cpu
# exp(x) - 1 and other short forms of five activations
import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice


@triton.jit
def k(x, a, b, c, d, e, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    t = tl.exp(-tl.abs(v))
    sp = tl.maximum(v, 0.0) + libdevice.log1p(t)
    u = tl.exp(tl.minimum(v, 20.0))
    w = u * (u + 2)
    tl.store(a + i, tl.where(v > 20, v, v * w / (w + 2)), mask=m)
    tl.store(b + i, sp, mask=m)
    tl.store(c + i, v * tl.clamp(v * (1 / 6) + 0.5, 0.0, 1.0), mask=m)
    z = tl.exp(v) - 1
    tl.store(d + i, tl.where(v > 0, v, z), mask=m)
    tl.store(e + i, 1.0507009873554805 * tl.where(v > 0, v, 1.6732632423543772 * z), mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        o = [torch.empty_like(x) for _ in range(5)]
        k[(triton.cdiv(x.numel(), 256),)](x, *o, x.numel(), B=256)
        return tuple(o)
