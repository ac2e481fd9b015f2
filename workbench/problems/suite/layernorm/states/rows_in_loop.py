"""Layer norm, several rows a program: every row loads the weights again."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layernorm_kernel(
    x_ptr, w_ptr, b_ptr, out_ptr, R, N, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    first = tl.program_id(0).to(tl.int64) * ROWS
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    for i in range(ROWS):
        row = first + i
        mask = inside & (row < R)
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(x, axis=0) / N
        centred = tl.where(inside, x - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + eps)
        w = tl.load(w_ptr + cols, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + cols, mask=inside, other=0.0).to(tl.float32)
        y = centred * scale * w + b
        tl.store(out_ptr + row * N + cols, y.to(out_ptr.dtype.element_ty), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = nn.LayerNorm(cols, dtype=torch.bfloat16)

    def forward(self, x):
        rows, n = x.shape
        out = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(rows, meta["ROWS"]),)
        layernorm_kernel[grid](
            x,
            self.norm.weight,
            self.norm.bias,
            out,
            rows,
            n,
            self.norm.eps,
            ROWS=4,
            BLOCK=triton.next_power_of_2(n),
            num_warps=8,
        )
        return out
