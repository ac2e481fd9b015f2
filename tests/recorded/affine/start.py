# ruff: noqa: N803 -- upper-case constants are how Triton is written
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def increment(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        doubled, y = torch.empty_like(x), torch.empty_like(x)
        double[(triton.cdiv(n, 64),)](x, doubled, n, BLOCK=64)
        increment[(triton.cdiv(n, 64),)](doubled, y, n, BLOCK=64)
        return y
