# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# host code that makes sure of devices and kernels
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.where(s > 0, s, 0.0), mask=mask)


def run(x, y):
    out = torch.empty_like(x)
    add_relu[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return out


def launch(kernel, grid, *args, **kwargs):
    if isinstance(kernel, triton.runtime.JITFunction):
        return kernel[grid](*args, **kwargs)
    raise TypeError("not a kernel")


class ModelNew(nn.Module):
    def forward(self, x, y):
        assert x.is_cuda and y.is_cuda and x.device == y.device
        assert not x.is_cpu and x.get_device() == 0
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        launch(add_relu, (triton.cdiv(x.numel(), 256),), x, y, out, x.numel(), BLOCK=256)
        return out.view(*x.shape)
