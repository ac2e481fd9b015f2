# expect: accept; layer: correctness; ref: refs/matmul.py; needs: cpu
# atomic sums into memory that another kernel clears
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def clear(c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c_ptr + offs, tl.zeros((BLOCK,), tl.float32), mask=offs < n)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(tl.program_id(2) * BK, K, SPLIT * BK, num_stages=2):
        ks = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.atomic_add(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask, sem="relaxed")


class ModelNew(nn.Module):
    def forward(self, a, b):
        m, k = a.shape
        n = b.shape[1]
        c = torch.empty((m, n), device=a.device, dtype=torch.float32)
        clear[(triton.cdiv(m * n, 1024),)](c, m * n, BLOCK=1024)
        matmul[(triton.cdiv(m, 16), triton.cdiv(n, 16), 3)](a, b, c, m, n, k, SPLIT=3, BM=16, BN=16, BK=16)
        return c
