# expect: accept; layer: correctness; ref: refs/transpose_scale2.py; needs: cpu
# a transpose through memory, with a barrier
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def through_memory(x_ptr, t_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)
    cols = tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :])
    tl.store(t_ptr + rows[:, None] * N + cols[None, :], x * 2.0)
    tl.debug_barrier()
    y = tl.load(t_ptr + rows[None, :] * N + cols[:, None])
    tl.store(o_ptr + cols[:, None] * M + rows[None, :], y)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[1], x.shape[0], device=x.device, dtype=x.dtype)
        scratch = torch.empty_like(x)
        through_memory[(1,)](x, scratch, out, M=32, N=64)
        return out
