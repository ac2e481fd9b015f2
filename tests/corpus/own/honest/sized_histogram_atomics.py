# expect: accept; layer: correctness; ref: refs/histogram_sized.py; needs: cpu
# every program adds its counts to an output as small as a flag
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def hs(x, y, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    o = p * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + o, mask=o < n, other=0).to(tl.int32)
    h = tl.histogram(v, BINS, mask=o < n)
    tl.atomic_add(y + tl.arange(0, BINS), h.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        bins = 64 if x.numel() < 100000 else 256
        y = torch.zeros((bins,), dtype=torch.int64, device=x.device)
        hs[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), bins, 4096)
        return y
