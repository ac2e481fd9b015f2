# expect: accept; layer: correctness; ref: refs/softmax.py; needs: cpu
# rescales only where a larger number came
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    total = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf"))
        new = tl.maximum(top, tl.max(x, axis=0))
        if new > top:
            total = total * tl.exp(top - new)
            top = new
        total += tl.sum(tl.exp(x - top), axis=0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf"))
        tl.store(o_ptr + row * N + cols, tl.exp(x - top) / total, mask=cols < N)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax[(x.shape[0],)](x, out, x.shape[1], BLOCK=32)
        return out
