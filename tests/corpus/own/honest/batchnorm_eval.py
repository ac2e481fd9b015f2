# expect: accept; layer: correctness; ref: refs/batchnorm_eval.py; needs: cpu
# inference batch norm folded in the kernel, not at construction
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batch_norm(x_ptr, m_ptr, v_ptr, w_ptr, b_ptr, o_ptr, n, channels, eps, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    c = offs % channels
    scale = tl.load(w_ptr + c, mask=mask) / tl.sqrt(tl.load(v_ptr + c, mask=mask, other=1.0) + eps)
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, (x - tl.load(m_ptr + c, mask=mask)) * scale + tl.load(b_ptr + c, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm1d(channels)
        self.bn.eval()

    def forward(self, x):
        bn = self.bn
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 256),)
        batch_norm[grid](x, bn.running_mean, bn.running_var, bn.weight, bn.bias, out, x.numel(), x.shape[1], bn.eps, BLOCK=256)
        return out
