# expect: accept; layer: correctness; ref: refs/gelu_long.py; needs: cpu
# twenty thousand tiles of two axes, those at both edges with fewer lanes
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gelu_tiles(x_ptr, out_ptr, ROWS, COLS, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    cols = tl.program_id(1) * TILE + tl.arange(0, TILE)
    places = rows[:, None] * COLS + cols[None, :]
    inside = (rows < ROWS)[:, None] & (cols < COLS)[None, :]
    x = tl.load(x_ptr + places, mask=inside, other=0.0)
    y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(out_ptr + places, y, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, cols = x.shape
        grid = (triton.cdiv(rows, 16), triton.cdiv(cols, 16))
        gelu_tiles[grid](x, out, rows, cols, TILE=16)
        return out
