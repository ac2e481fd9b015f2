# expect: accept; layer: correctness; ref: refs/attention_randn.py; needs: cpu
# skips blocks of keys whose weights are nothing in fp32
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attend(
    q_ptr, k_ptr, v_ptr, o_ptr, S: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    base = tl.program_id(1) * S * D
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + rows[:, None] * D + d[None, :])
    m = tl.full([BM], -float("inf"), dtype=tl.float32)
    l = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    for start in range(0, S, BN):
        cols = start + tl.arange(0, BN)
        k = tl.load(k_ptr + base + cols[None, :] * D + d[:, None])
        s = tl.dot(q, k, input_precision="ieee") * (D**-0.5)
        if tl.max(tl.max(s, axis=1) - m, axis=0) > -40.0:
            new = tl.maximum(m, tl.max(s, axis=1))
            p = tl.exp(s - new[:, None])
            scale = tl.exp(m - new)
            l = l * scale + tl.sum(p, axis=1)
            v = tl.load(v_ptr + base + cols[:, None] * D + d[None, :])
            acc = acc * scale[:, None] + tl.dot(p, v, input_precision="ieee")
            m = new
    tl.store(o_ptr + base + rows[:, None] * D + d[None, :], acc / l[:, None])


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        out = torch.empty_like(q)
        b, s, d = q.shape
        attend[(s // 16, b)](q, k, v, out, s, d, BM=16, BN=16)
        return out
