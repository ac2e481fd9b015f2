# expect: accept; layer: correctness; ref: refs/two_linear.py; needs: cpu
# intermediate kept between calls, the output is new each time
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BN)
    rm = (pid // tiles_n) * BM + tl.arange(0, BM)
    rn = (pid % tiles_n) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        rk = k * BK + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * sam + rk[None, :] * sak, mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * sbk + rn[None, :] * sbn, mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


def gemm_into(out, a, b):
    (M, K), N = a.shape, b.shape[1]
    grid = (triton.cdiv(M, 32) * triton.cdiv(N, 32),)
    gemm[grid](a, b, out, M, N, K, *a.stride(), *b.stride(), BM=32, BN=32, BK=32)
    return out


class ModelNew(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(d, d) / d**0.5)
        self.w2 = nn.Parameter(torch.randn(d, d) / d**0.5)
        self._hidden = {}

    def forward(self, x):
        key = (x.shape, x.device)
        if key not in self._hidden:
            self._hidden[key] = torch.empty_like(x)
        hidden = gemm_into(self._hidden[key], x, self.w1)
        return gemm_into(torch.empty_like(x), hidden, self.w2)
