"""How many programs each lifted kernel is launched on, as an expression of its tile sizes."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from workbench.kernels.inductor.kernel_text import PlainKernel
from workbench.kernels.inductor.records import LiftRefused

_AXES = {"Grid1D": "x", "Grid2D": "xy", "Grid2DWithYZOverflow": "xy", "Grid3D": "xyz"}

_LARGEST = 65_535
"""CUDA's limit on a grid's second and third dimension."""

Factor = tuple[int, str]
"""A size and the block that divides it; an empty block is a plain count."""

Axis = tuple[Factor, ...]


def grid_text(kernel: PlainKernel, form: str, arguments: Mapping[str, str]) -> str:
    """The grid of a pointwise or reduction kernel as a `lambda meta: (...)`.

    `form` is Inductor's name of it; `arguments` gives the launch's values by parameter. Raises
    LiftRefused for a form that is not known, and for a grid that CUDA cannot launch.
    """
    if form not in _AXES:
        raise LiftRefused(f"Inductor launches {kernel.name} on a grid of the form {form}")
    axes: list[Axis] = []
    for name in _AXES[form]:
        size = kernel.sizes.get(f"{name}numel") or int(arguments[f"{name}numel"])
        block = f"{name.upper()}BLOCK"
        axes.append(((size, block if block in kernel.options else ""),))
    if any(_count(axis, kernel) > _LARGEST for axis in axes[1:]):
        raise LiftRefused(f"the grid of {kernel.name} is too large in its second dimension")
    return _lambda(axes)


def template_grid_text(kernel: PlainKernel, grid: Sequence[int]) -> str:
    """The grid of a GEMM or convolution template, checked against the numbers Inductor wrote.

    Raises LiftRefused where no known formula gives them.
    """
    for axes, enough in _formulas(kernel.sizes, grid):
        if [_count(axis, kernel) for axis in axes] == list(grid):
            return _lambda(enough)
    raise LiftRefused(f"the grid {tuple(grid)} of {kernel.name} follows no known formula")


def _formulas(
    sizes: Mapping[str, int], grid: Sequence[int]
) -> Iterator[tuple[list[Axis], list[Axis]]]:
    """Grids as torch/_inductor/kernel lays them, each with the grid that does all their work.

    They are `mm_grid`, `bmm_grid`; `conv2d_grid`, `conv3d_grid`, which launch columns for all
    channels in every group, where only a group's own channels are stored.
    """
    rest: list[Axis] = [((n, ""),) for n in grid]
    if {"M", "N"} <= sizes.keys():
        product: list[Axis] = [((sizes["M"], "BLOCK_M"), (sizes["N"], "BLOCK_N")), *rest[1:]]
        yield product, product
    if {"BATCH", "OUT_C", "OUT_H", "OUT_W"} <= sizes.keys():
        pixels = prod(sizes.get(name, 1) for name in ("BATCH", "OUT_D", "OUT_H", "OUT_W"))
        rows: Axis = ((pixels, "BLOCK_M"),)
        channels = sizes["OUT_C"]
        yield (
            [rows, ((channels, "BLOCK_N"),), rest[2]],
            [rows, ((channels // grid[2], "BLOCK_N"),), rest[2]],
        )


def _count(axis: Axis, kernel: PlainKernel) -> int:
    return prod(-(-size // kernel.options.get(block, 1)) for size, block in axis)


def _lambda(axes: Sequence[Axis]) -> str:
    texts = [
        " * ".join(f'triton.cdiv({size}, meta["{b}"])' if b else str(size) for size, b in axis)
        for axis in axes
    ]
    while len(texts) > 1 and texts[-1] == "1":
        texts.pop()
    return f"lambda meta: ({', '.join(texts)}{',' if len(texts) == 1 else ''})"
