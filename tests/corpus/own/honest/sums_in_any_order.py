# expect: accept; layer: correctness; ref: refs/row_sum.py; needs: cpu
# what is only summed may be reordered
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def k(x, o, n, H: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, H)
    a = tl.load(x + r * n + c, mask=c < n, other=0.0)
    b = tl.load(x + r * n + H + c, mask=c + H < n, other=0.0)
    v = tl.cat(a, b, can_reorder=True)
    tl.store(o + r, tl.sum(v, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        k[(x.shape[0],)](x, out, x.shape[1], triton.next_power_of_2(x.shape[1]) // 2)
        return out
