"""A size at which Triton's interpreter can run a problem whose file knows only a large one.

Without a GPU a candidate is proven in the interpreter, some thousand times slower than the device.
Most KernelBench files have one size, made for a GPU; their module-level constants say which.
"""

import ast
from collections.abc import Iterator

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate.inspecting import Inspector
from workbench.gate.problem_records import Described
from workbench.isolation.workshop import Workshop
from workbench.problems.constants import constants
from workbench.problems.records import Problem, Shape

MATRIX_FLOPS = 2e7
"""Of one call, of which 14 are made; the interpreter multiplies at 0.3 to 2 GFLOP/s."""
MOVED_BYTES = 2e6
"""Of one call, over all operators: about a second of the interpreter's loads and stores."""
_LEAST = 16
"""A constant up to here is a kernel size, a group count or a rank, not an extent."""
_FLOOR = 4
"""No extent is made smaller than this: tails and several programs must still occur."""
_ROUNDS = 80


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

    Halves the largest constant that the reference lets go, seen on meta tensors, until one call is
    affordable. Raises WorkbenchError when no constant can be made small enough, or when the
    reference cannot be run at all.
    """
    with Inspector(problem, workshop, 60.0) as inspector:
        seen = inspector.describe(problem.full, meta=True)
        if seen.unseen or _affordable(seen):
            return None
        extents = dict(_extents(problem.source))
        values, fixed = dict(extents), set[str]()
        for _ in range(_ROUNDS):
            name = _largest(values, fixed)
            if name is None:
                break
            tried = {**values, name: values[name] // 2}
            smaller = _seen_at(inspector, tried)
            if smaller is None:
                fixed.add(name)
                continue
            values, seen = tried, smaller
            if _affordable(seen):
                changed = {n: old for n, old in extents.items() if values[n] != old}
                shape = Shape(name="scaled", values={n: values[n] for n in changed})
                return Scaled(shape=shape, was=changed)
    raise WorkbenchError(
        "the problem is too large for Triton's interpreter, and no smaller size was found in it",
        where=str(problem.path),
        todo="run it on a machine with a GPU, or put a smaller [[shape]] into a sidecar beside it",
    )


def _affordable(seen: Described) -> bool:
    flops = sum(one.matrix_flops for one in seen.operators)
    moved = sum(one.bytes for one in seen.operators)
    return flops <= MATRIX_FLOPS and moved <= MOVED_BYTES


def _largest(values: dict[str, int], fixed: set[str]) -> str | None:
    free = {name: value for name, value in values.items() if name not in fixed and value > _FLOOR}
    return max(free, key=lambda name: free[name], default=None)


def _seen_at(inspector: Inspector, values: dict[str, int]) -> Described | None:
    """What the reference does at these values; None when it refuses them."""
    shape = Shape(name="scaled", values=dict(values))
    try:
        seen = inspector.describe(shape, meta=True)
    except WorkbenchError:
        return None
    return None if seen.unseen else seen


def _extents(source: str) -> Iterator[tuple[str, int]]:
    """Module-level constants that are integer literals; derived ones follow by themselves."""
    tree = ast.parse(source)
    literal = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target, value in _pairs(statement)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant)
    }
    for name, value in constants(tree).items():
        if name in literal and type(value) is int and value > _LEAST:
            yield name, value


def _pairs(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in statement.targets:
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            yield from zip(target.elts, statement.value.elts, strict=False)
        else:
            yield target, statement.value
