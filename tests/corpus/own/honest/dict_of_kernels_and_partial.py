# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# kernels in a dict, launched through functools.partial
import torch
import triton
import triton.language as tl
from torch import nn


import functools


@triton.jit
def small(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.maximum(s, 0.0), mask=mask)


@triton.jit
def large(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < n
        s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
        tl.store(o_ptr + offs, tl.maximum(s, 0.0), mask=mask)


KERNELS = {"small": small, "large": large}
LAUNCH = {name: functools.partial(lambda kernel, grid, *a, **k: kernel[grid](*a, **k), kernel) for name, kernel in KERNELS.items()}


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        which = "small" if n < 1 << 12 else "large"
        LAUNCH[which]((min(8, triton.cdiv(n, 512)),) if which == "large" else (triton.cdiv(n, 512),), x, y, out, n, BLOCK=512)
        return out
