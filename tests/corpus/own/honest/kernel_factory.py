# expect: accept; layer: correctness; ref: refs/transpose_scale.py; needs: cpu
# a factory makes the kernel: it closes over its scale
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl


def make_kernel(scale):
    SCALE = tl.constexpr(scale)
    @triton.jit
    def inner(x_ptr, o_ptr, R, C, s0, s1, B: tl.constexpr):
        r = tl.program_id(0)
        c = tl.arange(0, B)
        x = tl.load(x_ptr + r * s0 + c * s1, mask=c < C)
        tl.store(o_ptr + r * C + c, x * SCALE + 1.0, mask=c < C)
    return inner
_kernel = make_kernel(2.0)
class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        _kernel[(x.shape[0],)](x, out, *x.shape, *x.stride(), B=64)
        return out
