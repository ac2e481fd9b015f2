"""Keeps so few programs resident that all rows they walk stay in L2 until their last pass."""

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.blocks import BLOCK_SIZE
from workbench.kernels.edits.launch_options import set_options, with_warps
from workbench.kernels.edits.programs import PERSISTENT
from workbench.kernels.edits.row_on_chip import passes
from workbench.kernels.source import Source, read_source
from workbench.kernels.source_kernel import JitKernel


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = passes(kernel)
    PERSISTENT.find(source, kernel)
    lines = tuple(loop.line for loop in found.loops)
    return (Anchor(lines=lines, says=f"{len(lines)} passes over rows of {found.dimension}"),)


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    _find(source, kernel)
    block, warps = int(parameters["block"]), int(parameters["num_warps"])
    text = source.text
    if block:
        text = _changed(
            BLOCK_SIZE, text, kernel.name, {"block": passes(kernel).block, "value": block}
        )
    text = _changed(
        PERSISTENT, text, kernel.name, {"programs": parameters["programs"], "flatten": False}
    )
    if warps:
        view = read_source(text)
        again = view.kernel(kernel.name)
        if again is None:
            raise EditRefused(f"there is no kernel `{kernel.name}`")
        text = set_options(view, again, {"num_warps": warps})
    return text


def _changed(edit: Edit, text: str, name: str, parameters: dict[str, Parameter]) -> str:
    view = read_source(text)
    kernel = view.kernel(name)
    if kernel is None:
        raise EditRefused(f"there is no kernel `{name}`")
    return edit.change(view, kernel, parameters)


ROWS_IN_CACHE = Edit(
    id="rows-in-cache",
    says="walk only as many rows at once as L2 holds, with many warps and a large block each",
    parameters=(
        EditParameter(
            name="programs",
            says="programs in the grid",
            kind="int",
            default=64,
            grid=(64, 48, 96),
        ),
        EditParameter(
            name="block",
            says="elements of a step; 0 leaves the block as it is",
            kind="int",
            default=0,
            grid=(8192, 4096),
        ),
        with_warps(32, 16),
    ),
    find=_find,
    change=_change,
)
