"""Warps and stages: options that a launch or an autotuner's configuration states."""

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.sites import option_sites
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel

DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
"""What Triton's CUDA backend takes when a launch says nothing (CUDAOptions, 3.6 to 3.9)."""


def with_warps(*grid: int) -> EditParameter:
    """A parameter `num_warps` of an edit that does something else; see `put_options`."""
    return EditParameter(
        name="num_warps",
        says="warps per program; 0 leaves them as they are",
        kind="int",
        default=0,
        grid=grid,
    )


def _edit(option: str, identity: str, says: str, grid: tuple[int, ...]) -> Edit:
    def find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
        given = option_sites(source, kernel, option)
        if given.computed:
            raise EditRefused(f"`{option}` is computed, not written out")
        if option == "num_ctas":
            _check_cluster(kernel)
        values = given.values + ((DEFAULTS[option],) if given.absent else ())
        lines = {s.node.lineno for s in given.sites} | {s.line for s in given.absent}
        return (
            Anchor(
                lines=tuple(sorted(lines)),
                says=f"{option} = {', '.join(map(str, dict.fromkeys(values)))}",
                current={"value": values[0]} if len(set(values)) == 1 else {},
            ),
        )

    def change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
        find(source, kernel)
        return set_options(source, kernel, {option: int(parameters["value"])})

    return Edit(
        id=identity,
        says=says,
        parameters=(
            EditParameter(
                name="value", says=option, kind="int", default=DEFAULTS[option], grid=grid
            ),
        ),
        find=find,
        change=change,
    )


def _check_cluster(kernel: JitKernel) -> None:
    """Refuse a reduction: in a cluster for sm_90 the compiler of Triton 3.6 fails on one."""
    for call in (*kernel.reductions, *kernel.scans):
        raise EditRefused(f"line {call.lineno} reduces, which a cluster cannot in Triton 3.6")


def set_options(source: Source, kernel: JitKernel, values: dict[str, int]) -> str:
    """The text with launch options of a kernel set where they are written, or at each launch."""
    splice = Splice(source)
    put_options(splice, kernel, values)
    return splice.result()


def put_options(splice: Splice, kernel: JitKernel, values: dict[str, int]) -> None:
    """As `set_options`, as part of a larger edit."""
    for option, value in values.items():
        if option == "num_warps" and (value < 1 or value > 32 or value & (value - 1)):
            raise EditRefused(f"{value} is not a power of two from 1 to 32")
        if option == "num_ctas" and value not in {1, 2, 4, 8}:
            raise EditRefused(f"{value} is not 1, 2, 4 or 8")
        if option == "num_stages" and not 1 <= value <= 16:
            raise EditRefused(f"{value} is not from 1 to 16")
        given = option_sites(splice.source, kernel, option)
        for site in given.sites:
            splice.replace(site.node, str(value))
        for launch in given.absent:
            splice.set_keyword(launch.call, option, str(value))


NUM_WARPS = _edit(
    "num_warps", "num-warps", "give a program another number of warps", (1, 2, 4, 8, 16, 32)
)
NUM_STAGES = _edit(
    "num_stages", "num-stages", "let the compiler pipeline over more stages", (1, 2, 3, 4, 5, 6)
)
NUM_CTAS = _edit("num_ctas", "num-ctas", "spread a block over a cluster of SMs", (2, 4))
