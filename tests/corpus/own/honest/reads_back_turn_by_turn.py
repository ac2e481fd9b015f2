# expect: accept; layer: correctness; ref: refs/linear_recurrence.py; needs: cpu
# reads back what the turn before stored; without num_stages nothing is loaded ahead
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def recurrence(a_ptr, x_ptr, o_ptr, T, D: tl.constexpr):
    channels = tl.program_id(0) * T * D + tl.arange(0, D)
    tl.store(o_ptr + channels, tl.load(x_ptr + channels))
    for t in tl.range(1, T):
        places = channels + t * D
        before = tl.load(o_ptr + places - D)
        gate = tl.sigmoid(tl.load(a_ptr + places))
        tl.store(o_ptr + places, gate * before + tl.load(x_ptr + places))


class ModelNew(nn.Module):
    def forward(self, a, x):
        out = torch.empty_like(x)
        recurrence[(x.shape[0],)](a, x, out, x.shape[1], D=x.shape[2])
        return out
