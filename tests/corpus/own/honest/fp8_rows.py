# expect: accept; layer: correctness; ref: refs/fp8_rows.py; needs: cpu
# rows scaled and cast to fp8
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def quantize(x_ptr, o_ptr, scale_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-4) / 448.0
    tl.store(o_ptr + row * n + cols, (x / scale).to(o_ptr.dtype.element_ty), mask=mask)
    tl.store(scale_ptr + row, scale)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty_like(x, dtype=torch.float8_e4m3fn)
        scale = torch.empty(rows, 1, device=x.device)
        quantize[(rows,)](x, out, scale, n, BLOCK=triton.next_power_of_2(n))
        return out, scale
