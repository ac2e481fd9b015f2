"""bf16 matrix product for Hopper: descriptors, one wave of programs, grouped tiles."""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def gemm_kernel(
    x_ptr,
    w_ptr,
    out_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), num_m * num_n, tl.num_programs(0), flatten=True):
        span = GROUP_M * num_n
        first = tile // span * GROUP_M
        height = tl.minimum(num_m - first, GROUP_M)
        pid_m = first + tile % span % height
        pid_n = tile % span // height

        acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            x = x_ptr.load([pid_m * BLOCK_M, start])
            w = w_ptr.load([pid_n * BLOCK_N, start]).T
            acc = tl.dot(x, w, acc)
        out_ptr.store([pid_m * BLOCK_M, pid_n * BLOCK_N], acc.to(out_ptr.dtype))


class ModelNew(nn.Module):
    def forward(self, x, weight):
        m, k = x.shape
        n = weight.shape[0]
        out = torch.empty((m, n), dtype=x.dtype, device=x.device)
        block_m = 128
        block_n = 256
        block_k = 64
        x_tiles = TensorDescriptor(x, [m, k], [k, 1], [block_m, block_k])
        w_tiles = TensorDescriptor(weight, [n, k], [k, 1], [block_n, block_k])
        out_tiles = TensorDescriptor(out, [m, n], [n, 1], [block_m, block_n])
        grid = lambda meta: (
            min(132, triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"])),
        )
        gemm_kernel[grid](
            x_tiles,
            w_tiles,
            out_tiles,
            m,
            n,
            k,
            BLOCK_M=block_m,
            BLOCK_N=block_n,
            BLOCK_K=block_k,
            GROUP_M=16,
            num_warps=8,
            num_stages=3,
        )
        return out
