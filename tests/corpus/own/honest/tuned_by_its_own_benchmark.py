# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# a benchmark of its own, which calls what it is given as often as it likes
import torch
import triton
import triton.language as tl
from torch import nn


def bench(call, quantiles=None):
    for _ in range(3):
        call()
    return [1.0] * len(quantiles or (0.5,))


@triton.autotune(
    configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"], do_bench=bench
)
@triton.jit
def relu_add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.maximum(s, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        relu_add[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel())
        return out
