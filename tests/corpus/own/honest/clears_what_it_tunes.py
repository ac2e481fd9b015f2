# expect: accept; layer: correctness; ref: refs/row_sum.py; needs: cpu
# zeroed before each run of the autotuner
import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"], reset_to_zero=["o"])
@triton.jit
def k(x, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + r * n + c, mask=c < n, other=0.0)
    tl.atomic_add(o + r, tl.sum(v, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros(x.shape[0], device=x.device)
        k[lambda m: (x.shape[0], triton.cdiv(x.shape[1], m["BLOCK"]))](x, out, x.shape[1])
        return out
