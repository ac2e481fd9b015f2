# expect: accept; layer: correctness; ref: refs/row_sum.py; needs: cpu
# partial sums in a workspace that is kept
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def partial_sums(x_ptr, w_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    tl.store(w_ptr + row * PARTS + part, tl.sum(x, axis=0))


@triton.jit
def finish(w_ptr, o_ptr, PARTS: tl.constexpr):
    row = tl.program_id(0)
    tl.store(o_ptr + row, tl.sum(tl.load(w_ptr + row * PARTS + tl.arange(0, PARTS)), axis=0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.work = None

    def forward(self, x):
        rows, n = x.shape
        if self.work is None or self.work.shape[0] < rows:
            self.work = torch.empty(rows, 8, device=x.device, dtype=torch.float32)
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        partial_sums[(rows, 8)](x, self.work, n, PARTS=8, BLOCK=128)
        finish[(rows,)](self.work, out, PARTS=8)
        return out
