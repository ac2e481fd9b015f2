# expect: accept; layer: correctness; ref: refs/tril_sized.py; needs: cpu
# host code makes zeros, programs of the upper tiles return before they store
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mm(a, b, y, N, K, B: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    if pn > pm:
        return
    m = pm * B + tl.arange(0, B)
    n = pn * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        u = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < N) & (k[None, :] < K), other=0.0)
        v = tl.load(b + k[:, None] * N + n[None, :], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc = tl.dot(u, v, acc, input_precision="ieee")
    tl.store(y + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < N) & (n[None, :] <= m[:, None]))


class ModelNew(nn.Module):
    def forward(self, a, b):
        N, K = a.shape
        y = torch.zeros((N, N), device=a.device)
        mm[(triton.cdiv(N, 32), triton.cdiv(N, 32))](a, b, y, N, K, 32, 32)
        return y
