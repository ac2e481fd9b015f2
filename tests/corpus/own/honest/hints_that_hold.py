# expect: accept; layer: correctness; ref: refs/matmul.py; needs: cpu
# the matmul of many tutorials, with wrapped rows and hints to the compiler
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    in_group = GROUP * num_n
    group = pid // in_group
    first = group * GROUP
    size = min(num_m - first, GROUP)
    pid_m = first + ((pid % in_group) % size)
    pid_n = (pid % in_group) // size
    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= 0)
    rm = (pid_m * BM + tl.arange(0, BM)) % M
    rn = (pid_n * BN + tl.arange(0, BN)) % N
    rm = tl.max_contiguous(tl.multiple_of(rm, BM), BM)
    rn = tl.max_contiguous(tl.multiple_of(rn, BN), BN)
    rk = tl.arange(0, BK)
    a = a_ptr + rm[:, None] * sam + rk[None, :] * sak
    b = b_ptr + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = tl.load(a, mask=rk[None, :] < K - k * BK, other=0.0)
        right = tl.load(b, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(left, right, acc, input_precision="ieee")
        a += BK * sak
        b += BK * sbk
    om = pid_m * BM + tl.arange(0, BM)
    on = pid_n * BN + tl.arange(0, BN)
    tl.store(c_ptr + om[:, None] * N + on[None, :], acc, mask=(om[:, None] < M) & (on[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        m, k = a.shape
        n = b.shape[1]
        c = torch.empty((m, n), device=a.device, dtype=a.dtype)
        grid = lambda META: (triton.cdiv(m, META["BM"]) * triton.cdiv(n, META["BN"]),)
        matmul[grid](a, b, c, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), BM=32, BN=32, BK=16, GROUP=4)
        return c
