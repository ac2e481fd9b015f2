"""Layer norm over channels: a program holds a run of pixels and walks the channels three times."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layernorm2d_kernel(x_ptr, w_ptr, b_ptr, out_ptr, C, P, eps, BLOCK: tl.constexpr):
    image = tl.program_id(1).to(tl.int64)
    pixels = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pixels < P
    x_image = x_ptr + image * C * P
    out_image = out_ptr + image * C * P

    total = tl.zeros([BLOCK], dtype=tl.float32)
    for c in range(C):
        total += tl.load(x_image + c * P + pixels, mask=inside, other=0.0).to(tl.float32)
    mean = total / C

    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for c in range(C):
        x = tl.load(x_image + c * P + pixels, mask=inside, other=0.0).to(tl.float32)
        squares += (x - mean) * (x - mean)
    scale = 1.0 / tl.sqrt(squares / C + eps)

    for c in range(C):
        x = tl.load(x_image + c * P + pixels, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + c).to(tl.float32)
        b = tl.load(b_ptr + c).to(tl.float32)
        y = (x - mean) * scale * w + b
        tl.store(out_image + c * P + pixels, y.to(out_ptr.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x):
        batch, channels, height, width = x.shape
        pixels = height * width
        out = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(pixels, meta["BLOCK"]), batch)
        layernorm2d_kernel[grid](
            x, self.weight, self.bias, out, channels, pixels, self.eps, BLOCK=256, num_warps=4
        )
        return out
