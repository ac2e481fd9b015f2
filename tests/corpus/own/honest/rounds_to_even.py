# expect: accept; layer: correctness; ref: refs/rounded.py; needs: cpu
# ties to even by libdevice
import torch
import triton
import triton.language as tl
from torch import nn

from triton.language.extra.cuda import libdevice


@triton.jit
def k(x, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + c, mask=c < n, other=0.0)
    tl.store(o + r * n + c, libdevice.rint(v), mask=c < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        k[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
