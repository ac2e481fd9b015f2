# expect: accept; layer: correctness; ref: refs/logsumexp.py; needs: cpu
# stable log-sum-exp, output without the reduced dimension
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lse(x_ptr, o_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
    top = tl.max(x, axis=0)
    tl.store(o_ptr + row, top + tl.log(tl.sum(tl.exp(x - top), axis=0)))


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[:-1])
        lse[(out.numel(),)](x, out, x.size(-1), BLOCK=triton.next_power_of_2(x.size(-1)))
        return out
