# expect: accept; layer: correctness; ref: refs/row_sum.py; needs: cpu
# the last program of a row sums up and clears its ticket
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def row_sum(x_ptr, w_ptr, lock_ptr, o_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    tl.store(w_ptr + row * PARTS + part, tl.sum(x, axis=0))
    ticket = tl.atomic_add(lock_ptr + row, 1, sem="acq_rel")
    if ticket == PARTS - 1:
        tl.store(o_ptr + row, tl.sum(tl.load(w_ptr + row * PARTS + tl.arange(0, PARTS)), axis=0))
        tl.store(lock_ptr + row, 0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.locks = None

    def forward(self, x):
        rows, n = x.shape
        if self.locks is None or self.locks.numel() < rows:
            self.locks = torch.zeros(max(rows, 128), device=x.device, dtype=torch.int32)
        work = torch.empty(rows, 8, device=x.device, dtype=torch.float32)
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        row_sum[(rows, 8)](x, work, self.locks, out, n, PARTS=8, BLOCK=128)
        return out
