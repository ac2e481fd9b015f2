# expect: accept; layer: correctness; ref: refs/two_halves.py; needs: cpu
# two outputs that are interleaved views of one buffer
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def halves(x_ptr, o_ptr, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N)
    tl.store(o_ptr + row * 2 * N + cols, x * 2.0, mask=cols < N)
    tl.store(o_ptr + row * 2 * N + N + cols, x * 3.0, mask=cols < N)


class ModelNew(nn.Module):
    def forward(self, x):
        m, n = x.shape
        both = torch.empty(m, 2 * n, device=x.device, dtype=x.dtype)
        halves[(m,)](x, both, m, n, BLOCK=triton.next_power_of_2(n))
        return both.chunk(2, dim=-1)
