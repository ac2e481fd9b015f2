# expect: accept; layer: correctness; ref: refs/softmax_sized.py; needs: cpu
# rows of any length, one program each
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_rows(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * N
    out_row = out_ptr + row * N
    highest = -float("inf")
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        highest = tl.maximum(highest, tl.max(x, axis=0))
    total = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        total += tl.sum(tl.exp(x - highest), axis=0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        y = tl.exp(x - highest) / total
        tl.store(out_row + cols, y.to(out_ptr.dtype.element_ty), mask=cols < N)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty_like(x)
        softmax_rows[(rows,)](x, out, n, BLOCK=256)
        return out
