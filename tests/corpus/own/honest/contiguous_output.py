# expect: accept; layer: correctness; ref: refs/transpose_scale.py; needs: cpu
# answers contiguously where the reference keeps the input's strides
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, o_ptr, rows, cols, sr, sc, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < rows * cols
    x = tl.load(x_ptr + (offs // cols) * sr + (offs % cols) * sc, mask=mask)
    tl.store(o_ptr + offs, x * 2.0 + 1.0, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
        scale[(triton.cdiv(rows * cols, 512),)](x, out, rows, cols, *x.stride(), BLOCK=512)
        return out
