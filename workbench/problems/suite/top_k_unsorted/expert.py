"""Top-k by radix selection on chip: a row per program, two bits of the threshold per look."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def top_k_kernel(x_ptr, values_ptr, places_ptr, N, K, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    inside = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=inside, other=0.0)

    # Unsigned keys in the order of the numbers; what is outside the row comes last.
    bits = x.to(tl.uint32, bitcast=True)
    keys = tl.where(bits >> 31 != 0, ~bits, bits | 0x80000000)
    keys = tl.where(inside, keys, 0)

    # The largest threshold that K keys reach: three guesses a look, their counts in one sum.
    threshold = tl.zeros([], dtype=tl.uint32)
    shift = tl.full([], 30, dtype=tl.int32)
    while shift >= 0:
        one = threshold | (tl.full([], 1, tl.uint32) << shift)
        two = threshold | (tl.full([], 2, tl.uint32) << shift)
        three = one | two
        reached = (keys >= one).to(tl.int64)
        reached += (keys >= two).to(tl.int64) << 20
        reached += (keys >= three).to(tl.int64) << 40
        counts = tl.sum(reached, axis=0)
        first = counts & 0xFFFFF
        second = (counts >> 20) & 0xFFFFF
        third = counts >> 40
        count = tl.where(third >= K, third, tl.where(second >= K, second, first))
        better = tl.where(third >= K, three, tl.where(second >= K, two, one))
        threshold = tl.where(count >= K, better, threshold)
        # Exactly K keys reach it: no finer threshold is needed.
        shift = tl.where(count == K, -1, shift - 2)

    above = keys > threshold
    level = inside & (keys == threshold)
    before = tl.cumsum(above.to(tl.int32) + (level.to(tl.int32) << 16), axis=0)
    all_above = tl.sum(above.to(tl.int32), axis=0)
    place = tl.where(above, (before & 0xFFFF) - 1, all_above + (before >> 16) - 1)
    chosen = (above | level) & (place < K)
    tl.store(values_ptr + row * K + place, x, mask=chosen)
    tl.store(places_ptr + row * K + place, cols.to(tl.int64), mask=chosen)


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        rows, n = x.shape
        values = torch.empty((rows, self.k), dtype=x.dtype, device=x.device)
        places = torch.empty((rows, self.k), dtype=torch.int64, device=x.device)
        block = triton.next_power_of_2(n)
        top_k_kernel[(rows,)](x, values, places, n, self.k, BLOCK_N=block, num_warps=8)
        return values, places
