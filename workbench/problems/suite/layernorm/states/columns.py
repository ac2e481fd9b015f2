"""Layer norm, a block of rows a program, which walks the columns one by one in three passes."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layernorm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, R, C, eps, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = rows < R

    total = tl.zeros([BLOCK], dtype=tl.float32)
    for c in range(C):
        total += tl.load(x_ptr + rows * C + c, mask=inside, other=0.0).to(tl.float32)
    mean = total / C

    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for c in range(C):
        x = tl.load(x_ptr + rows * C + c, mask=inside, other=0.0).to(tl.float32)
        squares += (x - mean) * (x - mean)
    scale = 1.0 / tl.sqrt(squares / C + eps)

    for c in range(C):
        x = tl.load(x_ptr + rows * C + c, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + c).to(tl.float32)
        b = tl.load(b_ptr + c).to(tl.float32)
        y = (x - mean) * scale * w + b
        tl.store(out_ptr + rows * C + c, y.to(out_ptr.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = nn.LayerNorm(cols, dtype=torch.bfloat16)

    def forward(self, x):
        rows, c = x.shape
        out = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(rows, meta["BLOCK"]),)
        layernorm_kernel[grid](
            x, self.norm.weight, self.norm.bias, out, rows, c, self.norm.eps, BLOCK=4, num_warps=4
        )
        return out
