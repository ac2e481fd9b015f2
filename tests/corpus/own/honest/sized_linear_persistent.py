# expect: accept; layer: correctness; ref: refs/linear_sized.py; needs: cpu
# grouped tiles in a persistent loop, the last group smaller
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lin(
    x_ptr,
    w_ptr,
    b_ptr,
    o_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    G: tl.constexpr,
    P: tl.constexpr,
):
    nm, nn_ = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), nm * nn_, P):
        per = G * nn_
        g = tile // per
        first = g * G
        size = min(nm - first, G)
        pm = first + (tile % per) % size
        pn = (tile % per) // size
        om, on = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k0 in range(0, K, BK):
            ok = k0 + tl.arange(0, BK)
            x = tl.load(x_ptr + om[:, None] * K + ok, mask=(om[:, None] < M) & (ok < K), other=0.0)
            w = tl.load(
                w_ptr + on[None, :] * K + ok[:, None],
                mask=(on[None, :] < N) & (ok[:, None] < K),
                other=0.0,
            )
            acc += tl.dot(x, w, input_precision="ieee")
        acc += tl.load(b_ptr + on, mask=on < N, other=0.0)
        tl.store(o_ptr + om[:, None] * N + on[None, :], acc, mask=(om[:, None] < M) & (on < N))


class ModelNew(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = nn.Linear(i, o)

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        M, K = x.shape
        N = w.shape[0]
        out = torch.empty((M, N), device=x.device)
        n = min(100, triton.cdiv(M, 32) * triton.cdiv(N, 32))
        lin[(n,)](x, w, b, out, M, N, K, 32, 32, 64, 5, n)
        return out
