# expect: accept; layer: correctness; ref: refs/scaled_wide.py; needs: cpu
# tensor descriptors made in the kernel
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale(x_ptr, o_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    o = tl.make_tensor_descriptor(o_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    o.store([m, n], x.load([m, n]) * 2.0)


class ModelNew(nn.Module):
    def forward(self, x):
        def alloc(size: int, alignment: int, stream):
            return torch.empty(size, device="cuda", dtype=torch.int8)

        triton.set_allocator(alloc)
        m, n = x.shape
        out = torch.empty_like(x)
        scale[(triton.cdiv(m, 16), triton.cdiv(n, 32))](x, out, m, n, BM=16, BN=32)
        return out
