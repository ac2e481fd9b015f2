# expect: accept; layer: correctness; ref: refs/softmax_laid.py; needs: cpu
# copies an input that does not lie as it likes
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sm(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r * n + c, mask=c < n, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(o_ptr + r * n + c, e / tl.sum(e, 0), mask=c < n)
class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        sm[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
