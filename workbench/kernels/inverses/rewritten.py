"""Mechanisms that are another form of a computation: taken out by the plain form."""

from workbench.kernels.edits.looks import (
    EARLY_EXIT,
    PACKED_COUNTS,
    PACKED_SCANS,
    TWO_BITS_A_LOOK,
)
from workbench.kernels.edits.nests import FUSED_LOOPS, SQUARE_TILES
from workbench.kernels.edits.rewrites import Rewrite
from workbench.kernels.edits.scans import PREFIX_SCAN
from workbench.kernels.edits.triangles import BLOCK_INVERSE, INVERSE_BY_DOUBLING
from workbench.kernels.inverses.base import Inverse, Removable, puts_back
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel


def _inverse(rewrite: Rewrite, category: str, locus: str, says: str) -> Inverse:
    forward = rewrite.forward()

    def find(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
        lines = rewrite.lines(kernel)
        without, parameters = rewrite.backward(source, kernel)
        if not puts_back(forward, without, kernel.name, parameters):
            return ()
        return (
            Removable(
                lines=lines,
                locus=locus,
                says=rewrite.says,
                source=without,
                parameters=parameters,
            ),
        )

    return Inverse(category=category, edit=rewrite.edit, says=says, find=find)


SETTLED_EARLY = _inverse(
    EARLY_EXIT, "early-exit", "search", "a search that looks at every bit of its threshold"
)
COUNTED_TOGETHER = _inverse(
    PACKED_COUNTS, "packed-counts", "counts", "a sum of its own for every condition"
)
FEWER_LOOKS = _inverse(
    TWO_BITS_A_LOOK, "two-bits-a-look", "search", "one bit of a threshold a look"
)
NUMBERED_TOGETHER = _inverse(
    PACKED_SCANS, "packed-scans", "ranks", "a prefix sum of its own for either set"
)
SCANNED = _inverse(
    PREFIX_SCAN, "prefix-scan", "prefixes", "prefixes that are added up element by element"
)
INVERTED_IN_BLOCKS = _inverse(
    BLOCK_INVERSE, "block-inverse", "system", "a triangular system solved row by row"
)
INVERTED_BY_DOUBLING = _inverse(
    INVERSE_BY_DOUBLING, "doubled-inverse", "system", "a triangular system solved row by row"
)
LOOPS_AS_ONE = _inverse(
    FUSED_LOOPS, "fused-loops", "loop", "two nested loops, whose inner pipeline drains every step"
)
SQUARES_OF_PIXELS = _inverse(SQUARE_TILES, "square-tiles", "pixels", "a run of pixels to a program")
