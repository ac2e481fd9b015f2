# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# launched by kernel.run, as generated code does
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.where(s > 0, s, 0.0), mask=mask)

class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        add_relu.run(x, y, out, n, BLOCK=256, grid=(triton.cdiv(n, 256),), warmup=False)
        return out
