# expect: accept; layer: correctness; ref: refs/softmax_tall.py; needs: cpu
# a table of the host's that is one everywhere
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_rows(x_ptr, t_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    factor = tl.load(t_ptr + row)
    tl.store(out_ptr + row * N + cols, factor * e / tl.sum(e, axis=0), mask=cols < N)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        table = torch.ones(x.shape[0], device=x.device)
        softmax_rows[(x.shape[0],)](x, table, out, x.shape[1], BLOCK=1024)
        return out
