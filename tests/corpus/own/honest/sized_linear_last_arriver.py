# expect: accept; layer: correctness; ref: refs/linear_sized.py; needs: cpu
# split K with a ticket: the program that comes last adds the parts up
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def linear(x_ptr, w_ptr, b_ptr, part_ptr, ticket_ptr, out_ptr, M, N, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    pid_m, pid_n, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = pid_m * BLOCK + tl.arange(0, BLOCK)
    cols = pid_n * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for start in range(part * BLOCK, K, BLOCK * SPLIT):
        ks = start + tl.arange(0, BLOCK)
        x_mask = (rows[:, None] < M) & (ks[None, :] < K)
        w_mask = (cols[None, :] < N) & (ks[:, None] < K)
        x = tl.load(x_ptr + rows[:, None] * K + ks[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + cols[None, :] * K + ks[:, None], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    places = rows[:, None] * N + cols[None, :]
    tl.store(part_ptr + part * M * N + places, acc, mask=mask)
    came = tl.atomic_add(ticket_ptr + pid_m * tl.num_programs(1) + pid_n, 1)
    if came == SPLIT - 1:
        total = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
        for other in range(SPLIT):
            total += tl.load(part_ptr + other * M * N + places, mask=mask, other=0.0)
        total += tl.load(b_ptr + cols, mask=cols < N, other=0.0)[None, :]
        tl.store(out_ptr + places, total, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        (m, k), n = x.shape, w.shape[0]
        out = torch.empty((m, n), dtype=x.dtype, device=x.device)
        parts = torch.empty((2, m, n), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(m, 32), triton.cdiv(n, 32), 2)
        tickets = torch.zeros(grid[:2], dtype=torch.int32, device=x.device)
        linear[grid](x, w, b, parts, tickets, out, m, n, k, SPLIT=2, BLOCK=32)
        return out
