"""Unit triangular systems: inverted with matrix products instead of row by row.

In blocks: those on the diagonal are inverted row by row, all four at once; what lies below them is
a nilpotent matrix M of four blocks a side, so that (1 + M)^-1 = (1 - M)(1 + M M). By doubling: a
strictly lower matrix S of 64 rows has S^64 = 0, so that (1 + S)^-1 = (1 - S)(1 + S^2)...(1 + S^32).
"""

from workbench.kernels.edits.rewrites import Rewrite

_ROW_BY_ROW = """
inverse = (rows[:, None] == cols[None, :]).to(tl.float32)
for i in range(1, SIZE):
    here = rows[:, None] == i
    row = tl.sum(tl.where(here, system, 0.0), axis=0)
    taken = tl.sum(row[:, None] * inverse, axis=0)
    inverse = tl.where(here, inverse - taken[None, :], inverse)
solved = inverse
"""

BLOCK_INVERSE = Rewrite(
    edit="invert-in-blocks",
    says="invert a unit triangular matrix in four blocks a side, with matrix products between them",
    operands=("KIND", "tl.bfloat16"),
    plain=_ROW_BY_ROW,
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

# Powers are rounded to TF32: more digits than the bf16 operands that the system is made of. They
# grow where rows are alike, and their rounding with them: on delta_solve's case of zeros and ones
# the gate found -2801 for 0.0133, 1.1e5 times the bound (CPU, tiny shape); blocks pass there.
INVERSE_BY_DOUBLING = Rewrite(
    edit="invert-by-doubling",
    says="invert a unit triangular matrix of at most 64 rows by squaring it five times (wrong where"
    " rows are alike: their powers grow)",
    plain=_ROW_BY_ROW,
    fast="""
inverse = tl.where(rows[:, None] == cols[None, :], 1.0, -system)
power = system
for _ in tl.static_range(5):
    power = tl.dot(power, power, input_precision="tf32")
    inverse = tl.dot(inverse, power, inverse, input_precision="tf32")
solved = inverse
""",
)
