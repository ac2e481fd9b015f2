"""Every inverse, in the order in which mechanisms are taken out: dependents before prerequisites.

The order is ours, after KLineage's rule: what rests on another goes first. Hints to
caches and loops rest on everything and go before the structure they refine; a wave of programs
goes before the tile order it runs through; the tile's size goes last, since all else was chosen
for it.
"""

from workbench.kernels.inverses.base import Inverse, Removable
from workbench.kernels.inverses.descriptors import TENSOR_DESCRIPTORS
from workbench.kernels.inverses.keywords import (
    CACHE_LEVEL,
    EVICTION_PRIORITY,
    FLATTENED,
    LOOP_PIPELINE,
    SPECIALIZED,
    STATICALLY_UNROLLED,
    UNROLLED,
)
from workbench.kernels.inverses.loads import HOISTED_LOADS, OFFSET_HINT
from workbench.kernels.inverses.masks import UNMASKED
from workbench.kernels.inverses.numbers import EVENLY_VALUED, POWERS_OF_TWO
from workbench.kernels.inverses.online import ONE_PASS
from workbench.kernels.inverses.orders import GROUPED_TILES, PERSISTENT_PROGRAMS
from workbench.kernels.inverses.resets import PIPELINE, PRECISION, TILE_SIZE, WARPS
from workbench.kernels.inverses.rewritten import (
    COUNTED_TOGETHER,
    FEWER_LOOKS,
    INVERTED_BY_DOUBLING,
    INVERTED_IN_BLOCKS,
    LOOPS_AS_ONE,
    NUMBERED_TOGETHER,
    SCANNED,
    SETTLED_EARLY,
    SQUARES_OF_PIXELS,
)
from workbench.kernels.inverses.shares import AUTOTUNED, ROWS_TOGETHER, SPLIT_SUM

__all__ = ["INVERSES", "Inverse", "Removable"]

INVERSES: tuple[Inverse, ...] = (
    EVICTION_PRIORITY,
    CACHE_LEVEL,
    OFFSET_HINT,
    SPECIALIZED,
    UNROLLED,
    FLATTENED,
    LOOP_PIPELINE,
    AUTOTUNED,
    STATICALLY_UNROLLED,
    PERSISTENT_PROGRAMS,
    ROWS_TOGETHER,
    GROUPED_TILES,
    SPLIT_SUM,
    TENSOR_DESCRIPTORS,
    UNMASKED,
    EVENLY_VALUED,
    HOISTED_LOADS,
    POWERS_OF_TWO,
    SETTLED_EARLY,
    COUNTED_TOGETHER,
    FEWER_LOOKS,
    NUMBERED_TOGETHER,
    SCANNED,
    INVERTED_IN_BLOCKS,
    INVERTED_BY_DOUBLING,
    ONE_PASS,
    PIPELINE,
    LOOPS_AS_ONE,
    SQUARES_OF_PIXELS,
    WARPS,
    TILE_SIZE,
    PRECISION,
)
