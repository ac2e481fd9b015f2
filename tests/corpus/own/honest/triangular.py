# expect: accept; layer: correctness; ref: refs/tril_matmul.py; needs: cpu
# skips tiles above the diagonal: they are zero by definition
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tril_gemm(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    rm = pm * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.minimum(K, (pm + 1) * BM), BK):
        rk = k + tl.arange(0, BK)
        keep = (rm[:, None] < M) & (rk[None, :] < K) & (rk[None, :] <= rm[:, None])
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=keep, other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        out = torch.empty((M, N), device=a.device, dtype=a.dtype)
        tril_gemm[(triton.cdiv(M, 16), triton.cdiv(N, 16))](a, b, out, M, N, K, BM=16, BN=16, BK=16)
        return out
