"""A small shape for a problem that has only the one of its file: what the interpreter can run.

Public KernelBench files come with one shape, of many GB. The module-level integers of such a file
are its sizes; halving them while they are even keeps what divides what.
"""

import ast
from collections.abc import Iterator, Sequence

from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.gate.problem.asking import Inspector, moved_bytes
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Constant, Problem, Shape

LIMITS = (32, 64, 128, 256)
"""Largest size of a dimension, tried in turn: a network may need room for its strides."""

SMALL_BATCH = 2
"""A batch only repeats the work; it gives way before the sizes of a layer do."""

SMALL_BYTES = 1 << 20
"""Inputs, weights and outputs that the interpreter runs in seconds (ours)."""


def with_small_shape(problem: Problem, workshop: Workshop, *, seconds: float = 60.0) -> Problem:
    """The problem with a shape `tiny` before its own, when it has one shape, a large one.

    Unchanged when it has several, is small already, or when no smaller sizes make it run: sizes
    written inside functions, or that the reference needs as they are. Never raises for what the
    problem does.
    """
    if len(problem.shapes) > 1:
        return problem
    with Inspector(problem, workshop, seconds) as inspector:
        if _bytes(inspector, problem.tiny) <= SMALL_BYTES:
            return problem
        for values in smaller(problem.source, LIMITS):
            tiny = Shape(name="tiny", values={**problem.tiny.values, **values})
            if _bytes(inspector, tiny) <= SMALL_BYTES and _runs(inspector, tiny):
                return structs.replace(problem, shapes=(tiny, *problem.shapes))
    return problem


def _bytes(inspector: Inspector, shape: Shape) -> float:
    """What the shape moves, by its shapes alone; infinite when that cannot be told."""
    try:
        return moved_bytes(inspector.describe(shape, meta=True))
    except WorkbenchError:
        return float("inf")


def _runs(inspector: Inspector, shape: Shape) -> bool:
    try:
        return bool(inspector.describe(shape, meta=False).output_entries)
    except WorkbenchError:
        return False


def smaller(source: str, upper: Sequence[int]) -> Iterator[dict[str, Constant]]:
    """Values for the file's literal integers, by limits in turn, also with small batches alone."""
    sizes = literals(source)
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


def literals(source: str) -> dict[str, int]:
    """Module-level names that are assigned an integer as such, alone or in a tuple."""
    return dict(_literals(ast.parse(source)))


def _literals(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(value))):
                if not isinstance(value, bool):
                    yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=parts)):
                for target, part in zip(names, parts, strict=False):
                    match target, part:
                        case ast.Name(id=name), ast.Constant(value=int(value)):
                            yield name, value
                        case _:
                            pass
            case _:
                pass
