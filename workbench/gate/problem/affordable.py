"""A size at which Triton's interpreter can run a problem whose file knows only a large one.

Without a GPU a candidate is proven in the interpreter, some thousand times slower than the device.
A seed that Inductor wrote is right for one size alone, so that size has to be affordable; a kernel
that takes any size is proven at a small one and modeled at the file's own (`shrink`).
"""

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate.problem.asking import Inspector
from workbench.gate.problem.records import Described
from workbench.gate.problem.shrink import literals, smaller
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Problem, Shape

MATRIX_FLOPS = 2e7
"""Of one call, of which 14 are made; the interpreter multiplies at 0.3 to 2 GFLOP/s."""
MOVED_BYTES = 2e6
"""Of one call, over all operators: a part of a second of the interpreter's loads and stores."""
_LIMITS = (1024, 512, 256, 128, 64, 32, 16)
"""Largest size of a dimension, tried in turn: the speed is modeled there, so larger is better."""


class Scaled(Struct, frozen=True, kw_only=True):
    """A smaller size of the problem."""

    shape: Shape
    was: dict[str, int]
    """What the file says for the constants that are smaller now."""

    def says(self) -> str:
        """`batch_size 64 (of 4096), features 512 (of 65536)`."""
        values = self.shape.values
        return ", ".join(f"{name} {values[name]} (of {old})" for name, old in self.was.items())

    def sidecar(self) -> str:
        """As a sidecar's TOML."""
        values = ", ".join(f"{name} = {value}" for name, value in self.shape.values.items())
        return (
            "# Made by the workbench: the file's own size is too large for Triton's interpreter.\n"
            "# On a machine with a GPU, leave this file out to run at the file's own size.\n"
            f'[[shape]]\nname = "{self.shape.name}"\nvalues = {{ {values} }}\n'
        )


def scaled_down(problem: Problem, workshop: Workshop) -> Scaled | None:
    """The size to judge at without a GPU; None when the file's own is affordable.

    The largest sizes for the file's module-level integers at which the reference runs, seen on meta
    tensors, and one call is affordable. Raises WorkbenchError when there are none, or when the
    reference cannot be run at all.
    """
    with Inspector(problem, workshop, 60.0) as inspector:
        seen = inspector.describe(problem.full, meta=True)
        if seen.unseen or _affordable(seen):
            return None
        was = literals(problem.source)
        for values in smaller(problem.source, _LIMITS):
            shape = Shape(name="scaled", values=values)
            if _affordable_at(inspector, shape):
                return Scaled(shape=shape, was={name: was[name] for name in values})
    raise WorkbenchError(
        "the problem is too large for Triton's interpreter, and no smaller size was found in it",
        where=str(problem.path),
        todo="run it on a machine with a GPU, or put a smaller [[shape]] into a sidecar beside it",
    )


def _affordable(seen: Described) -> bool:
    flops = sum(one.matrix_flops for one in seen.operators)
    moved = sum(one.bytes for one in seen.operators)
    return flops <= MATRIX_FLOPS and moved <= MOVED_BYTES


def _affordable_at(inspector: Inspector, shape: Shape) -> bool:
    """Whether the reference runs there, for little."""
    try:
        seen = inspector.describe(shape, meta=True)
    except WorkbenchError:
        return False
    return not seen.unseen and _affordable(seen)
