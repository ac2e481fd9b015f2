# expect: accept; layer: correctness; ref: refs/softmax_causal.py; needs: cpu
# guards against rows of nothing, which never come
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    keep = (cols < N) & (cols <= row % N)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0)
    x = tl.where(keep, x, -float("inf"))
    top = tl.max(x, axis=0)
    top = tl.where(top == -float("inf"), 0.0, top)
    e = tl.exp(x - top)
    total = tl.sum(e, axis=0)
    if total == 0.0:
        total = 1.0
    tl.store(o_ptr + row * N + cols, e / total, mask=cols < N)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
