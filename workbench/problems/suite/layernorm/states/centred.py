"""Layer norm in two kernels of one grid: rows are centred first, then scaled."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def centre_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    y = (x - tl.sum(x, axis=0) / N).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + row * N + cols, y, mask=cols < N)


@triton.jit
def scale_kernel(y_ptr, w_ptr, b_ptr, out_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    y = tl.load(y_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(y * y, axis=0) / N + eps)
    w = tl.load(w_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    out = (y * scale * w + b).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * N + cols, out, mask=cols < N)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = nn.LayerNorm(cols, dtype=torch.bfloat16)

    def forward(self, x):
        rows, n = x.shape
        y = torch.empty_like(x)
        out = torch.empty_like(x)
        block = triton.next_power_of_2(n)
        weight, bias, eps = self.norm.weight, self.norm.bias, self.norm.eps
        centre_kernel[(rows,)](x, y, n, BLOCK=block, num_warps=8)
        scale_kernel[(rows,)](y, weight, bias, out, n, eps, BLOCK=block, num_warps=8)
        return out
