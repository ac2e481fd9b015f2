# expect: accept; layer: correctness; ref: refs/total_sum.py; needs: cpu
# every program adds its share into one zeroed element
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def total(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr, tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros(1, device=x.device, dtype=x.dtype)
        total[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
