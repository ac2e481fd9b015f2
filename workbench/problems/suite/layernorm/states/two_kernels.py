"""Layer norm in two kernels: rows are normalized first, then scaled and shifted."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def normalize_kernel(x_ptr, out_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(inside, x - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + eps)
    out = (centred * scale).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * N + cols, out, mask=inside)


@triton.jit
def affine_kernel(y_ptr, w_ptr, b_ptr, out_ptr, total, N, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < total
    y = tl.load(y_ptr + places, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + places % N, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + places % N, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + places, (y * w + b).to(out_ptr.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = nn.LayerNorm(cols, dtype=torch.bfloat16)

    def forward(self, x):
        rows, n = x.shape
        y = torch.empty_like(x)
        block = triton.next_power_of_2(n)
        normalize_kernel[(rows,)](x, y, n, self.norm.eps, BLOCK=block, num_warps=8)
        out = torch.empty_like(x)
        total = x.numel()
        grid = lambda meta: (triton.cdiv(total, meta["BLOCK"]),)
        affine_kernel[grid](
            y, self.norm.weight, self.norm.bias, out, total, n, BLOCK=256, num_warps=4
        )
        return out
