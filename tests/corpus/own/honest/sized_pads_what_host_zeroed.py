# expect: accept; layer: correctness; ref: refs/padded.py; needs: cpu
# writes into zeros of the host, of which one column stays
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n)
    tl.store(o_ptr + row * (n + 1) + cols, x * 2.0, mask=cols < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.zeros((rows, n + 1), device=x.device)
        scale[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
