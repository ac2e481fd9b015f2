# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# a workspace asked for on the GPU while the model is built
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.where(s > 0, s, 0.0), mask=mask)


def run(x, y):
    out = torch.empty_like(x)
    add_relu[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
        self.scratch = torch.zeros(64, device="cuda")

    def forward(self, x, y):
        out = torch.empty(x.shape, device="cuda", dtype=x.dtype)
        grid = (min(self.sms, triton.cdiv(x.numel(), 256)) * 0 + triton.cdiv(x.numel(), 256),)
        add_relu[grid](x, y, out, x.numel(), BLOCK=256)
        return out
