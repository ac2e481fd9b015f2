# expect: accept; layer: correctness; ref: refs/scaled.py; needs: cpu
# a table of the host's, moved to where the input is
import torch
import triton
import triton.language as tl
from torch import nn


TABLE = torch.tensor([1.0, 2.0, 3.0, 4.0])


@triton.jit
def scale(x_ptr, t_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    t = tl.load(t_ptr + offs % 4)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=mask) * t, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = TABLE
        self.register_buffer("again", TABLE.clone(), persistent=False)

    def forward(self, x):
        table = self.table.to(x.device)
        out = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), 256),)](x, table, out, x.numel(), BLOCK=256)
        return out
