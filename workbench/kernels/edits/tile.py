"""The tile of a matrix product as a whole: its block sizes with the warps and stages they need."""

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.blocks import settable, tunable
from workbench.kernels.edits.launch_options import DEFAULTS, put_options, with_warps
from workbench.kernels.edits.sites import Given, option_sites
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel

_LEAST = 16
"""The tensor cores' smallest extent in every dimension that Triton accepts."""


def _blocks(source: Source, kernel: JitKernel) -> dict[str, Given]:
    """The tile's block parameters in the order of the signature."""
    if not kernel.dots:
        raise EditRefused("the kernel has no matrix product")
    found = tunable(source, kernel)
    if len(found) < 2:
        raise EditRefused("fewer than two block sizes are written out")
    ordered = [p.name for p in kernel.parameters if p.name in found]
    return {name: found[name] for name in ordered}


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    blocks = _blocks(source, kernel)
    current: dict[str, Parameter] = {}
    if all(len(given.values) == 1 for given in blocks.values()):
        current["tile"] = "x".join(str(given.values[0]) for given in blocks.values())
    for option in ("num_warps", "num_stages"):
        given = option_sites(source, kernel, option)
        values = given.values or (DEFAULTS[option],)
        if len(values) == 1 and not given.computed:
            current[option] = values[0]
    lines = {s.node.lineno for given in blocks.values() for s in given.sites}
    return (
        Anchor(
            lines=tuple(sorted(lines)),
            says=f"{' x '.join(blocks)} = {current.get('tile', 'several')}",
            current=current,
        ),
    )


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    blocks = _blocks(source, kernel)
    sizes = _sizes(str(parameters["tile"]))
    if len(sizes) != len(blocks):
        raise EditRefused(f"the tile has {len(blocks)} extents: {' x '.join(blocks)}")
    splice = Splice(source)
    for name, size in zip(blocks, sizes, strict=True):
        for site in settable(source, kernel, name).sites:
            splice.replace(site.node, str(size))
    options = {o: int(parameters[o]) for o in ("num_warps", "num_stages") if parameters[o]}
    put_options(splice, kernel, options)
    return splice.result()


def _sizes(tile: str) -> list[int]:
    parts = tile.split("x")
    if not all(p.isascii() and p.isdigit() and len(p) < 5 for p in parts):
        raise EditRefused(f"`{tile}` is not sizes joined by x, such as 128x128x32")
    sizes = [int(p) for p in parts]
    if any(s < _LEAST or s & (s - 1) for s in sizes):
        raise EditRefused(f"`{tile}` has a size that is not a power of two from {_LEAST}")
    return sizes


TILE = Edit(
    id="tile",
    says="give a matrix product another tile, with the warps and stages that go with it",
    parameters=(
        EditParameter(
            name="tile",
            says="block sizes in the order of the signature, joined by x",
            kind="text",
            default="128x128x32",
            grid=("128x128x32", "128x64x32", "64x64x32"),
        ),
        with_warps(4, 8),
        EditParameter(
            name="num_stages",
            says="pipeline stages; 0 leaves them as they are",
            kind="int",
            default=0,
            grid=(3, 4, 2),
        ),
    ),
    find=_find,
    change=_change,
)
