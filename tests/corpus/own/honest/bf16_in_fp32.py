# expect: accept; layer: correctness; ref: refs/bf16_silu_mul.py; needs: cpu
# bf16 in and out, computed in fp32: one rounding where eager has two
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_mul(x_ptr, g_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    g = tl.load(g_ptr + offs, mask=mask).to(tl.float32)
    tl.store(o_ptr + offs, (x * tl.sigmoid(x) * g).to(tl.bfloat16), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, g):
        out = torch.empty_like(x)
        silu_mul[(triton.cdiv(x.numel(), 512),)](x, g, out, x.numel(), BLOCK=512)
        return out
