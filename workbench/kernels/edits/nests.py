"""Loop nests and pixel tiles: two loops as one, and squares of pixels instead of runs of them."""

import ast

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.grids import grid_of
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.rewrites import Rewrite
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source_flow import same
from workbench.kernels.source_kernel import JitKernel

FUSED_LOOPS = Rewrite(
    edit="fuse-loops",
    says="walk two nested loops as one, whose loads are pipelined across the outer one's steps",
    plain="""
for outer in range(OUTER):
    AROUND
    for start in range(0, LENGTH, BLOCK):
        places = start + tl.arange(0, BLOCK)
        WORK
""",
    fast="""
depth = tl.cdiv(LENGTH, BLOCK)
for step in range(OUTER * depth):
    outer = step // depth
    AROUND
    places = step % depth * BLOCK + tl.arange(0, BLOCK)
    WORK
""",
)


def _tiles(splice: Splice, kernel: JitKernel, *, forward: bool) -> None:
    """The grid's axis of pixel tiles: `cdiv(H * W, T * T)`, or `cdiv(H, T) * cdiv(W, T)`."""
    source = splice.source
    cdiv = spelled(source, "triton.cdiv")
    for launch in source.launches_of(kernel.name):
        extent = grid_of(source, launch).extents[0]
        match extent:
            case ast.Call(
                args=[
                    ast.BinOp(left=height, op=ast.Mult(), right=width),
                    ast.BinOp(left=tile, op=ast.Mult(), right=again),
                ]
            ) if forward and same(tile, again):
                h, w, t = (splice.text(node) for node in (height, width, tile))
                splice.replace(extent, f"{cdiv}({h}, {t}) * {cdiv}({w}, {t})")
            case ast.BinOp(
                left=ast.Call(args=[height, tile]),
                op=ast.Mult(),
                right=ast.Call(args=[width, again]),
            ) if not forward and same(tile, again):
                h, w, t = (splice.text(node) for node in (height, width, tile))
                splice.replace(extent, f"{cdiv}({h} * {w}, {t} * {t})")
            case _:
                raise EditRefused(f"the grid of line {launch.line} does not count pixel tiles")


SQUARE_TILES = Rewrite(
    edit="square-tiles",
    says="give a program a square of pixels, whose neighbours are read together, not a run of them",
    plain="""
pixel = tl.program_id(0) * TILE * TILE + tl.arange(0, TILE * TILE)
row = pixel // WIDTH
column = pixel % WIDTH
""",
    fast="""
pixel = tl.arange(0, TILE * TILE)
across = tl.cdiv(WIDTH, TILE)
row = tl.program_id(0) // across * TILE + pixel // TILE
column = tl.program_id(0) % across * TILE + pixel % TILE
""",
    host=_tiles,
)
