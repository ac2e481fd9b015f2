"""Layer normalization, one program a row, in three passes that add up each block at once."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layernorm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * N
    out_row = out_ptr + row * N

    total = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=0.0).to(tl.float32)
        total += tl.sum(x, axis=0)
    mean = total / N

    squares = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=0.0).to(tl.float32)
        centred = tl.where(cols < N, x - mean, 0.0)
        squares += tl.sum(centred * centred, axis=0)
    scale = 1.0 / tl.sqrt(squares / N + eps)

    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        y = (x - mean) * scale * w + b
        tl.store(out_row + cols, y.to(out_ptr.dtype.element_ty), mask=cols < N)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = nn.LayerNorm(cols, dtype=torch.bfloat16)

    def forward(self, x):
        rows, n = x.shape
        out = torch.empty_like(x)
        layernorm_kernel[(rows,)](
            x, self.norm.weight, self.norm.bias, out, n, self.norm.eps, BLOCK=512, num_warps=4
        )
        return out
