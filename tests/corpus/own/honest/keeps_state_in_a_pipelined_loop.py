# expect: accept; layer: correctness; ref: refs/linear_recurrence.py; needs: cpu
# the state stays in registers, inputs are loaded ahead
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def recurrence(a_ptr, x_ptr, o_ptr, T, D: tl.constexpr):
    channels = tl.program_id(0) * T * D + tl.arange(0, D)
    state = tl.load(x_ptr + channels)
    tl.store(o_ptr + channels, state)
    for t in tl.range(1, T, num_stages=3):
        places = channels + t * D
        gate = tl.sigmoid(tl.load(a_ptr + places))
        state = gate * state + tl.load(x_ptr + places)
        tl.store(o_ptr + places, state)


class ModelNew(nn.Module):
    def forward(self, a, x):
        out = torch.empty_like(x)
        recurrence[(x.shape[0],)](a, x, out, x.shape[1], D=x.shape[2])
        return out
