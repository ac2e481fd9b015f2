"""Every edit there is, by id."""

from workbench.kernels.edits.base import Applied, Edit, EditRefused, Undo, undo
from workbench.kernels.edits.base_two import BASE_TWO
from workbench.kernels.edits.blocks import BLOCK_SIZE
from workbench.kernels.edits.count_to_sort import COUNT_TO_SORT
from workbench.kernels.edits.descriptors import DESCRIPTORS
from workbench.kernels.edits.dimensions import CONSTANT_DIMENSIONS, CONTIGUOUS_OFFSETS
from workbench.kernels.edits.division import DIVIDE_ONCE
from workbench.kernels.edits.even_values import EVEN_VALUES
from workbench.kernels.edits.fuse_epilogue import FUSE_EPILOGUE
from workbench.kernels.edits.fuse_launches import FUSE_LAUNCHES
from workbench.kernels.edits.hints import OFFSET_HINTS
from workbench.kernels.edits.hoist import HOIST_LOADS
from workbench.kernels.edits.in_registers import IN_REGISTERS
from workbench.kernels.edits.late_sum import LATE_SUM
from workbench.kernels.edits.launch_options import NUM_CTAS, NUM_STAGES, NUM_WARPS
from workbench.kernels.edits.looks import (
    EARLY_EXIT,
    PACKED_COUNTS,
    PACKED_SCANS,
    TWO_BITS_A_LOOK,
)
from workbench.kernels.edits.loop_to_tile import LOOP_TO_TILE
from workbench.kernels.edits.loops import (
    LOOP_FLATTEN,
    LOOP_STAGES,
    LOOP_UNROLL,
    STATIC_LOOPS,
    WARP_SPECIALIZE,
)
from workbench.kernels.edits.masks import DROP_MASKS
from workbench.kernels.edits.nests import FUSED_LOOPS, SQUARE_TILES
from workbench.kernels.edits.online_softmax import ONLINE_SOFTMAX
from workbench.kernels.edits.order import GROUP_ORDER
from workbench.kernels.edits.part_on_chip import PART_ON_CHIP
from workbench.kernels.edits.pointers import POINTERS
from workbench.kernels.edits.policies import CACHE_MODIFIER, EVICTION
from workbench.kernels.edits.precision import DOT_PRECISION
from workbench.kernels.edits.products import SUM_TO_PRODUCTS
from workbench.kernels.edits.programs import PERSISTENT, ROWS_PER_PROGRAM
from workbench.kernels.edits.row_on_chip import ROW_ON_CHIP
from workbench.kernels.edits.rows_in_cache import ROWS_IN_CACHE
from workbench.kernels.edits.scans import PREFIX_SCAN
from workbench.kernels.edits.split import SPLIT_REDUCTION
from workbench.kernels.edits.split_factors import SPLIT_FACTORS
from workbench.kernels.edits.split_kernel import SPLIT_KERNEL
from workbench.kernels.edits.tile import TILE
from workbench.kernels.edits.tile_programs import TILE_PROGRAMS
from workbench.kernels.edits.triangles import BLOCK_INVERSE, INVERSE_BY_DOUBLING
from workbench.kernels.edits.tuning import AUTOTUNE, PICK_CONFIG

__all__ = ["EDITS", "Applied", "Edit", "EditRefused", "Undo", "undo"]

EDITS: dict[str, Edit] = {
    edit.id: edit
    for edit in (
        BLOCK_SIZE,
        NUM_WARPS,
        NUM_STAGES,
        ROW_ON_CHIP,
        PART_ON_CHIP,
        LOOP_TO_TILE,
        ONLINE_SOFTMAX,
        COUNT_TO_SORT,
        FUSE_EPILOGUE,
        FUSE_LAUNCHES,
        IN_REGISTERS,
        SUM_TO_PRODUCTS,
        GROUP_ORDER,
        HOIST_LOADS,
        SPLIT_REDUCTION,
        TILE,
        PERSISTENT,
        ROWS_PER_PROGRAM,
        TILE_PROGRAMS,
        DESCRIPTORS,
        POINTERS,
        DOT_PRECISION,
        SPLIT_FACTORS,
        EVICTION,
        CACHE_MODIFIER,
        DROP_MASKS,
        CONTIGUOUS_OFFSETS,
        CONSTANT_DIMENSIONS,
        DIVIDE_ONCE,
        LOOP_STAGES,
        LOOP_UNROLL,
        STATIC_LOOPS,
        LOOP_FLATTEN,
        WARP_SPECIALIZE,
        NUM_CTAS,
        OFFSET_HINTS,
        LATE_SUM,
        SPLIT_KERNEL,
        ROWS_IN_CACHE,
        AUTOTUNE,
        PICK_CONFIG,
        BASE_TWO,
        EVEN_VALUES,
        TWO_BITS_A_LOOK.forward(),
        PACKED_COUNTS.forward(),
        PACKED_SCANS.forward(),
        PREFIX_SCAN.forward(),
        EARLY_EXIT.forward(),
        BLOCK_INVERSE.forward(),
        INVERSE_BY_DOUBLING.forward(),
        FUSED_LOOPS.forward(),
        SQUARE_TILES.forward(),
    )
}
