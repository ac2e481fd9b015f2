# expect: accept; layer: correctness; ref: refs/row_sum.py; needs: cpu
# the last program adds what the others stored; its ticket acquires what theirs released
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def row_sum(x_ptr, parts_ptr, tickets_ptr, o_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    tl.store(parts_ptr + row * PARTS + part, tl.sum(x, axis=0))
    if tl.atomic_add(tickets_ptr + row, 1, sem="acq_rel") == PARTS - 1:
        each = tl.load(parts_ptr + row * PARTS + tl.arange(0, PARTS))
        tl.store(o_ptr + row, tl.sum(each, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        parts = torch.empty((rows, 4), device=x.device, dtype=x.dtype)
        tickets = torch.zeros(rows, device=x.device, dtype=torch.int32)
        row_sum[(rows, 4)](x, parts, tickets, out, n, PARTS=4, BLOCK=256)
        return out
