# expect: accept; layer: correctness; ref: refs/gelu_long.py; needs: cpu
# a capped grid strides over the blocks; the eight that are left are one more trip of the first programs
import torch
import triton
import triton.language as tl
from torch import nn

MOST_PROGRAMS = 27387


@triton.jit
def gelu_strides(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + places, mask=places < n, other=0.0)
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
        tl.store(out_ptr + places, y, mask=places < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        grid = (min(triton.cdiv(n, 64), MOST_PROGRAMS),)
        gelu_strides[grid](x, out, n, BLOCK=64)
        return out
