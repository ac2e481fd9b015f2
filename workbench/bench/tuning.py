"""The configurations of the shipped experts that are timed to choose the one to ship.

Tuned here instead of by an autotuner, so that the shipped file has one configuration, which the
walk can take apart.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from workbench.bench.model import Variant
from workbench.errors import WorkbenchError
from workbench.kernels.edits.base import EditRefused, Parameter
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.edits.sites import option_sites, parameter_sites
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import read_source
from workbench.lineage.removals import removable
from workbench.problems.load import load_problem

_OPTIONS = ("num_warps", "num_stages")
_STRUCTURE = (
    *("loop-flatten", "persistent-programs", "grouped-tiles", "tensor-descriptors"),
    *("base-two", "even-values", "fused-loops", "square-tiles"),
    *("block-inverse", "early-exit", "packed-counts", "two-bits-a-look", "packed-scans"),
)
"""Mechanisms whose removal is also tried, because their value depends on the compiler's version."""
_INSTEAD = {"block-inverse": "invert-by-doubling"}
"""Edits that are also tried in place of a mechanism."""


class Grid(Struct, frozen=True, kw_only=True):
    """Configurations of one kernel; each is combined with each one of the other kernels' grids."""

    kernel: str
    points: tuple[dict[str, Parameter], ...]


def _grid(kernel: str, names: str, *points: tuple[Parameter, ...]) -> Grid:
    keys = names.split()
    return Grid(kernel=kernel, points=tuple(dict(zip(keys, p, strict=True)) for p in points))


GRIDS: dict[str, tuple[Grid, ...]] = {
    "gemm": (
        _grid(
            "gemm_kernel",
            "BLOCK_M BLOCK_N BLOCK_K GROUP_M num_warps num_stages",
            (128, 256, 64, 8, 8, 3),
            (128, 256, 64, 4, 8, 3),
            (128, 256, 64, 16, 8, 3),
            (256, 128, 64, 8, 8, 3),
            (256, 128, 64, 4, 8, 3),
            (128, 256, 32, 8, 8, 4),
            (128, 256, 128, 8, 8, 2),
            (128, 128, 64, 8, 4, 4),
            (128, 128, 64, 8, 8, 4),
            (128, 128, 128, 8, 8, 3),
        ),
    ),
    "conv2d": (
        _grid(
            "conv_kernel",
            "BLOCK_N BLOCK_K num_warps num_stages",
            *itertools.product((128,), (64,), (4, 8), (2, 3, 4, 5)),
            *itertools.product((64,), (64,), (4,), (3, 4)),
            *itertools.product((128,), (32,), (4,), (3, 5)),
        ),
    ),
    "fmha": (
        _grid(
            "attention_kernel",
            "BLOCK_M BLOCK_N num_warps num_stages",
            (128, 128, 8, 2),
            (128, 128, 8, 3),
            (128, 64, 8, 2),
            (128, 64, 8, 3),
            (128, 64, 8, 4),
            (128, 32, 8, 4),
            (64, 128, 4, 2),
            (64, 64, 4, 2),
            (64, 64, 4, 3),
            (128, 64, 4, 2),
            (128, 64, 4, 3),
            (128, 128, 4, 2),
            (128, 128, 4, 3),
            (256, 64, 8, 3),
            (256, 128, 16, 2),
        ),
    ),
    "gdn": (
        # Two warps keep off wgmma, which Triton 3.6 gets wrong here (see the expert).
        _grid("systems_kernel", "num_warps num_stages", (2, 1)),
        _grid(
            "states_kernel",
            "BLOCK_N num_warps num_stages",
            *itertools.product((16, 32), (4,), (1, 2, 3)),
            *itertools.product((16, 32), (2,), (2, 3)),
            (32, 8, 2),
            (16, 1, 2),
        ),
    ),
    "top_k_unsorted": (_grid("top_k_kernel", "num_warps", (4,), (8,), (16,), (32,)),),
}


def tuned_variants(names: Sequence[str]) -> list[Variant]:
    """The experts in every configuration of their grids, and without one mechanism each.

    Raises WorkbenchError for a problem without an expert, and for a grid that its expert does not
    have.
    """
    found = []
    for name in names:
        expert = load_problem(name).expert
        if expert is None or name not in GRIDS:
            raise WorkbenchError(
                f"there is nothing to tune for {name}", todo=f"there is for: {', '.join(GRIDS)}"
            )
        source = expert.read_text(encoding="utf-8")
        made = {"as shipped": source, **dict(_configured(source, GRIDS[name]))}
        made |= dict(_without(source))
        found += [Variant(name=key, problem=name, source=text) for key, text in made.items()]
    return found


def _configured(source: str, grids: Sequence[Grid]) -> Iterator[tuple[str, str]]:
    for points in itertools.product(*(grid.points for grid in grids)):
        text, words = source, []
        for grid, point in zip(grids, points, strict=True):
            text = configured(text, grid.kernel, point)
            words += [f"{name}={value}" for name, value in point.items()]
        yield " ".join(words), text


def _without(source: str) -> Iterator[tuple[str, str]]:
    for inverse, kernel, found in removable(source):
        if inverse.category in _STRUCTURE:
            yield f"without {inverse.category}", found.source
        if (other := _INSTEAD.get(inverse.category)) is not None:
            yield other, EDITS[other].apply(found.source, kernel, {}).source


def configured(source: str, kernel: str, values: Mapping[str, Parameter]) -> str:
    """The source with these values of a kernel's parameters and launch options written out.

    Raises WorkbenchError where a value is not written out in the source.
    """
    for name, value in values.items():
        view = read_source(source)
        found = view.kernel(kernel)
        if found is None:
            raise _unset(name, kernel, "there is no such kernel")
        sites_of = option_sites if name in _OPTIONS else parameter_sites
        try:
            given = sites_of(view, found, name)
        except EditRefused as refused:
            raise _unset(name, kernel, refused.why) from refused
        if given.computed or given.absent or not given.sites:
            raise _unset(name, kernel, "it is not written out")
        splice = Splice(view)
        for site in given.sites:
            splice.replace(site.node, repr(value))
        source = splice.result()
    return source


def _unset(name: str, kernel: str, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"`{name}` of {kernel} cannot be set: {why}",
        todo="change the problem's grid in `workbench/bench/tuning.py`, or its expert",
    )
