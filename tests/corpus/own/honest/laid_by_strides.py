# expect: accept; layer: correctness; ref: refs/softmax_laid.py; needs: cpu
# goes by the strides of its input, however it lies
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sm(x_ptr, o_ptr, s0, s1, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r * s0 + c * s1, mask=c < n, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(o_ptr + r * n + c, e / tl.sum(e, 0), mask=c < n)
class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        sm[(x.shape[0],)](x, out, *x.stride(), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
