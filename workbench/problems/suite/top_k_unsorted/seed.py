"""Top-k by counting: an element's place in the answer is how many elements of its row beat it."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def top_k_kernel(x_ptr, values_ptr, places_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    mine = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    x = tl.load(x_ptr + row * N + mine, mask=mine < N, other=0.0)

    rank = tl.zeros([BLOCK_M], dtype=tl.int32)
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        other = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf"))
        larger = other[None, :] > x[:, None]
        earlier = (other[None, :] == x[:, None]) & (cols[None, :] < mine[:, None])
        beats = (larger | earlier) & (cols[None, :] < N)
        rank += tl.sum(beats.to(tl.int32), axis=1)

    chosen = (mine < N) & (rank < K)
    tl.store(values_ptr + row * K + rank, x, mask=chosen)
    tl.store(places_ptr + row * K + rank, mine.to(tl.int64), mask=chosen)


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        rows, n = x.shape
        values = torch.empty((rows, self.k), dtype=x.dtype, device=x.device)
        places = torch.empty((rows, self.k), dtype=torch.int64, device=x.device)
        grid = lambda meta: (triton.cdiv(n, meta["BLOCK_M"]), rows)
        top_k_kernel[grid](x, values, places, n, self.k, BLOCK_M=64, BLOCK_N=64, num_warps=4)
        return values, places
