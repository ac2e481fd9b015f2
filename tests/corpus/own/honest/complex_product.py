# expect: accept; layer: correctness; ref: refs/complex_product.py; needs: cpu
# both parts by hand
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def k(x, f, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < n
    a = tl.load(x + (r * n + c) * 2, mask=m, other=0.0)
    b = tl.load(x + (r * n + c) * 2 + 1, mask=m, other=0.0)
    p = tl.load(f + c * 2, mask=m, other=0.0)
    q = tl.load(f + c * 2 + 1, mask=m, other=0.0)
    tl.store(o + (r * n + c) * 2, a * p - b * q, mask=m)
    tl.store(o + (r * n + c) * 2 + 1, a * q + b * p, mask=m)


class ModelNew(nn.Module):
    def forward(self, x, f):
        out = torch.empty_like(x)
        k[(x.shape[0],)](torch.view_as_real(x), torch.view_as_real(f), torch.view_as_real(out), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
