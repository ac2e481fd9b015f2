"""Computes the least work of a problem's shape from the sidecar's roofline."""

import ast

from workbench.errors import WorkbenchError
from workbench.problems.arithmetic import ArithmeticFault, evaluate
from workbench.problems.constants import constants
from workbench.problems.records import Constant, Problem, Shape, WorkFloor


def shape_constants(problem: Problem, shape: Shape) -> dict[str, Constant]:
    """All module-level constants of the problem file at `shape`, including derived ones."""
    return constants(ast.parse(problem.source), shape.values)


def work_floor(problem: Problem, shape: Shape) -> WorkFloor | None:
    """Flops and compulsory bytes at `shape`; None when the sidecar has no roofline.

    Raises WorkbenchError when its expressions cannot be evaluated.
    """
    if problem.roofline is None:
        return None
    known = shape_constants(problem, shape)
    try:
        return WorkFloor(
            flops=float(evaluate(problem.roofline.flops, known)),
            bytes=float(evaluate(problem.roofline.bytes, known)),
        )
    except ArithmeticFault as fault:
        raise WorkbenchError(
            f"the roofline of {problem.name} cannot be worked out: {fault}",
            where=f"{problem.path.with_suffix('.toml')}, shape {shape.name}",
            todo="use the file's constants, numbers, + - * / // % **, min and max",
        ) from fault
