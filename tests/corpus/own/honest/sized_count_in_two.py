# expect: accept; layer: correctness; ref: refs/count_sized.py; needs: cpu
# counts in two kernels
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def count(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(part_ptr + tl.program_id(0), tl.sum((x > 0).to(tl.int32), axis=0))


@triton.jit
def total(part_ptr, o_ptr, parts, BLOCK: tl.constexpr):
    acc = tl.zeros([BLOCK], dtype=tl.int32)
    for start in range(0, parts, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(part_ptr + at, mask=at < parts, other=0)
    s = tl.sum(acc, axis=0)
    tl.store(o_ptr, s.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        parts = triton.cdiv(x.numel(), 1024)
        part = torch.empty(parts, dtype=torch.int32, device=x.device)
        out = torch.empty((), dtype=torch.int64, device=x.device)
        count[(parts,)](x, part, x.numel(), BLOCK=1024)
        total[(1,)](part, out, parts, BLOCK=64)
        return out
