"""Whether a problem can be used, what its reference takes, makes and costs, and what is odd."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

from workbench.errors import WorkbenchError
from workbench.gate.correctness.nest import ForeignLeaf, leaves
from workbench.gate.gpu_workers import spare
from workbench.gate.problem.asking import JOB_MODULES, Inspector
from workbench.gate.problem.records import (
    Described,
    Examined,
    OutputHealth,
    ProblemReport,
    ShapeReport,
)
from workbench.gate.records import Blame, Finding
from workbench.isolation.workshop import Workshop
from workbench.measure.gpulock import gpu_lock
from workbench.measure.gpuwatch import lock_name
from workbench.problems.records import Problem, Shape, WorkFloor
from workbench.problems.roofline import work_floor

__all__ = ["JOB_MODULES", "ProblemReport", "ShapeReport", "inspect_problem"]

SEEDS = tuple(range(10))
"""Draws over which an output has to vary (gate protocol, section 8.9)."""

SPREAD = 0.01
"""Share of its rms below which an output hardly varies (gate protocol, section 8.9)."""

ILL_CONDITIONED = 4.0
"""Own error over the bound from which a problem is called ill-conditioned (ours)."""


def inspect_problem(
    problem: Problem, workshop: Workshop, *, seconds: float = 60.0
) -> ProblemReport:
    """Run the reference in workers of its own and describe what was seen.

    The smallest shape runs for real where it is small enough, everything else on meta tensors (no
    memory, no time). `seconds` is the limit of each run. Raises WorkbenchError, with the person's
    own line, when the problem cannot be used: something in it raises, is not a tensor, never ends,
    or is not deterministic. On a GPU it waits for others who time there: GpuBusy.
    """
    held_since = time.monotonic()
    findings: list[Finding] = []
    with ExitStack() as stack:
        inspector = stack.enter_context(Inspector(problem, workshop, seconds))
        if workshop.device_index is not None:
            # Others may be timing on the GPU where the reference runs; they wait for no import.
            inspector.start()
            stack.enter_context(gpu_lock(lock_name(workshop.device_index), shared=True))
            held_since = time.monotonic()
            # The first candidate comes next, and each context takes a second to start.
            spare(workshop)
        first, ran = inspector.look(problem.tiny)
        if first.outputs is not None:
            _check_form(problem, first)
        if ran:
            findings += _odd(problem, inspector.examine(problem.tiny, SEEDS))
        else:
            says = f"shape {problem.tiny.name} is too large to run here: nothing was checked"
            findings.append(_odd_finding("not-examined", says, shape=problem.tiny.name))
        shapes = [_reported(problem, problem.tiny, first)]
        shapes += [_look_at(problem, shape, inspector) for shape in problem.shapes[1:]]
    return ProblemReport(
        problem=problem.name,
        shapes=tuple(shapes),
        findings=(*findings, *_unseen(shapes)),
        gpu_seconds=0.0 if workshop.device_index is None else time.monotonic() - held_since,
    )


def _look_at(problem: Problem, shape: Shape, inspector: Inspector) -> ShapeReport:
    try:
        seen, _ = inspector.look(shape, only_if_needed=True)
    except WorkbenchError as fault:
        return ShapeReport(shape=shape.name, unseen=fault.what)
    return _reported(problem, shape, seen)


def _check_form(problem: Problem, seen: Described) -> None:
    """The outputs must be tensors that a candidate can return."""
    for path, leaf in leaves(seen.outputs) if seen.outputs is not None else ():
        if isinstance(leaf, ForeignLeaf):
            at = f" at `{path}`" if path else ""
            raise WorkbenchError(
                f"the reference returns {leaf.says}{at}",
                where=str(problem.path),
                todo="return tensors, or tuples, lists and dicts of them",
            )
    if not seen.output_entries:
        raise WorkbenchError(
            "the reference returns no tensor",
            where=str(problem.path),
            todo="return what a candidate is to compute from `forward`",
        )


def _reported(problem: Problem, shape: Shape, seen: Described) -> ShapeReport:
    floor = work_floor(problem, shape)
    counted = floor is None and not seen.unseen
    if counted:
        written = sum(entry.bytes for entry in seen.output_entries)
        flops = sum(one.matrix_flops + one.elements for one in seen.operators)
        floor = WorkFloor(flops=flops, bytes=seen.read_bytes + written)
    return ShapeReport(
        shape=shape.name,
        init=seen.init,
        init_entries=seen.init_entries,
        inputs=seen.inputs,
        input_entries=seen.input_entries,
        state=seen.state,
        outputs=seen.outputs,
        output_entries=seen.output_entries,
        operators=() if seen.unseen else seen.operators,
        work=floor,
        counted=counted,
        unseen=seen.unseen,
    )


def _odd(problem: Problem, examined: Examined) -> Iterator[Finding]:
    """What makes the problem say less than it seems to. WorkbenchError when it says nothing."""
    if examined.repeat_ratio > 1:
        raise WorkbenchError(
            "the reference is not deterministic: two runs on the same inputs differ by "
            f"{examined.repeat_ratio:.3g} times the bound",
            where=str(problem.path),
            todo="take randomness (dropout, torch.rand in forward) out of it, or call .eval()",
        )
    for output in examined.outputs:
        yield from _varies(output)
    for name in examined.ignored_inputs:
        yield _odd_finding("ignores-input", f"input {name} changes nothing in the outputs")
    for name in examined.ignored_state:
        yield _odd_finding("ignores-state", f"{name} changes nothing in the outputs")
    if examined.why_not_fp64:
        says = "the reference cannot run in float64, so its native answer is used as the exact one"
        yield _odd_finding("no-fp64", f"{says}: {examined.why_not_fp64}")
    if examined.own_ratio > ILL_CONDITIONED:
        says = f"the reference's own error is {examined.own_ratio:.3g} times the bound of rounding"
        yield _odd_finding("ill-conditioned", says, ratio=examined.own_ratio)


def _varies(output: OutputHealth) -> Iterator[Finding]:
    name = f"output {output.name}" if output.name else "the output"
    if not output.finite:
        yield _odd_finding("not-finite", f"{name} holds values that are not finite")
        return
    if output.over_seeds < SPREAD:
        says = f"{name} hardly varies with the inputs: by {output.over_seeds:.2%} of its size"
        yield _odd_finding("low-variance", says, spread=output.over_seeds)
    for axis, spread in enumerate(output.along_axes):
        if spread < SPREAD:
            says = f"{name} hardly varies along axis {axis}: by {spread:.2%} of its size"
            yield _odd_finding("constant-axis", says, axis=axis, spread=spread)


def _unseen(shapes: list[ShapeReport]) -> Iterator[Finding]:
    for shape in shapes:
        if shape.unseen:
            says = f"shape {shape.shape} could not be seen without memory for it: {shape.unseen}"
            yield _odd_finding("shape-unseen", says, shape=shape.shape)


def _odd_finding(code: str, says: str, **evidence: str | float) -> Finding:
    return Finding(code=f"problem.{code}", says=says, blame=Blame.PROBLEM, evidence=dict(evidence))
