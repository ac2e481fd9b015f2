# expect: accept; layer: correctness; ref: refs/doubled.py; needs: cpu
# in place, restored between runs of the autotuner
import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"], restore_value=["o"])
@triton.jit
def k(o, n, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(o + c, mask=c < n, other=0.0)
    tl.store(o + c, v * 2.0 + 1.0, mask=c < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.clone()
        n = out.numel()
        k[lambda m: (triton.cdiv(n, m["BLOCK"]),)](out, n)
        return out
