# expect: accept; layer: correctness; ref: refs/softmax_sized.py; needs: cpu
# a loop that goes round at the full shape only, then flat programs across rows
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def stat(x_ptr, m_ptr, s_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = -float("inf")
    s = 0.0
    for c0 in range(0, n, BLOCK):
        c = c0 + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + c, mask=c < n, other=float("-inf"))
        mn = tl.maximum(m, tl.max(x, 0))
        s = s * tl.exp(m - mn) + tl.sum(tl.exp(x - mn), 0)
        m = mn
    tl.store(m_ptr + row, m)
    tl.store(s_ptr + row, s)
@triton.jit
def norm(x_ptr, m_ptr, s_ptr, o_ptr, total, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = o < total
    row = o // n
    x = tl.load(x_ptr + o, mask=k)
    tl.store(o_ptr + o, tl.exp(x - tl.load(m_ptr + row, mask=k)) / tl.load(s_ptr + row, mask=k), mask=k)
class ModelNew(nn.Module):
    def forward(self, x):
        R, C = x.shape
        out = torch.empty_like(x)
        m, s = torch.empty(R, device=x.device), torch.empty(R, device=x.device)
        stat[(R,)](x, m, s, C, 1024)
        norm[(triton.cdiv(R * C, 1024),)](x, m, s, out, R * C, C, 1024)
        return out
