# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# map and zip, in the constructor and around launches
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
        self.blocks = tuple(map(triton.next_power_of_2, (100, 200)))
        self.sizes = dict(zip(("a", "b"), self.blocks))

    def forward(self, x, y):
        out = torch.empty_like(x)
        for block in map(int, self.sizes.values()):
            if block == 256:
                add_relu[(triton.cdiv(x.numel(), block),)](x, y, out, x.numel(), BLOCK=block)
        return out
