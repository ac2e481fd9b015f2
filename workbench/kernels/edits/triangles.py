"""Unit triangular systems: inverted in blocks with matrix products instead of row by row.

The blocks on the diagonal are inverted row by row, all four at once; what lies below them is a
nilpotent matrix M of four blocks a side, so that (1 + M)^-1 = (1 - M)(1 + M M).
"""

from workbench.kernels.edits.rewrites import Rewrite

BLOCK_INVERSE = Rewrite(
    edit="invert-in-blocks",
    says="invert a unit triangular matrix in four blocks a side, with matrix products between them",
    operands=("KIND", "tl.bfloat16"),
    plain="""
inverse = (rows[:, None] == cols[None, :]).to(tl.float32)
for i in range(1, SIZE):
    here = rows[:, None] == i
    row = tl.sum(tl.where(here, system, 0.0), axis=0)
    taken = tl.sum(row[:, None] * inverse, axis=0)
    inverse = tl.where(here, inverse - taken[None, :], inverse)
solved = inverse
""",
    fast="""
quarter = tl.arange(0, 4)
small = tl.arange(0, SIZE // 4)
same = quarter[:, None, None, None] == quarter[None, None, :, None]
parts = system.reshape([4, SIZE // 4, 4, SIZE // 4])
diagonal = tl.sum(tl.where(same, parts, 0.0), axis=2)
unit = (small[:, None] == small[None, :]).to(tl.float32)
inverse = tl.zeros([4, SIZE // 4, SIZE // 4], dtype=tl.float32) + unit[None, :, :]
for i in range(1, SIZE // 4):
    here = small[None, :, None] == i
    row = tl.sum(tl.where(here, diagonal, 0.0), axis=1)
    taken = tl.sum(row[:, :, None] * inverse, axis=1)
    inverse = tl.where(here, inverse - taken[:, None, :], inverse)
blocks = tl.where(same, inverse[:, :, None, :], 0.0).reshape([SIZE, SIZE]).to(KIND)
inner = rows[:, None] // (SIZE // 4) == cols[None, :] // (SIZE // 4)
below = tl.where(inner, 0.0, system).to(KIND)
m = tl.dot(blocks, below)
narrow = m.to(KIND)
square = tl.dot(narrow, narrow)
series = square - m - tl.dot(narrow, square.to(KIND))
solved = tl.dot(series.to(KIND), blocks, blocks.to(tl.float32))
""",
)
