"""Radix selection: fewer passes over the keys, and counts that share one sum.

The largest threshold that K keys reach is found bit by bit, as in the radix selection of Alabi et
al., Fast K-Selection Algorithms for Graphics Processing Units (JEA 17, 2012); that two bits are
looked at with three counts in one 64-bit sum is ours.
"""

from workbench.kernels.edits.rewrites import Rewrite

TWO_BITS_A_LOOK = Rewrite(
    edit="two-bits-a-look",
    says="find two bits of a threshold with three guesses a look, in half as many looks",
    plain="""
for bit in range(31, -1, -1):
    guess = best | (tl.full([], 1, tl.uint32) << bit)
    count = tl.sum((keys >= guess).to(tl.int32), axis=0)
    best = tl.where(count >= WANTED, guess, best)
""",
    fast="""
for bit in range(30, -1, -2):
    one = best | (tl.full([], 1, tl.uint32) << bit)
    two = best | (tl.full([], 2, tl.uint32) << bit)
    three = one | two
    first = tl.sum((keys >= one).to(tl.int32), axis=0)
    second = tl.sum((keys >= two).to(tl.int32), axis=0)
    third = tl.sum((keys >= three).to(tl.int32), axis=0)
    count = tl.where(third >= WANTED, third, tl.where(second >= WANTED, second, first))
    better = tl.where(third >= WANTED, three, tl.where(second >= WANTED, two, one))
    best = tl.where(count >= WANTED, better, best)
""",
)

# A block of Triton has at most 2**20 elements, so that a count that is not of all of them fits.
PACKED_COUNTS = Rewrite(
    edit="pack-counts",
    says="count three conditions over a block in one sum, 20 bits each",
    plain="""
first = tl.sum((ONE).to(tl.int32), axis=0)
second = tl.sum((TWO).to(tl.int32), axis=0)
third = tl.sum((THREE).to(tl.int32), axis=0)
""",
    fast="""
reached = (ONE).to(tl.int64)
reached += (TWO).to(tl.int64) << 20
reached += (THREE).to(tl.int64) << 40
counts = tl.sum(reached, axis=0)
first = counts & 0xFFFFF
second = (counts >> 20) & 0xFFFFF
third = counts >> 40
""",
)

# Once a threshold is reached by exactly as many keys as are wanted, a finer one picks the same.
EARLY_EXIT = Rewrite(
    edit="stop-when-settled",
    says="leave a search for a threshold as soon as exactly as many keys as wanted reach it",
    plain="""
for bit in range(FIRST, -1, -STEP):
    SEARCH
    best = tl.where(count >= WANTED, BETTER, best)
""",
    fast="""
bit = tl.full([], FIRST, dtype=tl.int32)
while bit >= 0:
    SEARCH
    best = tl.where(count >= WANTED, BETTER, best)
    bit = tl.where(count == WANTED, -1, bit - STEP)
""",
)

# 15 and 16 bits hold the counts of a block of at most 2**15 elements.
PACKED_SCANS = Rewrite(
    edit="pack-scans",
    says="number the members of two sets in one prefix sum, 16 bits each",
    plain="""
above_rank = tl.cumsum(above.to(tl.int32), axis=0)
level_rank = tl.cumsum(level.to(tl.int32), axis=0)
total = tl.sum(above.to(tl.int32), axis=0)
place = tl.where(above, above_rank - 1, total + level_rank - 1)
""",
    fast="""
before = tl.cumsum(above.to(tl.int32) + (level.to(tl.int32) << 16), axis=0)
total = tl.sum(above.to(tl.int32), axis=0)
place = tl.where(above, (before & 0xFFFF) - 1, total + (before >> 16) - 1)
""",
)
