"""A size at which Triton's interpreter can run a problem whose file defines only a large one.

Without a GPU a candidate is compared in the interpreter, some thousand times slower than the
device. A seed that Inductor wrote is right for one size only, so that size has to be affordable; a
kernel for any size is compared at the small one and modeled at the file's own.
"""

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from workbench.errors import WorkbenchError
from workbench.gate.problem.asking import Inspector
from workbench.gate.problem.records import Described
from workbench.isolation.workshop import Workshop
from workbench.problems.constants import whole_numbers
from workbench.problems.made import made_sidecar
from workbench.problems.records import Constant, Problem, Shape

MATRIX_FLOPS = 2e7
"""Limit for one call, of which 14 are made; the interpreter multiplies at 0.3 to 2 GFLOP/s."""
MOVED_BYTES = 2e6
"""Limit for one call, over all operators: a part of a second of interpreted loads and stores."""
_LIMITS = (1024, 512, 256, 128, 64, 32, 16)
"""Largest size of a dimension, tried in turn: the speed is modeled there, so larger is better."""

SMALL_BATCH = 2
"""A batch only repeats work, so it is reduced before the sizes of a layer are."""


class TooLarge(WorkbenchError):
    """No size of the problem is small enough for the interpreter."""


class Scaled(Struct, frozen=True, kw_only=True):
    """A smaller size of the problem."""

    shape: Shape
    was: dict[str, int]
    """The file's values of the constants that are smaller now."""

    def says(self) -> str:
        """`batch_size 64 (of 4096), features 512 (of 65536)`."""
        values = self.shape.values
        return ", ".join(f"{name} {values[name]} (of {old})" for name, old in self.was.items())

    def sidecar(self) -> str:
        """The smaller size as a sidecar's TOML."""
        return made_sidecar(self.shape.name, self.shape.values)


def scaled_down(problem: Problem, workshop: Workshop) -> Scaled | None:
    """The size to judge at without a GPU; None when the file's own is affordable.

    The largest sizes for the file's module-level integers at which the reference runs, seen on meta
    tensors, and one call is affordable. Raises TooLarge when there are none, WorkbenchError
    when the reference cannot be run at all.
    """
    with Inspector(problem, workshop, 60.0) as inspector:
        seen = inspector.describe(problem.full, meta=True)
        if seen.unseen or _affordable(seen):
            return None
        was = whole_numbers(ast.parse(problem.source))
        for values in smaller(problem.source, _LIMITS):
            shape = Shape(name="scaled", values=values)
            if _affordable_at(inspector, shape):
                return Scaled(shape=shape, was={name: was[name] for name in values})
    raise TooLarge(
        "the problem is too large for Triton's interpreter, and no smaller size was found in it",
        where=str(problem.path),
        todo="run it on a machine with a GPU, or make its sizes module-level constants, like "
        "`BATCH = 16`, which the workbench can make smaller",
    )


def with_small_shape(problem: Problem, workshop: Workshop) -> Problem:
    """The problem with a shape `tiny` before its own, when its only one is too large.

    As large as the interpreter can afford: a loop that runs once there proves little. Unchanged
    when there are several shapes, or none that is smaller. Raises WorkbenchError when the reference
    cannot be run at all.
    """
    if len(problem.shapes) > 1:
        return problem
    try:
        scaled = scaled_down(problem, workshop)
    except TooLarge:
        return problem
    if scaled is None:
        return problem
    tiny = structs.replace(scaled.shape, name="tiny")
    return structs.replace(problem, shapes=(tiny, *problem.shapes))


def sizes(shape: Shape) -> str:
    """`batch_size 64, features 512`."""
    return ", ".join(f"{name} {value}" for name, value in shape.values.items())


def _affordable(seen: Described) -> bool:
    flops = sum(one.matrix_flops for one in seen.operators)
    moved = sum(one.bytes for one in seen.operators)
    return flops <= MATRIX_FLOPS and moved <= MOVED_BYTES


def _affordable_at(inspector: Inspector, shape: Shape) -> bool:
    """Whether the reference runs at that size within the limits."""
    try:
        seen = inspector.describe(shape, meta=True)
    except WorkbenchError:
        return False
    return not seen.unseen and _affordable(seen)


def smaller(source: str, upper: Sequence[int]) -> Iterator[dict[str, Constant]]:
    """Values for the file's literal integers by each limit, also with small batches alone."""
    sizes = whole_numbers(ast.parse(source))
    tried: list[dict[str, Constant]] = []
    for limit in upper:
        for batch in (limit, SMALL_BATCH):
            limits = {name: batch if "batch" in name.lower() else limit for name in sizes}
            values: dict[str, Constant] = {
                name: _halved(size, limits[name])
                for name, size in sizes.items()
                if size > limits[name]
            }
            if values and values not in tried:
                tried.append(values)
                yield values


def _halved(size: int, limit: int) -> int:
    while size > limit and size % 2 == 0:
        size //= 2
    return size if size <= limit else limit - 1
